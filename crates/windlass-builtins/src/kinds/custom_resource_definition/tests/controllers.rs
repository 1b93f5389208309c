//! The typed view, and the decisions of the controllers.

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::kinds::custom_resource_definition::{
    Conversion, Definition, accept_names, api_approval, check_structural, conditions, establish,
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a time")
}

fn named(plural: &str, kind: &str, short: &[&str]) -> Value {
    let object = definition(json!({"type": "object"}));
    let names = json!({"plural": plural, "kind": kind, "shortNames": short});
    let name = format!("{plural}.harbour.example.com");
    created(changed(&object, json!({"/metadata/name": name, "/spec/names": names})))
}

fn with_status(object: &Value, status: Value) -> Value {
    changed(object, json!({"/status": status}))
}

/// Returns the conditions of a CRD, one per line.
fn told(object: &Value) -> Vec<String> {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    conditions.iter().map(|c| ["type", "status", "reason", "message"].map(|name| text(&c[name])).join(" ")).collect()
}

#[test]
fn names_are_accepted_and_then_the_definition_is_established() {
    let fresh = named("boats", "Boat", &["bt"]);
    assert_eq!(establish(&fresh, at(0)), None, "not before its names are accepted");
    let status = accept_names(&fresh, [&fresh], at(0)).expect("new names");
    assert_eq!(status["acceptedNames"], fresh["spec"]["names"]);
    let accepted = with_status(&fresh, status);
    assert_eq!(
        told(&accepted),
        [
            "NamesAccepted True NoConflicts no conflicts found",
            "Established False Installing the initial names have been accepted",
        ]
    );
    assert_eq!(accept_names(&accepted, [&accepted], at(1)), None);
    let established = with_status(&accepted, establish(&accepted, at(5)).expect("names are accepted"));
    assert_eq!(told(&established)[1], "Established True InitialNamesAccepted the initial names have been accepted");
    assert_eq!(established["status"]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    assert_eq!(established["status"]["conditions"][1]["lastTransitionTime"], "1970-01-01T00:00:05Z");
    assert_eq!(establish(&established, at(9)), None);
    let definition = Definition::parse(&established);
    assert!(definition.established && definition.names_accepted && definition.accepted_names.kind == "Boat");
}

#[test]
fn names_of_other_definitions_are_rejected_until_they_are_free() {
    let first = named("boats", "Boat", &["bt", "b"]);
    let first = with_status(&first, accept_names(&first, [], at(0)).expect("new names"));
    let second = named("ships", "Boat", &["b", "sh"]);
    let second = with_status(&second, accept_names(&second, [&first, &second], at(1)).expect("a conflict"));
    assert_eq!(
        told(&second),
        [
            "NamesAccepted False ListKindConflict \"BoatList\" is already in use",
            "Established False NotAccepted not all names are accepted",
        ]
    );
    let names = &second["status"]["acceptedNames"];
    assert_eq!(names, &json!({"plural": "ships", "kind": ""}), "free names are accepted nevertheless");
    let third = named("rafts", "Raft", &["b", "bt", "r"]);
    let third = with_status(&third, accept_names(&third, [&first], at(1)).expect("a conflict"));
    let message = "NamesAccepted False ShortNamesConflict [\"b\" is already in use, \"bt\" is already in use]";
    assert_eq!(told(&third)[0], message);
    assert_eq!(accept_names(&third, [&first], at(2)), None, "nothing has changed");
    assert_eq!(establish(&third, at(2)), None);
    let other_group = changed(&first, json!({"/spec/group": "port.example.com"}));
    let third = with_status(&third, accept_names(&third, [&other_group], at(3)).expect("free names"));
    assert_eq!(told(&third)[0], "NamesAccepted True NoConflicts no conflicts found");
    assert_eq!(third["status"]["acceptedNames"]["shortNames"], json!(["b", "bt", "r"]));
}

#[test]
fn a_name_that_two_definitions_want_goes_to_the_one_that_was_written_first() {
    let wants = |plural: &str, kind: &str, revision: u64| {
        changed(&named(plural, kind, &[]), json!({"/metadata/resourceVersion": revision.to_string()}))
    };
    let accepted = |object: &Value, others: [&Value; 2]| {
        let status = accept_names(object, others, at(0)).expect("a decision");
        conditions::is_true(&with_status(object, status), conditions::NAMES_ACCEPTED)
    };
    let (early, late) = (wants("rafts", "Boat", 7), wants("boats", "Boat", 8));
    let unrelated = wants("ships", "Ship", 3);
    // The result is the same in any order, and with less knowledge.
    assert!(accepted(&early, [&early, &late]) && !accepted(&late, [&early, &late]));
    assert!(accepted(&early, [&early, &unrelated]) && accepted(&late, [&late, &unrelated]));
    // What a definition requests is not its own before that is decided, but no other gets it meanwhile.
    let again = wants("rafts", "Boat", 9);
    assert!(!accepted(&again, [&again, &late]) && accepted(&late, [&again, &late]));
}

#[test]
fn an_established_definition_stays_established_when_its_new_names_conflict() {
    let first = named("boats", "Boat", &[]);
    let first = with_status(&first, accept_names(&first, [], at(0)).expect("new names"));
    let second = named("ships", "Ship", &[]);
    let second = with_status(&second, accept_names(&second, [&first], at(0)).expect("new names"));
    let second = with_status(&second, establish(&second, at(1)).expect("established"));
    let renamed = changed(&second, json!({"/spec/names/singular": "boat"}));
    let renamed = with_status(&renamed, accept_names(&renamed, [&first], at(2)).expect("a conflict"));
    assert_eq!(told(&renamed)[0], "NamesAccepted False SingularConflict \"boat\" is already in use");
    assert_eq!(renamed["status"]["acceptedNames"]["singular"], "ship");
    assert!(Definition::parse(&renamed).established);
}

#[test]
fn an_invalid_bundle_keeps_a_definition_from_being_established() {
    let config = json!({"url": "https://h", "caBundle": "Ym9hdA=="});
    let conversion =
        json!({"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}});
    let object = changed(&named("boats", "Boat", &[]), json!({"/spec/conversion": conversion}));
    let object = with_status(&object, accept_names(&object, [], at(0)).expect("new names"));
    let object = with_status(&object, establish(&object, at(1)).expect("a verdict"));
    assert_eq!(told(&object)[1], "Established False InvalidCABundle The conversion webhook CABundle is invalid");
    assert_eq!(establish(&object, at(2)), None, "nothing has changed");
    let Conversion::Webhook(webhook) = Definition::parse(&object).conversion else { panic!("a webhook") };
    assert_eq!((webhook.url.as_deref(), webhook.review_versions), (Some("https://h"), vec!["v1".to_owned()]));
}

#[test]
fn non_structural_schemas_and_approvals_are_reported_in_conditions() {
    let object = created(definition(json!({"type": "object", "properties": {"a": {}, "b": {"type": "array"}}})));
    let object = with_status(&object, check_structural(&object, at(0)).expect("a violation"));
    assert_eq!(
        told(&object),
        ["NonStructuralSchema True Violations \
          [spec.versions[0].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields, \
          spec.versions[0].schema.openAPIV3Schema.properties[b].items: Required value: must be specified]"]
    );
    assert_eq!(check_structural(&object, at(1)), None);
    let good = changed(&object, json!({"/spec/versions/0/schema/openAPIV3Schema": {"type": "object"}}));
    assert!(told(&with_status(&good, check_structural(&good, at(1)).expect("no violation"))).is_empty());

    assert_eq!(api_approval(&object, at(0)), None);
    let annotations = json!({"api-approved.kubernetes.io": "unapproved"});
    let object = changed(&object, json!({"/spec/group": "x.kubernetes.io", "/metadata/annotations": annotations}));
    let object = with_status(&object, api_approval(&object, at(0)).expect("a condition"));
    let condition = conditions::find(&object, conditions::API_APPROVAL).expect("the condition");
    assert_eq!(condition["reason"], "UnapprovedAnnotation");
    assert_eq!(condition["message"], "not approved: \"unapproved\"");
    assert_eq!(api_approval(&object, at(1)), None);
}

#[test]
fn deprecated_versions_warn_and_point_to_better_ones() {
    let versions: Vec<_> =
        [("v1alpha1", true), ("v2", false), ("v1", true), ("v10", false), ("v3beta1", false), ("odd", true)]
            .map(|(name, deprecated)| json!({"name": name, "served": name != "v10", "deprecated": deprecated}))
            .into();
    let object = changed(&definition(json!({})), json!({"/spec/versions": versions}));
    let definition = Definition::parse(&object);
    let served: Vec<_> = definition.served_versions().iter().map(|version| version.name.as_str()).collect();
    assert_eq!(served, ["v2", "v1", "v3beta1", "v1alpha1", "odd"]);
    let warning = |name| definition.deprecation_warning(definition.version(name).expect("a version"));
    let expected = "harbour.example.com/v1 Boat is deprecated; use harbour.example.com/v2 Boat";
    assert_eq!(warning("v1").as_deref(), Some(expected));
    assert_eq!(warning("v2"), None);
    let only = changed(&object, json!({"/spec/versions": [{"name": "v1", "served": true, "deprecated": true}]}));
    let only = Definition::parse(&only);
    let expected = Some("harbour.example.com/v1 Boat is deprecated".to_owned());
    assert_eq!(only.deprecation_warning(&only.versions[0]), expected);
}
