use super::*;
use crate::ScaffoldError;

fn field(text: &str) -> Field {
    text.parse().unwrap_or_else(|error: ScaffoldError| panic!("{text}: {error}"))
}

#[track_caller]
fn refused(text: &str, why: &str) {
    let error = text.parse::<Field>().unwrap_err();
    assert!(error.to_string().contains(why), "{text}: {error}");
    assert!(!error.hint().is_empty());
}

#[test]
fn what_is_written_is_read_again() {
    for text in [
        "replicas:int32=1..10,default=3",
        "title:string=1..63",
        "colour:enum(red|dark-green)?",
        "tags:[]string?=..5",
        "size:enum(1|2x|self|+|*),default=1",
        "labels:map?",
        "ratio:number=0.5..1.5",
        "code:string,pattern=^[a-z]{1,3}$,example=abc,doc=A code, as on the label.",
        "timeout:duration,default=30s",
        "memory:quantity",
        "at:time?",
    ] {
        assert_eq!(field(text).to_string(), text);
    }
    assert_eq!(field("size:int").to_string(), "size:int64");
    assert_eq!(field("size?:int32,min=1").to_string(), "size:int32?=1..");
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    refused("size", "it has no type");
    refused("Size:int", "must be letters and digits in camelCase");
    refused("size:integer", "there is no type \"integer\"");
    refused("size:int=3", "\"3\" is no range");
    refused("size:int=a..b", "\"a\" is no number");
    refused("size:int=1.5..2", "1.5 is no whole number");
    refused("size:int32=1..3000000000", "3000000000 is no whole number");
    refused("size:int=5..1", "nothing is between 5 and 1");
    refused("size:int=1..3,default=7", "\"7\" is not within its range");
    refused("on:bool,default=maybe", "\"maybe\" is no bool");
    refused("on:bool=0..1", "a bool has no range");
    refused("colour:enum(red|Red)", "\"Red\" is too much like \"red\": both are Red in Rust");
    refused("colour:enum(red|red)", "\"red\" is there twice");
    refused("colour:enum()", "one of the words of the enumeration is empty");
    refused("colour:enum(a\\|b)", "has a quote, a backslash or a line break in it");
    refused("colour:enum(red", "enum( has no )");
    refused("colour:enum(red),default=blue", "\"blue\" is no enum(red)");
    refused("all:[][]string", "lists of []string");
    refused("code:string,pattern=^a+$", "its pattern cannot be turned into a value");
    refused("tags:[]string,default=a", "has no default here");
    refused("wait:duration,default=1hour", "is no duration");
    refused("size:int,default=1,default=2", "default is given twice");
    refused("size:int,doc=one\ntwo", "line break");
    refused("size:[]int=50..", "too much to ask");
    refused("size:int!", "there is no type \"int!\"");
}

#[test]
fn patterns_are_those_of_the_server_and_values_match_them() {
    refused("a:string?,pattern=[", "no server takes its pattern: error parsing regexp: missing closing ]: `[`");
    refused("a:string?,pattern=*", "missing argument to repetition operator: `*`");
    for pattern in ["^(?!x).*$", "^(?=x).*$", "(?<=a)b", "(?<!a)b", r"(a)\1"] {
        let error = format!("a:string?,pattern={pattern}").parse::<Field>().unwrap_err();
        assert!(error.to_string().contains("no server takes its pattern"), "{error}");
        assert!(error.hint().contains("CEL"), "{}", error.hint());
    }
    refused("a:string,pattern=^[a-z]+$,default=A", "its default \"A\" does not match its pattern ^[a-z]+$");
    refused("a:string,pattern=^[a-z]+$,example=1", "its example \"1\" does not match");
    refused("a:string,pattern=^[a-z]+$,default=a,example=1", "its example \"1\" does not match");
    // As Go reads it: digits are those of ASCII, and a match may be anywhere.
    refused("a:string,pattern=^\\d$,example=\u{664}", "does not match");
    field("a:string,pattern=b+,example=abc");
    field(r"a:string,pattern=^\d{2}\pL$,default=12ü");
}

#[test]
fn names_become_identifiers_that_serde_finds_again() {
    for (name, ident, rename) in [
        ("configMapName", "config_map_name", false),
        ("type", "r#type", false),
        ("self", "self_", false),
        ("podCIDR", "pod_cidr", true),
        ("replicas", "replicas", false),
    ] {
        let field = field(&format!("{name}:string"));
        assert_eq!((field.ident().as_str(), field.needs_rename()), (ident, rename), "{name}");
    }
}

#[test]
fn samples_fit_their_constraints() {
    for (text, sample) in [
        ("a:string", "example"),
        ("a:string=..3", "exa"),
        ("a:string=9..", "examplexx"),
        ("a:int32=5..10", "5"),
        ("a:int32=..-3", "-3"),
        ("a:number=2..", "2.0"),
        ("a:int32=1..10,default=3", "3"),
        ("a:enum(x|y)", "x"),
    ] {
        assert_eq!(field(text).sample(), sample, "{text}");
    }
}

#[test]
fn what_a_range_forbids_is_known() {
    for (text, forbidden) in [
        ("a:int32=1..10", Some("11")),
        ("a:int64=1..", Some("0")),
        ("a:int32=..2147483647", None),
        ("a:string=1..", Some("String::new()")),
        ("a:string=..3", Some("\"x\".repeat(4)")),
        ("a:int32?=1..10", None),
        ("a:bool", None),
    ] {
        assert_eq!(field(text).forbidden().as_deref(), forbidden, "{text}");
    }
}
