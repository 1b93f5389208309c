use expect_test::{Expect, expect};

use super::*;
use crate::field::Path;

fn check(rule: fn(&str) -> Vec<String>, values: &[&str], expected: Expect) {
    let mut out = String::new();
    for value in values {
        let _ = writeln!(out, "{value:?}: {:?}", rule(value));
    }
    expected.assert_eq(&out);
}

#[test]
fn invalid_labels_are_described() {
    check(
        is_dns1123_label,
        &["a", "a-1", "", "A", "-a", "a.b", &"a".repeat(64)],
        expect![[r#"
        "a": []
        "a-1": []
        "": ["a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"]
        "A": ["a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"]
        "-a": ["a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"]
        "a.b": ["must not contain dots"]
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": ["must be no more than 63 characters"]
    "#]],
    );
}

#[test]
fn the_prefix_and_name_of_qualified_names_are_validated_separately() {
    check(
        is_qualified_name,
        &["a", "x.y/Z", "/a", "a/", "a/b/c", "UP/a", "a b"],
        expect![[r#"
        "a": []
        "x.y/Z": []
        "/a": ["prefix part must be non-empty"]
        "a/": ["name part must be non-empty", "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]
        "a/b/c": ["a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
        "UP/a": ["prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]
        "a b": ["name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]
    "#]],
    );
}

#[test]
fn all_errors_of_port_names_are_reported() {
    check(
        is_valid_port_name,
        &["http", "-", "a--b", "12", "", "aaaaaaaaaaaaaaaa"],
        expect![[r#"
        "http": []
        "-": ["must contain at least one letter (a-z)", "must not begin or end with a hyphen"]
        "a--b": ["must not contain consecutive hyphens"]
        "12": ["must contain at least one letter (a-z)"]
        "": ["must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)", "must contain at least one letter (a-z)"]
        "aaaaaaaaaaaaaaaa": ["must be no more than 15 characters"]
    "#]],
    );
}

#[test]
fn a_prefix_may_end_in_a_dash() {
    assert!(name_is_dns_subdomain("abc-", true).is_empty());
    assert!(!name_is_dns_subdomain("abc-", false).is_empty());
    assert!(name_is_dns_label("--", true).is_empty(), "the mask replaces both dashes, as in kube-apiserver");
}

#[test]
fn values_at_the_limits_are_valid() {
    assert!(is_dns1123_label(&"a".repeat(63)).is_empty());
    assert!(is_dns1123_subdomain(&"a".repeat(253)).is_empty());
    assert!(is_valid_label_value("").is_empty());
    assert!(is_config_map_key("..").contains(&"must not be '..'".to_owned()));
    assert!(is_relaxed_env_var_name("1 x").is_empty());
    assert!(!is_relaxed_env_var_name("a=b").is_empty());
    assert!(is_valid_percent("100%").is_empty() && !is_valid_percent("%").is_empty());
    assert!(is_wildcard_dns1123_subdomain("*.example.com").is_empty());
    assert!(!is_wildcard_dns1123_subdomain("*.*.com").is_empty());
    assert!(is_dns1123_subdomain_with_underscore("_a.b_c").is_empty());
}

#[test]
fn addresses_are_validated_strictly() {
    let path = Path::new("ip");
    let mut out = String::new();
    for ip in ["10.0.0.1", "010.0.0.1", "::ffff:1.2.3.4", "FE80::1", "1.2.3", "x", "::", "1::2::3", "1:2:3:4:5:6:7:8"] {
        let _ = writeln!(out, "{ip}: {:?}", is_valid_ip(&path, ip).iter().map(|e| e.body()).collect::<Vec<_>>());
    }
    for cidr in ["10.0.0.0/8", "10.0.0.1/8", "10.0.0.0/08", "10.0.0.0/33", "fd00:0::/64", "::ffff:1.2.3.0/120"] {
        let _ = writeln!(out, "{cidr}: {:?}", is_valid_cidr(&path, cidr).iter().map(|e| e.body()).collect::<Vec<_>>());
        let _ = writeln!(out, "  {:?}", cidr_warnings(&path, cidr));
    }
    expect![[r#"
        10.0.0.1: []
        010.0.0.1: ["Invalid value: \"010.0.0.1\": must not have leading 0s"]
        ::ffff:1.2.3.4: ["Invalid value: \"::ffff:1.2.3.4\": must not be an IPv4-mapped IPv6 address"]
        FE80::1: ["Invalid value: \"FE80::1\": must be in canonical form (\"fe80::1\")"]
        1.2.3: ["Invalid value: \"1.2.3\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
        x: ["Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
        ::: []
        1::2::3: ["Invalid value: \"1::2::3\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
        1:2:3:4:5:6:7:8: []
        10.0.0.0/8: []
          []
        10.0.0.1/8: ["Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length"]
          ["ip: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)"]
        10.0.0.0/08: ["Invalid value: \"10.0.0.0/08\": must not have leading 0s in IP or prefix length"]
          ["ip: non-standard CIDR value \"10.0.0.0/08\" is invalid: use \"10.0.0.0/8\""]
        10.0.0.0/33: ["Invalid value: \"10.0.0.0/33\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
          []
        fd00:0::/64: ["Invalid value: \"fd00:0::/64\": must be in canonical form (\"fd00::/64\")"]
          ["ip: IPv6 CIDR value \"fd00:0::/64\" should be in RFC 5952 canonical format (\"fd00::/64\")"]
        ::ffff:1.2.3.0/120: ["Invalid value: \"::ffff:1.2.3.0/120\": must not have an IPv4-mapped IPv6 address"]
          ["ip: non-standard CIDR value \"::ffff:1.2.3.0/120\" is invalid: use \"1.2.3.0/24\""]
    "#]]
    .assert_eq(&out);
}
