use serde_json::{Value as Json, json};

use super::*;

/// Compiles variables and an expression, and evaluates it about a Deployment.
fn evaluate(variables: &[(&str, &str)], text: &str, returns: Returns) -> Result<Json, String> {
    evaluate_within(variables, text, returns, &mut POLICY_BUDGET.clone())
}

fn evaluate_within(variables: &[(&str, &str)], text: &str, returns: Returns, budget: &mut i64) -> Result<Json, String> {
    let mut compiler = Compiler::new(true).with_variables();
    let variables: Vec<ComposedVariable> = variables
        .iter()
        .map(|(name, text)| {
            let failed =
                |error: CompileError| ComposedVariable { name: (*name).to_owned(), program: Err(error.to_string()) };
            compiler.variable(name, text).unwrap_or_else(failed)
        })
        .collect();
    let expression = compiler.compile(text, returns, true).map_err(|error| error.to_string())?;
    let inputs = Inputs {
        object: &json!({"metadata": {"name": "web", "labels": {"a/b": "c"}}, "spec": {"replicas": 3}}),
        old_object: &Json::Null,
        request: &json!({"operation": "CREATE"}),
        namespace: &json!({"metadata": {"name": "default"}}),
        params: &json!({"data": {"max": "5"}}),
        authorizer: None,
    };
    let activation = Activation::new(inputs, &variables);
    let value = activation.evaluate(&expression, budget).map_err(|error| error.to_string())??;
    match returns {
        Returns::ApplyConfiguration => apply_configuration(&value),
        Returns::JsonPatch => json_patch(&value).map(Json::from),
        _ => value.to_json(),
    }
}

#[test]
fn variables_are_composed_of_those_before_them() {
    let variables = [("n", "object.spec.replicas"), ("twice", "variables.n * 2"), ("names", "[object.metadata.name]")];
    assert_eq!(
        evaluate(&variables, "variables.twice == 6 && variables.names[0] == 'web'", Returns::Bool),
        Ok(true.into())
    );
    assert_eq!(evaluate(&variables, "has(variables.n)", Returns::Bool), Ok(true.into()));
    assert_eq!(evaluate(&variables, "variables.?n.orValue(0) == 3", Returns::Bool), Ok(true.into()));
    assert_eq!(
        evaluate(&variables, "variables.names == 'web'", Returns::Bool),
        Err("compilation failed: ERROR: <input>:1:17: found no matching overload for '_==_' applied to \
             '(list(dyn), string)'\n | variables.names == 'web'\n | ................^"
            .to_owned())
    );
}

#[test]
fn a_variable_fails_only_where_it_is_used() {
    let variables = [("bad", "object.spec.nothing"), ("worse", "1 +")];
    assert_eq!(evaluate(&variables, "true || variables.bad", Returns::Bool), Ok(true.into()));
    assert_eq!(
        evaluate(&variables, "variables.bad == 1", Returns::Bool),
        Err("expression 'variables.bad == 1' resulted in error: composited variable \"bad\" fails to evaluate: no \
             such key: nothing"
            .to_owned())
    );
    let failed = evaluate(&variables, "variables.worse == 1", Returns::Bool).unwrap_err();
    assert!(failed.contains("composited variable \"worse\" fails to compile: compilation failed: ERROR"), "{failed}");
}

#[test]
fn a_variable_that_uses_itself_fails() {
    let variables = [("a", "1"), ("a", "variables.a + 1")];
    let failed = evaluate(&variables, "variables.a == 2", Returns::Bool).unwrap_err();
    assert!(failed.contains("uses itself"), "{failed}");
}

#[test]
fn a_variable_is_paid_for_once() {
    let cost = |text: &str| {
        let mut budget = POLICY_BUDGET;
        let list = ("list", "[1, 2, 3].map(x, x * 2)");
        evaluate_within(&[list], text, Returns::Bool, &mut budget).expect("the expression must have a value");
        POLICY_BUDGET - budget
    };
    let (once, twice) = (cost("variables.list[0] == 2"), cost("variables.list[0] == 2 && variables.list[0] == 2"));
    let use_of_it = cost("variables.list[0] == 2 && variables.list[0] == 2 && variables.list[0] == 2") - twice;
    assert_eq!(twice - once, use_of_it);
    assert!(once > use_of_it);
}

#[test]
fn budgets_end_evaluations() {
    let mut budget = 10;
    let sum = "[1, 2, 3, 4, 5].all(x, x > 0)";
    let exceeded = "validation failed due to running out of cost budget, no further validation rules will be run";
    assert_eq!(evaluate_within(&[], sum, Returns::Bool, &mut budget), Err(exceeded.to_owned()));
    let slow = "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, \
                [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, a + b + c + d + e > 0)))))";
    let failed = evaluate(&[], slow, Returns::Bool).unwrap_err();
    assert!(failed.ends_with("resulted in error: operation cancelled: actual cost limit exceeded"), "{failed}");
}

#[test]
fn expressions_must_have_the_right_type() {
    for (text, returns, expected) in [
        ("1", Returns::Bool, "must evaluate to bool but got int"),
        ("object.x", Returns::Bool, "must evaluate to bool but got dyn"),
        ("1", Returns::TextOrNull, "must evaluate to one of [string null_type] but got int"),
        ("null", Returns::Text, "must evaluate to string but got null_type"),
        (
            "timestamp('2020-01-01T00:00:00Z')",
            Returns::Text,
            "must evaluate to string but got google.protobuf.Timestamp",
        ),
        ("[1]", Returns::ApplyConfiguration, "must evaluate to Object but got list(int)"),
        ("Object.spec{}", Returns::ApplyConfiguration, "must evaluate to Object but got Object.spec"),
        ("Object{}", Returns::JsonPatch, "must evaluate to list(JSONPatch) but got Object"),
    ] {
        assert_eq!(evaluate(&[], text, returns), Err(expected.to_owned()), "{text}");
    }
    assert_eq!(evaluate(&[], "null", Returns::TextOrNull), Ok(Json::Null));
}

#[test]
fn types_of_patches_are_known_only_to_mutations() {
    let failed = evaluate(&[], "Object{} == Object{}", Returns::Bool).unwrap_err();
    assert!(failed.contains("undeclared reference to 'Object' (in container '')"), "{failed}");
    let failed = evaluate(&[], "jsonpatch.escapeKey('a') == 'a'", Returns::Bool).unwrap_err();
    assert!(failed.contains("undeclared reference to 'jsonpatch'"), "{failed}");
}

#[test]
fn apply_configurations_are_partial_objects() {
    let text = "Object{metadata: Object.metadata{labels: {'x': params.data.max}}, spec: Object.spec{\
                replicas: object.spec.replicas + 1, ?paused: optional.none(), ?min: optional.of(1), \
                items: [Object.spec.items{name: 'a'}]}}";
    let expected = json!({
        "metadata": {"labels": {"x": "5"}}, "spec": {"replicas": 4, "min": 1, "items": [{"name": "a"}]},
    });
    assert_eq!(evaluate(&[], text, Returns::ApplyConfiguration), Ok(expected));
    let text = "Object{spec: Object.wrong{replicas: 1}}";
    let mismatch = "type mismatch: unexpected type name \"Object.wrong\", expected \"Object.spec\", which matches \
                    field name path from root Object type";
    assert_eq!(evaluate(&[], text, Returns::ApplyConfiguration), Err(mismatch.to_owned()));
}

#[test]
fn json_patches_are_lists_of_operations() {
    let text = "[JSONPatch{op: 'test', path: '/spec/replicas', value: 3}, \
                JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: 'd'}, \
                JSONPatch{op: 'copy', from: '/a', path: '/b'}, \
                JSONPatch{op: 'add', path: '/spec/x', value: Object.spec.x{y: [1.5, 2.0], z: null}}]";
    let expected = json!([
        {"op": "test", "path": "/spec/replicas", "value": 3},
        {"op": "add", "path": "/metadata/labels/a~1b~0c", "value": "d"},
        {"op": "copy", "path": "/b", "from": "/a"},
        {"op": "add", "path": "/spec/x", "value": {"y": [1.5, 2.0], "z": null}},
    ]);
    assert_eq!(evaluate(&[], text, Returns::JsonPatch), Ok(expected));
    let failed = evaluate(&[], "[JSONPatch{op: object.spec.replicas, path: '/a'}]", Returns::JsonPatch).unwrap_err();
    assert!(failed.ends_with("unexpected type types.Int for JSONPatchType 'op' field"), "{failed}");
    let failed = evaluate(&[], "[JSONPatch{operation: 'add'}]", Returns::JsonPatch).unwrap_err();
    assert!(failed.contains("expected type of field 'operation' is '' but provided type is 'string'"), "{failed}");
}
