//! CustomResourceDefinitions through their strategy.

mod controllers;
mod properties;
mod schemas;
mod spec;
mod updates;

use expect_test::Expect;
use serde_json::{Value, json};
use windlass_schema::field::FieldError;

use super::CustomResourceDefinition;
use crate::object::set;
use crate::strategy::{Strategy, WriteContext};

/// A CRD with one version and this schema.
fn definition(schema: Value) -> Value {
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.harbour.example.com"},
        "spec": {
            "group": "harbour.example.com",
            "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat"},
            "versions": [version],
        },
    })
}

fn changed(object: &Value, changes: Value) -> Value {
    let mut object = object.clone();
    for (pointer, value) in changes.as_object().into_iter().flatten() {
        set(&mut object, pointer, value.clone());
    }
    object
}

/// The CRD as validated on create.
fn created(mut object: Value) -> Value {
    CustomResourceDefinition.default(&mut object);
    CustomResourceDefinition.prepare_for_create(&mut object, &WriteContext::test());
    object
}

fn shown(errors: &[FieldError]) -> String {
    errors.iter().map(|error| format!("{error}\n")).collect()
}

fn check(object: Value, expect: Expect) {
    expect.assert_eq(&shown(&CustomResourceDefinition.validate(&created(object))));
}

fn check_schema(schema: Value, expect: Expect) {
    check(definition(schema), expect);
}
