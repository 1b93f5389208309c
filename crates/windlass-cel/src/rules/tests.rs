//! Tests of rules through the public API: CustomResourceDefinitions and objects in, errors out.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_schema::field::Path;
use windlass_schema::structural::Structural;

use super::{OBJECT_BUDGET, Outcome, Rules, compile};

mod crds;
mod objects;
mod properties;
mod transitions;

fn schema(schema: &Value) -> Arc<Structural> {
    Arc::new(Structural::compile(schema).expect("the schema must be structural"))
}

fn rules(of: &Value) -> Rules {
    compile(&schema(of), true).expect("the schema must have rules")
}

/// Evaluates rules on an object in the same way as the server.
fn run(rules: &Rules, new: &Value, old: Option<&Value>) -> Outcome {
    let mut budget = OBJECT_BUDGET;
    rules.validate(&Path::root(), new, old, &mut budget)
}

/// Returns the errors of an object.
fn errors(of: &Value, new: &Value) -> Vec<String> {
    run(&rules(of), new, None).errors.iter().map(ToString::to_string).collect()
}

/// Returns a root schema with one property, `spec`.
fn spec(schema: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": schema}})
}
