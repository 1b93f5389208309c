use std::fmt::Write;

use expect_test::expect;
use proptest::prelude::*;

use super::*;

#[test]
fn quantities_are_printed_in_canonical_form() {
    let mut out = String::new();
    for text in TEXTS {
        match Quantity::parse(text) {
            Ok(q) => writeln!(out, "{text} -> {q} value={} milli={}", q.value(), q.milli_value()),
            Err(error) => writeln!(out, "{text} -> error: {error}"),
        }
        .expect("a string takes all");
    }
    expect![[r#"
        0 -> 0 value=0 milli=0
        0Ki -> 0 value=0 milli=0
        -0 -> 0 value=0 milli=0
        1000m -> 1 value=1 milli=1000
        1 -> 1 value=1 milli=1000
        1.5 -> 1500m value=2 milli=1500
        1500m -> 1500m value=2 milli=1500
        1.500 -> 1.500 value=2 milli=1500
        1.5Gi -> 1536Mi value=1610612736 milli=1610612736000
        1024Mi -> 1Gi value=1073741824 milli=1073741824000
        1025Ki -> 1025Ki value=1049600 milli=1049600000
        8Ki -> 8Ki value=8192 milli=8192000
        512 -> 512 value=512 milli=512000
        1000 -> 1k value=1000 milli=1000000
        1000E -> 1 value=9223372036854775807 milli=9223372036854775807
        0.5 -> 500m value=1 milli=500
        0.0001 -> 100u value=1 milli=1
        1n -> 1n value=1 milli=1
        0.1n -> 1n value=1 milli=1
        1e3 -> 1e3 value=1000 milli=1000000
        1E3 -> 1E3 value=1000 milli=1000000
        1e-3 -> 1e-3 value=1 milli=1
        12e6 -> 12e6 value=12000000 milli=12000000000
        1e100 -> 10e99 value=9223372036854775807 milli=9223372036854775807
        100000 -> 100k value=100000 milli=100000000
        123456789012345678901 -> 123456789012345678901 value=9223372036854775807 milli=9223372036854775807
        9223372036854775807 -> 9223372036854775807 value=9223372036854775807 milli=9223372036854775807
        9223372036854775808 -> 9223372036854775808 value=9223372036854775807 milli=9223372036854775807
        1Ei -> 1Ei value=1152921504606846976 milli=9223372036854775807
        8Ei -> 9223372036854775807 value=9223372036854775807 milli=9223372036854775807
        16Ei -> 9223372036854775807 value=9223372036854775807 milli=9223372036854775807
        7Ei -> 7Ei value=8070450532247928832 milli=9223372036854775807
        0.5Ki -> 512 value=512 milli=512000
        1.1Ki -> 1126400m value=1127 milli=1126400
        0.0001Ki -> 102400u value=1 milli=103
        +1 -> +1 value=1 milli=1000
        -1 -> -1 value=-1 milli=-1000
        -1.5Gi -> -1536Mi value=-1610612736 milli=-1610612736000
        01 -> 01 value=1 milli=1000
        Ki -> 0 value=0 milli=0
        m -> 0 value=0 milli=0
        - -> 0 value=0 milli=0
        . -> 0 value=0 milli=0
        1. -> 1. value=1 milli=1000
        1.Ki -> 1.Ki value=1024 milli=1024000
        .5 -> 500m value=1 milli=500
         -> error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
        1x -> error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
        1K -> error: unable to parse quantity's suffix
        1mm -> error: unable to parse quantity's suffix
        1e -> error: unable to parse quantity's suffix
        abc -> error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
        1  -> error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
        --1 -> error: unable to parse quantity's suffix
        1.2.3 -> error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
        1e1.5 -> error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
        100Mi -> 100Mi value=104857600 milli=104857600000
        3T -> 3T value=3000000000000 milli=3000000000000000
        5P -> 5P value=5000000000000000 milli=5000000000000000000
        1000Ki -> 1000Ki value=1024000 milli=1024000000
        2048Ki -> 2Mi value=2097152 milli=2097152000
        1023 -> 1023 value=1023 milli=1023000
        1e-10 -> 1e-9 value=1 milli=1
        1e9 -> 1e9 value=1000000000 milli=1000000000000
        1500e3 -> 1500e3 value=1500000 milli=1500000000
        1e99999999999 -> 10e1215752190 value=9223372036854775807 milli=9223372036854775807
        0.000000001 -> 1n value=1 milli=1
        999999999999999999 -> 999999999999999999 value=999999999999999999 milli=9223372036854775807
        1000000000000000000 -> 1E value=1000000000000000000 milli=9223372036854775807
        12345678901234567890m -> 12345678901234567890m value=12345678901234568 milli=9223372036854775807
        0.3Gi -> 322122547200m value=322122548 milli=322122547200
        100.000 -> 100 value=100 milli=100000
        10.00 -> 10 value=10 milli=10000
        1.000k -> 1k value=1000 milli=1000000
    "#]]
    .assert_eq(&out);
}
const TEXTS: &[&str] = &[
    "0",
    "0Ki",
    "-0",
    "1000m",
    "1",
    "1.5",
    "1500m",
    "1.500",
    "1.5Gi",
    "1024Mi",
    "1025Ki",
    "8Ki",
    "512",
    "1000",
    "1000E",
    "0.5",
    "0.0001",
    "1n",
    "0.1n",
    "1e3",
    "1E3",
    "1e-3",
    "12e6",
    "1e100",
    "100000",
    "123456789012345678901",
    "9223372036854775807",
    "9223372036854775808",
    "1Ei",
    "8Ei",
    "16Ei",
    "7Ei",
    "0.5Ki",
    "1.1Ki",
    "0.0001Ki",
    "+1",
    "-1",
    "-1.5Gi",
    "01",
    "Ki",
    "m",
    "-",
    ".",
    "1.",
    "1.Ki",
    ".5",
    "",
    "1x",
    "1K",
    "1mm",
    "1e",
    "abc",
    "1 ",
    "--1",
    "1.2.3",
    "1e1.5",
    "100Mi",
    "3T",
    "5P",
    "1000Ki",
    "2048Ki",
    "1023",
    "1e-10",
    "1e9",
    "1500e3",
    "1e99999999999",
    "0.000000001",
    "999999999999999999",
    "1000000000000000000",
    "12345678901234567890m",
    "0.3Gi",
    "100.000",
    "10.00",
    "1.000k",
];

#[test]
fn sums_keep_the_format_of_the_first_operand() {
    let sum = |a: &str, b: &str| {
        let mut a = Quantity::parse(a).expect("a must parse");
        let b = Quantity::parse(b).expect("b must parse");
        let mut difference = a.clone();
        difference.sub(&b);
        a.add(&b);
        format!("{a} {difference}")
    };
    expect!["1500m 500m"].assert_eq(&sum("1", "500m"));
    expect!["2Gi 0"].assert_eq(&sum("1Gi", "1Gi"));
    expect!["1Gi -1Gi"].assert_eq(&sum("0", "1Gi"));
    expect!["1k -1k"].assert_eq(&sum("0", "1k"));
    expect!["1025 1023"].assert_eq(&sum("1Ki", "1"));
}

#[test]
fn order_is_by_value() {
    let mut all: Vec<_> = ["1Gi", "1G", "-1", "0", "1e30", "1m", "999m", "1", "-1e30"]
        .iter()
        .map(|t| Quantity::parse(t).expect("a quantity must parse"))
        .collect();
    all.sort();
    let text: Vec<_> = all.iter().map(ToString::to_string).collect();
    expect!["-1e30 -1 0 1m 999m 1 1G 1Gi 1e30"].assert_eq(&text.join(" "));
    assert_eq!(Quantity::parse("1000m"), Quantity::parse("1"));
}

proptest! {
    #[test]
    fn any_text_parses_without_panic(text in "\\PC*") {
        let _ = Quantity::parse(&text).map(|q| (q.to_string(), q.value(), q.milli_value()));
    }

    #[test]
    fn canonical_text_parses_back_to_an_equal_quantity(text in "[+-]?[0-9]{1,30}(\\.[0-9]{0,12})?(|n|u|m|k|M|G|Ki|Mi|Gi|Ei|e[0-9]{1,2})") {
        let q = Quantity::parse(&text).expect("the pattern must compile");
        prop_assert_eq!(Quantity::parse(&q.to_string()).map(|q| q.to_string()), Ok(q.to_string()));
    }

    #[test]
    fn sums_and_comparisons_never_panic(a in "[+-]?[0-9]{1,45}(\\.[0-9]{0,12})?(|n|E|Ei|e-?[0-9]{1,11})", b in "[0-9]{1,40}(|n|E|Ei|e-?[0-9]{1,11})") {
        if let (Ok(mut a), Ok(b)) = (Quantity::parse(&a), Quantity::parse(&b)) {
            let _ = a.cmp(&b);
            a.add(&b);
            a.sub(&b);
            let _ = a.to_string();
        }
    }
}
