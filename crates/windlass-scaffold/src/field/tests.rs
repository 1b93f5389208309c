use super::*;
use crate::ScaffoldError;

fn field(text: &str) -> Field {
    text.parse().unwrap_or_else(|error: ScaffoldError| panic!("{text}: {error}"))
}

#[track_caller]
fn rejected(text: &str, why: &str) {
    let error = text.parse::<Field>().unwrap_err();
    assert!(error.to_string().contains(why), "{text}: {error}");
    assert!(!error.hint().is_empty());
}

#[test]
fn fields_round_trip() {
    for text in [
        "replicas:int32=1..10,default=3",
        "title:string=1..63",
        "colour:enum(red|dark-green)?",
        "tags:[]string?=..5",
        "size:enum(1|2x|self|+|*),default=1",
        "labels:map?",
        "limits:map[string]quantity=..3",
        "pod:object?",
        "pod.image:string=1..",
        "pod.ports:[]object=1..",
        "pod.ports.number:int32=1..65535",
        "times:[]time?",
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
fn invalid_fields_are_rejected_with_a_reason() {
    rejected("size", "it has no type");
    rejected("Size:int", "must consist of letters and digits in camelCase");
    rejected("size:integer", "unknown type \"integer\"");
    rejected("size:int=3", "\"3\" is not a range");
    rejected("size:int=a..b", "\"a\" is not a number");
    rejected("size:int=1.5..2", "1.5 is not an integer");
    rejected("size:int32=1..3000000000", "3000000000 is not an integer");
    rejected("size:int=5..1", "the range from 5 to 1 is empty");
    rejected("size:int=1..3,default=7", "\"7\" is out of range");
    rejected("on:bool,default=maybe", "\"maybe\" is not a valid bool");
    rejected("on:bool=0..1", "a bool cannot have a range");
    rejected("colour:enum(red|Red)", "\"Red\" is too similar to \"red\": both become Red in Rust");
    rejected("colour:enum(red|red)", "\"red\" occurs twice");
    rejected("colour:enum()", "an enum value is empty");
    rejected("colour:enum(a\\|b)", "contains a quote, a backslash or a line break");
    rejected("colour:enum(red", "enum( has no )");
    rejected("colour:enum(red),default=blue", "\"blue\" is not a valid enum(red)");
    rejected("all:[][]string", "lists of []string are not supported: use objects that have the field");
    rejected("all:map[string]map", "maps of map are not supported");
    rejected("pod:object=1..2", "an object cannot have a range");
    rejected("pod:object,default=a", "an object cannot have a default here");
    rejected("pods:[]object,example=a", "a []object cannot have an example here");
    rejected("pod..image:string", "must consist of letters");
    rejected("code:string,pattern=^a+$", "cannot derive a sample value");
    rejected("tags:[]string,default=a", "cannot have a default here");
    rejected("wait:duration,default=1hour", "is not a valid duration");
    rejected("size:int,default=1,default=2", "default is given twice");
    rejected("size:int,doc=one\ntwo", "control character");
    rejected("size:[]int=50..", "too large");
    rejected("size:int!", "unknown type \"int!\"");
}

#[test]
fn patterns_are_those_of_the_server_and_values_match_them() {
    rejected("a:string?,pattern=[", "the API server rejects the pattern: error parsing regexp: missing closing ]: `[`");
    rejected("a:string?,pattern=*", "missing argument to repetition operator: `*`");
    for pattern in ["^(?!x).*$", "^(?=x).*$", "(?<=a)b", "(?<!a)b", r"(a)\1"] {
        let error = format!("a:string?,pattern={pattern}").parse::<Field>().unwrap_err();
        assert!(error.to_string().contains("the API server rejects the pattern"), "{error}");
        assert!(error.hint().contains("CEL"), "{}", error.hint());
    }
    rejected("a:string,pattern=^[a-z]+$,default=A", "the default \"A\" does not match the pattern ^[a-z]+$");
    rejected("a:string,pattern=^[a-z]+$,example=1", "the example \"1\" does not match");
    rejected("a:string,pattern=^[a-z]+$,default=a,example=1", "the example \"1\" does not match");
    // The semantics of Go: `\d` matches ASCII digits, and a match can be anywhere.
    rejected("a:string,pattern=^\\d$,example=\u{664}", "does not match");
    field("a:string,pattern=b+,example=abc");
    field(r"a:string,pattern=^\d{2}\pL$,default=12ü");
}

#[test]
fn identifiers_map_back_to_names_with_serde() {
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
fn samples_satisfy_their_constraints() {
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
fn values_outside_of_a_range_are_found() {
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

#[test]
fn types_of_other_languages_have_hints() {
    for (text, hint) in [
        ("size:integer", "write int32 or int64"),
        ("size:u32", "write int64 with the range 0.."),
        ("names:list", "write []TYPE for a list, for example []string"),
        ("names:Vec<String>", "write []TYPE for a list, for example []string"),
        ("names:string[]", "write a list as []string"),
        ("names:map[int]string", "keys of maps are strings: write map[string]TYPE"),
        ("names:map[int]", "keys of maps are strings: write map[string]int"),
        ("pod:{image:string}", "declare an object and then its fields"),
        ("pod:object(image:string)", "declare an object and then its fields"),
        ("pod:struct", "declare an object and then its fields"),
        ("size:moon", "types are string, int"),
    ] {
        let error = text.parse::<Field>().unwrap_err();
        assert!(error.hint().contains(hint), "{text}: {}", error.hint());
    }
}
