//! CEL expressions and validation rules.

use std::sync::{Arc, LazyLock};

use serde_json::{Value as Json, json};
use windlass_cel::{
    checker::{Environment, check},
    cost,
    declared::{DeclType, Declared},
    interpreter::{Bindings, Program},
    match_conditions::{self, CONDITIONS_BUDGET},
    parser::{Options, parse},
    policy::{Activation, Inputs},
    rules::{self, CrdRulesOptions, OBJECT_BUDGET, validate_crd_rules},
    types::Type,
    value::Value,
};
use windlass_schema::{field::Path, structural::Structural};

/// The cost after which an evaluation must stop.
const LIMIT: u64 = 100_000;

/// A schema with an object, for expressions about `self` and `oldSelf`.
struct Subject {
    schema: Structural,
    declared: Arc<DeclType>,
    environment: Environment,
    object: Json,
}

static SUBJECT: LazyLock<Subject> = LazyLock::new(|| {
    let text = json!({"type": "string", "maxLength": 20});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "name": text,
        "n": {"type": "integer"},
        "f": {"type": "number"},
        "on": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"},
        "port": {"x-kubernetes-int-or-string": true},
        "ints": {"type": "array", "maxItems": 10, "items": {"type": "integer"}},
        "set": {"type": "array", "maxItems": 10, "x-kubernetes-list-type": "set", "items": text},
        "labels": {"type": "object", "maxProperties": 5, "additionalProperties": text},
        "items": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"],
            "properties": {"k": text, "v": {"type": "integer"}}}},
    }}}});
    let object = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {
        "name": "n%sé", "n": 3, "f": 1.5, "on": true, "at": "2026-01-02T03:04:05Z", "wait": "1h", "port": "80%",
        "ints": [1, 2, 3], "set": ["a", "b"], "labels": {"a": "b"}, "items": [{"k": "x", "v": 1}, {"k": "y"}],
    }});
    let schema = Structural::compile(&schema).expect("the schema must compile");
    let declared = Arc::new(DeclType::of(&schema, true).expect("the schema must have a type"));
    let provider = Declared::new("selfType1".to_owned(), declared.clone());
    let own = provider.self_type();
    let environment = Environment::standard_kubernetes()
        .clone()
        .with_provider(Arc::new(provider))
        .with_variable("self", own.clone())
        .with_variable("oldSelf", Type::optional(own));
    Subject { schema, declared, environment, object }
});

/// Parses, checks and evaluates an expression; an evaluation ends within its cost limit.
pub fn cel(data: &[u8]) {
    let Some(text) = super::text(data) else { return };
    let Ok(parsed) = parse(text, Options::KUBERNETES) else { return };
    let subject = &*SUBJECT;
    if let Ok(checked) = check(&parsed, &subject.environment) {
        cost::estimate(&checked, Some(&subject.declared));
        if let Ok(program) = Program::new(&checked) {
            let own = || Value::resource(&subject.object, &subject.schema);
            let bindings = Bindings::new().with("self", own()).with("oldSelf", own().map(Value::some));
            let evaluation = program.eval(&bindings, Some(LIMIT));
            assert!(evaluation.cost <= LIMIT || evaluation.result.is_err(), "the evaluation exceeds its limit");
            if let Ok(value) = &evaluation.result {
                assert!(value.to_literal().len() <= 64 << 20, "the result is too large");
            }
        }
    }
    if let Ok(condition) = match_conditions::compile(text) {
        let mut budget = CONDITIONS_BUDGET;
        let request = json!({"operation": "CREATE", "name": "a", "userInfo": {"username": "u", "groups": ["g"]}});
        let nothing = &Json::Null;
        let inputs = Inputs {
            object: &subject.object,
            old_object: nothing,
            request: &request,
            namespace: nothing,
            params: nothing,
            authorizer: None,
        };
        let _ = Activation::new(inputs, &[]).all_hold(&[Ok(condition)], &mut budget);
        assert!(budget <= CONDITIONS_BUDGET);
    }
}

/// Compiles a schema with validation rules and validates an object with it. The first line is the schema; the others
/// are the new and the old object.
pub fn rules(data: &[u8]) {
    let [schema, new, old] = super::parts(data);
    let Some(schema) = super::parse(schema) else { return };
    let Ok(schema) = Structural::compile(&schema) else { return };
    if !rules::has_rules(&schema) {
        return;
    }
    let schema = Arc::new(schema);
    validate_crd_rules(&schema, &Path::new("schema"), CrdRulesOptions::default());
    let Some(new) = super::parse(new) else { return };
    if let Some(rules) = rules::compile(&schema, true) {
        let mut budget = OBJECT_BUDGET;
        rules.validate(&Path::root(), &new, super::parse(old).as_ref(), &mut budget);
        assert!(budget <= OBJECT_BUDGET);
    }
}
