use proptest::{prelude::*, sample::select};

use super::find;

/// All supported formats.
const NAMES: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "date-time",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8s-long-name",
    "k8s-short-name",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

fn check(format: &str, good: &[&str], bad: &[&str]) {
    let is = find(format).expect("the format must be known");
    for text in good {
        assert!(is(text), "{text:?} is of format {format}");
    }
    for text in bad {
        assert!(!is(text), "{text:?} is not of format {format}");
    }
}

#[test]
fn format_names_ignore_dashes() {
    assert!(find("date-time").is_some() && find("datetime").is_some() && find("k8s-short-name").is_some());
    assert!(find("int32").is_none() && find("Date").is_none());
}

#[test]
fn dates_must_exist_and_times_are_parsed_leniently() {
    check("date", &["2020-02-29", "0000-01-01"], &["2019-02-29", "2020-2-1", "2020-13-01", "2020-01-01T"]);
    check(
        "date-time",
        &["2020-01-01T00:00:00Z", "2020-01-01t23:59:59z", "2020-01-01T00:00:00,5+01:00", "2020-01-01T00:00:00Ztx"],
        &["2020-01-01T24:00:00Z", "2020-01-01T00:00:60Z", "2020-01-01 00:00:00Z", "2020-01-01T00:00:00", ""],
    );
    check("duration", &["1h30m", "3 days", "7 µs", "1 hourglass", "0"], &["1", "5 x", "9999999999999999999d", ""]);
}

#[test]
fn a_uri_is_absolute_or_an_absolute_path() {
    check(
        "uri",
        &["http://a.b/c", "/path", "mailto:a@b", "*", "http://[::1]:80/", "http://[fe80::1%25en0]/", "ftp://a:1:2/"],
        &["", "a/b", "http://a b/", "/a%zz", "http://a:b/", "http://a:1:2/", "http://[1.2.3.4]/", ":x", "/a\n"],
    );
}

#[test]
fn an_email_is_one_address() {
    check(
        "email",
        &["a@b", "A B <a@b>", "\"q s\"@d", "a@[1.2.3.4]", "a@b (comment)", "g: a@b;", "é@b"],
        &["a", "a..b@c", "\"\"@c", "g: a@b, c@d;", "g:;", "a@b,", "a@[IPv6:::1]", "=?foo?q?x?= <a@b>", "(c) a@b"],
    );
}

#[test]
fn host_names_may_have_symbols_but_end_in_letters() {
    check(
        "hostname",
        &["a", "a-", "a.bc", "1", "☃.com", "日本.jp"],
        &["", "a.b", "-a.com", "a-.com", "a--b", "a.c0m", "a.com."],
    );
    check("hostname", &["x".repeat(63).as_str()], &["x".repeat(64).as_str()]);
}

#[test]
fn ip_addresses_are_parsed_leniently() {
    check("ipv4", &["1.2.3.4", "01.02.3.4", "::ffff:1.2.3.4"], &["256.1.1.1", "1.2.3", "::1"]);
    check("ipv6", &["::1", "::ffff:1.2.3.4"], &["::ffff:01.2.3.4", "fe80::1%en0", "1.2.3.4"]);
    check("cidr", &["1.2.3.4/24", "::/0", "01.2.3.4/8"], &["1.2.3.4/33", "1.2.3.4", "a/8"]);
    check("mac", &["00:11:22:33:44:55", "0011.2233.4455", "001122334455"], &["00:11-22:33:44:55", "00:11:22:33:44:5"]);
}

#[test]
fn identifiers_and_numbers_have_their_check_digits() {
    check(
        "uuid",
        &["123e4567-e89b-12d3-a456-426614174000", "123E4567e89b12d3a456426614174000"],
        &["123e4567--e89b-12d3-a456-426614174000"],
    );
    check(
        "uuid4",
        &["123e4567-e89b-42d3-a456-426614174000"],
        &["123e4567-e89b-42d3-c456-426614174000", "123e4567-e89b-12d3-a456-426614174000"],
    );
    check("isbn", &["0321751043", "978-0321751041", "0 8044 2957 X"], &["0321751044", "080442957x"]);
    check("creditcard", &["4111-1111-1111-1111"], &["4111111111111112"]);
    check("ssn", &["111-11-1111", "111 11-1111"], &["111111111"]);
    check("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77bcf86cd79943901"]);
}

#[test]
fn other_formats_match_their_names() {
    check("hexcolor", &["#fff", "FFFFFF"], &["#ffff", "##fff"]);
    check("rgbcolor", &["rgb(0, 255 ,1)"], &["rgb(256,0,0)", "rgb(00,0,0)", "rgb(1,2)"]);
    check("byte", &["aGk=", "YQ=="], &["", "aGk", "a-_b", "===="]);
    check("password", &["", "anything"], &[]);
    check("k8s-short-name", &["a-b"], &["a-", "A", "a.b"]);
    check("k8s-long-name", &["a.b-c"], &["a..b", "a.-b"]);
}

proptest! {
    #[test]
    fn any_text_can_be_checked_against_any_format(name in select(NAMES.to_vec()), text in prop_oneof!["\\PC*", ".{0,40}", "[0-9a-fA-F:./@%+ -]{0,60}"]) {
        let known = find(name).expect("a format");
        known(&text);
    }
}

#[test]
fn long_texts_take_linear_time() {
    let start = std::time::Instant::now();
    for name in NAMES {
        let known = find(name).expect("a format");
        for piece in ["a", "1", ":", ".", "a.", "1:", "@", "(", "%", "é", "-"] {
            known(&piece.repeat(200_000 / piece.len()));
        }
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
}
