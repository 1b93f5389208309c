//! LeaseCandidates of coordinated leader election.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names::is_config_map_key;

use super::lease::validate_strategy;
use super::semantic_version::Version;
use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::field_errors::FieldErrors;
use crate::object::text;
use crate::strategy::Strategy;
use crate::validate::immutable;

/// Strategy of LeaseCandidates.
#[derive(Debug, Clone, Copy)]
pub struct LeaseCandidate;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for LeaseCandidate {
    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let name = text(object, "/metadata/name");
        if !name.is_empty() {
            errors.invalid_each(&Path::new("metadata").child("name"), name, is_config_map_key(name));
        }
        validate_spec(object, &mut errors);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_spec(object, &mut errors);
        let lease = |object| Value::from(text(object, "/spec/leaseName"));
        errors.extend(immutable(&Path::new("spec").child("leaseName"), &lease(object), &lease(old)));
        errors
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("spec.leaseName", text(object, "/spec/leaseName").to_owned())]
    }
}

fn validate_spec(object: &Value, errors: &mut ErrorList) {
    let spec = Path::new("spec");
    errors.nonempty(&spec.child("leaseName"), text(object, "/spec/leaseName"));
    let mut version = |field: &str, required: bool| {
        let (path, text) = (spec.child(field), text(object, &format!("/spec/{field}")));
        let version = Version::parse(text);
        match (text, version) {
            ("", _) if required => errors.required(&path),
            ("", _) | (_, Some(_)) => {}
            _ => errors.invalid(&path, text, "must be a valid semantic version"),
        }
        version
    };
    let emulation = version("emulationVersion", false);
    let binary = version("binaryVersion", true);
    let (emulation_text, binary_text) = (text(object, "/spec/emulationVersion"), text(object, "/spec/binaryVersion"));
    // A version that is wrong counts as 0.0.0.
    let (emulation, binary) = (emulation.unwrap_or_default(), binary.unwrap_or_default());
    if !emulation_text.is_empty() && !binary_text.is_empty() && binary.cmp(&emulation) == Ordering::Less {
        let detail = "must be greater than or equal to `emulationVersion`";
        errors.invalid(&spec.child("binaryVersion"), binary_text, detail);
    }
    let (path, strategy) = (spec.child("strategy"), text(object, "/spec/strategy"));
    if strategy.is_empty() {
        return errors.required(&path);
    }
    if strategy == "OldestEmulationVersion" && emulation.cmp(&Version::default()) == Ordering::Equal {
        let detail = "must be specified when `strategy` is 'OldestEmulationVersion'";
        errors.required_because(&spec.child("emulationVersion"), detail);
    }
    validate_strategy(strategy, &path, errors);
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = |field: &str| Value::from(text(object, &format!("/spec/{field}")));
    vec![name(object), spec("leaseName"), spec("binaryVersion"), spec("emulationVersion"), age(object, now)]
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "LeaseName",
        "string",
        "LeaseName is the name of the lease for which this candidate is contending. This field is immutable.",
    ),
    // kube-apiserver looks for the descriptions of these in the wrong place.
    column("BinaryVersion", "string", ""),
    column("EmulationVersion", "string", ""),
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;
    use serde_json::json;

    fn candidate(lease: &str, binary: &str, emulation: &str, strategy: &str) -> Value {
        json!({
            "metadata": {"name": "a"},
            "spec": {
                "leaseName": lease, "binaryVersion": binary, "emulationVersion": emulation, "strategy": strategy,
            },
        })
    }

    #[test]
    fn versions_and_the_strategy_are_required() {
        let good = candidate("l", "1.36.0", "1.35.0", "OldestEmulationVersion");
        check_create(&LeaseCandidate, good, expect![[""]]);
        check_create(&LeaseCandidate, candidate("l", "1.0.0", "", "example.com/own"), expect![[""]]);
        check_create(
            &LeaseCandidate,
            json!({"metadata": {"name": "a/b"}, "spec": {}}),
            expect![[r#"
                metadata.name: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
                spec.leaseName: Required value
                spec.binaryVersion: Required value
                spec.strategy: Required value
            "#]],
        );
        check_create(
            &LeaseCandidate,
            candidate("l", "1.34.0", "v2", "OldestEmulationVersion"),
            expect![[r#"
                spec.emulationVersion: Invalid value: "v2": must be a valid semantic version
                spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'
            "#]],
        );
        check_create(
            &LeaseCandidate,
            candidate("l", "1.34.0", "1.35.0-rc.1", "Newest"),
            expect![[r#"
                spec.binaryVersion: Invalid value: "1.34.0": must be greater than or equal to `emulationVersion`
                spec.strategy.strategy: Unsupported value: "Newest": supported values: "OldestEmulationVersion"
            "#]],
        );
    }

    #[test]
    fn the_lease_never_changes() {
        let of = |lease| candidate(lease, "1.36.0", "1.36.0", "OldestEmulationVersion");
        check_update(
            &LeaseCandidate,
            of("b"),
            of("a"),
            expect![[r#"
                spec.leaseName: Invalid value: "b": field is immutable
            "#]],
        );
    }
}
