//! CustomResourceDefinitions with an arbitrary part, and objects of accepted ones.

use http::Method;
use proptest::{
    collection::{btree_map, vec},
    prelude::*,
    sample::select,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};

use super::{APPLY, post};
use crate::client::Client;
use crate::definitions::{DEFINITIONS, definition, widget, widgets};

/// Returns arbitrary JSON made of words that have a meaning in CustomResourceDefinitions.
fn anything() -> impl Strategy<Value = Value> {
    let word = select(vec![
        "object",
        "array",
        "string",
        "integer",
        "set",
        "map",
        "atomic",
        "v1",
        "self",
        "self.all(x, x > 0)",
        ".spec.a",
        "..",
        "a{1000}",
        "(",
        "date",
        "",
        "a",
        "widgets",
        "example.com",
        "Namespaced",
        "None",
        "\u{0}",
        "x-y",
    ]);
    let leaf = prop_oneof![
        word.prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let key = select(vec![
            "type",
            "properties",
            "items",
            "additionalProperties",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "default",
            "enum",
            "pattern",
            "format",
            "required",
            "maxLength",
            "minimum",
            "nullable",
            "x-kubernetes-validations",
            "rule",
            "message",
            "messageExpression",
            "fieldPath",
            "reason",
            "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
            "x-kubernetes-preserve-unknown-fields",
            "spec",
            "status",
            "metadata",
            "a",
            "k",
            "jsonPath",
            "name",
        ]);
        prop_oneof![
            3 => btree_map(key.prop_map(str::to_owned), inner.clone(), 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
            1 => vec(inner, 0..4).prop_map(Value::Array),
        ]
    })
}

#[test]
fn no_definition_and_none_of_its_objects_breaks_the_server() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(Client::new());
    // Most are nearly valid: one part is arbitrary.
    let part = select(vec![
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
        "/spec/versions/0/schema/openAPIV3Schema",
        "/spec/versions/0/schema",
        "/spec/versions/0/subresources",
        "/spec/versions/0/additionalPrinterColumns",
        "/spec/versions/0/selectableFields",
        "/spec/versions/0",
        "/spec/versions",
        "/spec/names",
        "/spec/names/shortNames",
        "/spec/conversion",
        "/spec",
        "/metadata",
        "",
    ]);
    let base = definition(&json!([{
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}, "status": {"type": "object"},
        }}},
        "subresources": {}, "additionalPrinterColumns": [], "selectableFields": [],
    }]));
    let mut base = base;
    base["spec"]["conversion"] = json!({"strategy": "None"});
    let strategy = (part, anything(), anything(), any::<bool>());
    let mut runner = TestRunner::new(Config::with_cases(250));
    let outcome = runner.run(&strategy, |(part, value, object, restart)| {
        let mut body = base.clone();
        if let Some(place) = body.pointer_mut(part) {
            *place = value.clone();
        }
        runtime.block_on(async {
            let made = post(&client, DEFINITIONS, &body).await;
            if made.code == 201 {
                let spec = widget("v1", "a", &object);
                post(&client, &widgets("v1"), &spec).await;
                post(&client, &widgets("v1"), &widget("v1", "b", &value)).await;
                client
                    .ask(
                        Method::PATCH,
                        &format!("{}/a?fieldManager=x", widgets("v1")),
                        &[("content-type", APPLY)],
                        spec.to_string(),
                    )
                    .await;
                assert!(client.get(&widgets("v1")).await.code < 500);
                let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
                assert!(client.ask(Method::GET, &widgets("v1"), &table, "").await.code < 500);
                assert_eq!(client.get("/openapi/v2").await.code, 200);
                let name = made.json()["metadata"]["name"].as_str().unwrap().to_owned();
                if restart {
                    client.restarted().await.get(&widgets("v1")).await;
                }
                let one = format!("{DEFINITIONS}/{name}");
                client.put(&one, &base).await;
                client.delete(&one).await;
                while client.get(&one).await.code != 404 {
                    tokio::task::yield_now().await;
                }
            }
        });
        Ok(())
    });
    outcome.unwrap();
}
