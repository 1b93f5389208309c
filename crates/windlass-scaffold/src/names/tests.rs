use super::*;

#[test]
fn project_names_are_labels_and_crate_names() {
    for name in ["a", "guestbook", "my-operator-2"] {
        assert_eq!(check_project(name), Ok(()), "{name}");
    }
    for (name, suggested) in [
        ("Guestbook", "guestbook"),
        ("my_operator", "my-operator"),
        ("2fast", "my-2fast"),
        ("-", "my"),
        ("", "my"),
        ("kube", "kube-operator"),
        ("loop", "loop-operator"),
        ("serde-json", "serde-json-operator"),
        ("build", "build-operator"),
        ("deps", "deps-operator"),
        ("examples", "examples-operator"),
        ("incremental", "incremental-operator"),
        (&"a".repeat(64), &"a".repeat(40)),
        (&format!("{}-b", "a".repeat(39)).repeat(2), &"a".repeat(39)),
    ] {
        let error = check_project(name).unwrap_err();
        assert_eq!(error.hint(), format!("try {suggested:?}"), "{name}");
        assert_eq!(check_project(suggested), Ok(()), "{suggested}");
    }
    for length in [55, 64, 300] {
        let error = check_project(&"a".repeat(length)).unwrap_err().to_string();
        assert!(error.ends_with("must be no more than 54 characters: Services and a namespace are named after it"));
    }
}

#[test]
fn domains_and_groups_are_dns_names() {
    for domain in ["example.com", "my.domain", "a.b.c-d"] {
        assert_eq!(check_domain(domain), Ok(()), "{domain}");
    }
    for domain in ["", "com", "Example.com", "a..b", ".com", "a_b.com"] {
        assert!(check_domain(domain).is_err(), "{domain}");
    }
    for group in ["apps", "networking.k8s.io"] {
        assert_eq!(check_group(group), Ok(()), "{group}");
    }
    for group in ["", "Apps", "a.", "a/b"] {
        assert!(check_group(group).is_err(), "{group}");
    }
}

#[test]
fn versions_follow_the_kubernetes_convention() {
    for version in ["v1", "v10", "v1alpha1", "v2beta13"] {
        assert_eq!(check_version(version), Ok(()), "{version}");
    }
    for version in ["", "1", "v", "v0", "v01", "V1", "v1alpha", "v1gamma1", "v1beta0", "v1.2", "v1alpha1beta1"] {
        assert!(check_version(version).is_err(), "{version}");
    }
}

#[test]
fn versions_are_ordered_by_stage_first() {
    let mut versions = vec!["v1beta2", "v2", "v1alpha1", "v1", "v1api2", "v1beta1", "v2alpha1", "latest", "v10"];
    versions.sort_by_key(|version| version_order(version));
    assert_eq!(versions, ["v1api2", "latest", "v1alpha1", "v2alpha1", "v1beta1", "v1beta2", "v1", "v2", "v10"]);
}

#[test]
fn kinds_are_in_camel_case_and_not_those_of_generated_code() {
    for kind in ["Guestbook", "CronTab", "HTTPRoute", "A1", "Type"] {
        assert_eq!(check_kind(kind), Ok(()), "{kind}");
    }
    for (kind, suggested) in [
        ("guestbook", "Guestbook"),
        ("Cron-Tab", "CronTab"),
        ("cron_tab", "CronTab"),
        ("Controller", "MyController"),
        ("BookList", "Book"),
        ("", "My"),
        (&"A".repeat(64), &format!("A{}", "a".repeat(39))),
    ] {
        assert_eq!(check_kind(kind).unwrap_err().hint(), format!("try {suggested:?}"), "{kind}");
        assert_eq!(check_kind(suggested), Ok(()), "{suggested}");
    }
    assert!(check_kind(&"A".repeat(64)).unwrap_err().to_string().ends_with("must be no more than 63 characters"));
}

#[test]
fn plurals_are_labels() {
    assert_eq!(check_plural("books"), Ok(()));
    let error = check_plural(&"a".repeat(64)).unwrap_err();
    assert!(error.to_string().ends_with("must be no more than 63 characters"), "{error}");
    assert_eq!(error.hint(), format!("try {:?}", "a".repeat(40)));
    let error = check_plural("Books").unwrap_err();
    assert!(error.to_string().contains("must consist of lower-case letters"), "{error}");
}

#[test]
fn suggested_field_names_are_valid() {
    let long = "a".repeat(64);
    for (name, suggested) in [
        ("é", "field"),
        ("1a", "a"),
        ("1", "field1"),
        ("Size", "size"),
        ("1A", "a"),
        ("", "field"),
        (&long, &long[..40]),
    ] {
        assert_eq!(check_field(name).unwrap_err().hint(), format!("try {suggested:?}"), "{name}");
        assert_eq!(check_field(suggested), Ok(()), "{suggested}");
    }
    assert!(check_field(&long).unwrap_err().to_string().ends_with("must be no more than 63 characters"));
}

#[test]
fn invalid_identifiers_get_invented_variants() {
    let words = ["red", "1", "self", "+", "", "2x-y"].map(str::to_owned);
    assert_eq!(variants(&words), ["Red", "N1", "SelfValue", "Value4", "Value5", "N2xY"]);
}

#[test]
fn foreign_names_may_be_any_that_kubernetes_accepts() {
    for (kind, expected) in [
        ("Certificate", "Certificate"),
        ("Operator", "OperatorObject"),
        ("operator", "OperatorObject"),
        ("foo", "Foo"),
        ("HTTPRoute", "HTTPRoute"),
        ("my-kind", "MyKind"),
        ("PriceList", "PriceList"),
        ("self", "SelfObject"),
    ] {
        assert_eq!(check_foreign_kind(kind), Ok(()), "{kind}");
        assert_eq!(type_name(kind), expected, "{kind}");
    }
    for word in TYPES.split(' ') {
        assert_eq!(check_foreign_kind(word), Ok(()));
        assert_eq!(type_name(word), format!("{word}Object"));
    }
    for (version, expected) in [
        ("v1", "v1"),
        ("v1api20200601", "v1api20200601"),
        ("latest", "latest"),
        ("type", "type_"),
        ("self", "self_"),
        ("std", "std_"),
        ("a-b", "a_b"),
    ] {
        assert_eq!(check_foreign_version(version), Ok(()), "{version}");
        assert_eq!(version_module(version), expected, "{version}");
    }
    for name in ["", "1", "a_b", "é", "a.b", &"a".repeat(64)] {
        assert!(check_foreign_kind(name).is_err(), "{name}");
        assert!(check_foreign_version(name).is_err(), "{name}");
    }
}

#[test]
fn names_are_split_into_words() {
    for (name, expected) in [
        ("CronTab", "cron_tab"),
        ("HTTPRoute", "http_route"),
        ("podCIDR", "pod_cidr"),
        ("configMapName", "config_map_name"),
        ("IPv4Pool", "i_pv4_pool"),
        ("S3Bucket", "s3_bucket"),
        ("already_there", "already_there"),
    ] {
        assert_eq!(snake(name), expected, "{name}");
    }
    assert_eq!(lower_camel("config_map_name"), "configMapName");
    assert_eq!(lower_camel("pod_cidr"), "podCidr");
    assert_eq!(upper_camel("http_route"), "HttpRoute");
}

#[test]
fn plurals_are_those_of_english() {
    for (kind, expected) in [
        ("Guestbook", "guestbooks"),
        ("Policy", "policies"),
        ("Gateway", "gateways"),
        ("Ingress", "ingresses"),
        ("Box", "boxes"),
        ("Patch", "patches"),
        ("Y", "ies"),
    ] {
        assert_eq!(plural(kind), expected, "{kind}");
    }
}
