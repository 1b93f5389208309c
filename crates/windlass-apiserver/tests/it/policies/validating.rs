//! Validations: messages, reasons, actions, failure policies, budgets.

use http::Method;
use serde_json::{Value, json};

use super::{GROUP, bind, validating};
use crate::client::{Answer, CONFIG_MAPS, Client, config_map};

fn warnings(answer: &Answer) -> Vec<String> {
    answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

fn one(expression: &str, more: &Value) -> Value {
    json!({"validations": [super::merged(json!({"expression": expression}), more)]})
}

#[tokio::test]
async fn a_policy_has_taken_effect_when_it_and_its_binding_are_acknowledged() {
    let client = Client::new().await;
    for round in 0..20 {
        let name = format!("p{round}");
        validating(&client, &name, &one("object.data.a != '1'", &json!({}))).await;
        // A policy without a binding does nothing.
        client.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("x")).await.expect(201);
        bind(&client, &name, &json!({})).await;
        let answer = client.post(CONFIG_MAPS, &config_map("x")).await;
        let message = format!(
            "ValidatingAdmissionPolicy '{name}' with binding 'bind-{name}' denied request: failed expression: \
             object.data.a != '1'"
        );
        let status = answer.expect(422);
        assert_eq!(status["message"], format!("configmaps \"x\" is forbidden: {message}"));
        assert_eq!(status["reason"], "Invalid");
        let details = json!({"name": "x", "kind": "configmaps", "causes": [{"message": message}]});
        assert_eq!(status["details"], details);
        let path = match round % 2 {
            0 => format!("{GROUP}/validatingadmissionpolicybindings/bind-{name}"),
            _ => format!("{GROUP}/validatingadmissionpolicies/{name}"),
        };
        client.delete(&path).await.expect(200);
        client.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("x")).await.expect(201);
    }
}

#[tokio::test]
async fn a_changed_policy_has_taken_effect_when_its_write_is_acknowledged() {
    let client = Client::new().await;
    validating(&client, "p", &one("false", &json!({"message": "never"}))).await;
    bind(&client, "p", &json!({})).await;
    let policy = format!("{GROUP}/validatingadmissionpolicies/p");
    let probe = format!("{CONFIG_MAPS}?dryRun=All");
    for round in 0..10 {
        client.merge(&policy, &json!({"spec": one("true", &json!({}))})).await.expect(200);
        client.post(&probe, &config_map("x")).await.expect(201);
        let message = format!("round {round}");
        client.merge(&policy, &json!({"spec": one("false", &json!({"message": message}))})).await.expect(200);
        let denied = client.post(&probe, &config_map("x")).await;
        assert!(denied.message().ends_with(&message), "{}", denied.message());
    }
    let binding = format!("{GROUP}/validatingadmissionpolicybindings/bind-p");
    client.merge(&binding, &json!({"spec": {"policyName": "other"}})).await.expect(200);
    client.post(&probe, &config_map("x")).await.expect(201);
}

#[tokio::test]
async fn policies_apply_after_a_restart() {
    let client = Client::new().await;
    validating(&client, "p", &one("false", &json!({}))).await;
    bind(&client, "p", &json!({})).await;
    let client = client.restarted().await;
    client.post(CONFIG_MAPS, &config_map("x")).await.expect(422);
}

#[tokio::test]
async fn every_kind_of_write_is_validated() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("kept")).await.expect(201);
    let keep = "has(request.name) && request.name == 'kept' ? false : object == null || object.metadata.name != 'new'";
    validating(&client, "p", &one(keep, &json!({"messageExpression": "'no ' + request.operation"}))).await;
    bind(&client, "p", &json!({})).await;
    let kept = format!("{CONFIG_MAPS}/kept");
    let apply = "application/apply-patch+yaml";
    for (answer, operation) in [
        (client.post(CONFIG_MAPS, &config_map("new")).await, "CREATE"),
        (client.merge(&kept, &json!({"data": {"a": "2"}})).await, "UPDATE"),
        (client.put(&kept, &config_map("kept")).await, "UPDATE"),
        (
            client
                .ask(
                    Method::PATCH,
                    &format!("{kept}?fieldManager=m&force=true"),
                    &[("content-type", apply)],
                    config_map("kept").to_string(),
                )
                .await,
            "UPDATE",
        ),
        (
            client
                .ask(
                    Method::PATCH,
                    &format!("{CONFIG_MAPS}/new?fieldManager=m"),
                    &[("content-type", apply)],
                    config_map("new").to_string(),
                )
                .await,
            "CREATE",
        ),
        (client.delete(&kept).await, "DELETE"),
    ] {
        let suffix = format!("denied request: no {operation}");
        assert!(answer.message().ends_with(&suffix), "{operation}: {}", answer.message());
        assert_eq!(answer.code, 422);
    }
    // Items of a collection are deleted without a name in the request.
    client.delete(CONFIG_MAPS).await.expect(200);
}

#[tokio::test]
async fn a_generated_name_is_part_of_the_request() {
    let client = Client::new().await;
    validating(&client, "p", &one("false", &json!({"messageExpression": "'name ' + request.name"}))).await;
    bind(&client, "p", &json!({})).await;
    let status = client.post(CONFIG_MAPS, &json!({"metadata": {"generateName": "gen-"}})).await.expect(422);
    let name = status["details"]["name"].as_str().unwrap();
    assert!(name.starts_with("gen-") && name.len() > 4, "{name}");
    let message = status["message"].as_str().unwrap();
    assert!(message.ends_with(&format!("denied request: name {name}")), "{message}");
}

#[tokio::test]
async fn the_reason_decides_the_code() {
    for (reason, code) in [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)] {
        let client = Client::new().await;
        validating(&client, "p", &one("false", &json!({"reason": reason, "message": " why "}))).await;
        bind(&client, "p", &json!({})).await;
        let status = client.post(CONFIG_MAPS, &config_map("x")).await.expect(code);
        assert_eq!((&status["reason"], &status["code"]), (&json!(reason), &json!(code)));
        assert!(status["message"].as_str().unwrap().ends_with("denied request: why"), "{status}");
    }
}

#[tokio::test]
async fn messages_fall_back_to_simpler_ones() {
    for (validation, expected) in [
        (json!({"messageExpression": "'got ' + object.data.a", "message": "m"}), "got 1"),
        // A message with a line break, an empty one, or one that fails is not used.
        (json!({"messageExpression": "'a\\nb'", "message": "m"}), "m"),
        (json!({"messageExpression": "' '", "message": "m"}), "m"),
        (json!({"messageExpression": "string(object.data.missing)", "message": "m"}), "m"),
        (json!({"messageExpression": "string(object.data.missing)"}), "failed expression: 1 == 2"),
        (json!({}), "failed expression: 1 == 2"),
    ] {
        let client = Client::new().await;
        validating(&client, "p", &one(" 1 == 2 ", &validation)).await;
        bind(&client, "p", &json!({})).await;
        let message = client.post(CONFIG_MAPS, &config_map("x")).await.message();
        assert!(message.ends_with(&format!("denied request: {expected}")), "{validation}: {message}");
    }
}

#[tokio::test]
async fn a_failed_validation_can_be_a_warning() {
    let client = Client::new().await;
    let validations = json!({"validations": [
        {"expression": "object.data.a == '2'", "message": "a should be 2"},
        {"expression": "true"},
        {"expression": "object.data.b == '1'"},
    ]});
    validating(&client, "p", &validations).await;
    bind(&client, "p", &json!({"validationActions": ["Warn", "Audit"]})).await;
    let answer = client.post(CONFIG_MAPS, &config_map("x")).await;
    let prefix = "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'bind-p': ";
    assert_eq!(answer.code, 201);
    assert_eq!(
        warnings(&answer),
        [
            format!("{prefix}a should be 2\""),
            format!("{prefix}expression 'object.data.b == '1'' resulted in error: no such key: b\""),
        ]
    );
}

#[tokio::test]
async fn a_failed_evaluation_follows_the_failure_policy() {
    let client = Client::new().await;
    let broken = one("object.data.missing == '1'", &json!({}));
    validating(&client, "p", &super::merged(broken.clone(), &json!({"failurePolicy": "Ignore"}))).await;
    bind(&client, "p", &json!({})).await;
    client.post(CONFIG_MAPS, &config_map("ignored")).await.expect(201);
    validating(&client, "q", &broken).await;
    bind(&client, "q", &json!({})).await;
    let denied = client.post(CONFIG_MAPS, &config_map("x")).await;
    assert_eq!(
        denied.message(),
        "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'q' with binding 'bind-q' denied request: expression \
         'object.data.missing == '1'' resulted in error: no such key: missing"
    );
}

#[tokio::test]
async fn the_first_denial_is_the_answer_and_all_warnings_are_sent() {
    let client = Client::new().await;
    for (name, actions) in
        [("a", json!(["Warn"])), ("b", json!(["Deny"])), ("c", json!(["Deny"])), ("d", json!(["Warn"]))]
    {
        validating(&client, name, &one("false", &json!({"message": format!("no {name}")}))).await;
        bind(&client, name, &json!({"validationActions": actions})).await;
    }
    let answer = client.post(CONFIG_MAPS, &config_map("x")).await;
    assert!(answer.message().ends_with("denied request: no b"), "{}", answer.message());
    assert_eq!(warnings(&answer).len(), 2);
}

#[tokio::test]
async fn expressions_see_the_namespace_the_request_and_variables() {
    let client = Client::new().await;
    client.merge("/api/v1/namespaces/default", &json!({"metadata": {"labels": {"env": "prod"}}})).await.expect(200);
    let policy = json!({
        "variables": [
            {"name": "env", "expression": "namespaceObject.metadata.labels['env']"},
            {"name": "who", "expression": "request.userInfo.username + '@' + variables.env"},
        ],
        "validations": [
            {"expression": "variables.who != 'admin@prod'", "messageExpression": "variables.who + ' ' + request.namespace"},
        ],
    });
    validating(&client, "p", &policy).await;
    bind(&client, "p", &json!({})).await;
    let message = client.post(CONFIG_MAPS, &config_map("x")).await.message();
    assert!(message.ends_with("denied request: admin@prod default"), "{message}");
}

#[tokio::test]
async fn expressions_can_ask_what_the_user_may_do() {
    let client = Client::new().await;
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]);
    client.post(&format!("{path}/roles"), &json!({"metadata": {"name": "r"}, "rules": rules})).await.expect(201);
    let binding = json!({
        "metadata": {"name": "r"}, "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
    });
    client.post(&format!("{path}/rolebindings"), &binding).await.expect(201);
    let policy = json!({
        "variables": [{"name": "mayDelete", "expression": "authorizer.requestResource.check('delete').allowed()"}],
        "validations": [{"expression": "variables.mayDelete", "message": "only for those who may delete"}],
    });
    validating(&client, "p", &policy).await;
    bind(&client, "p", &json!({})).await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let denied = client.send_as("jane", Method::POST, CONFIG_MAPS, &config_map("b")).await;
    assert!(denied.message().ends_with("only for those who may delete"), "{}", denied.message());
}

#[tokio::test]
async fn match_conditions_decide_whether_a_policy_runs() {
    let client = Client::new().await;
    let policy = |expression: &str| {
        let conditions = json!([{"name": "c", "expression": expression}, {"name": "d", "expression": "true"}]);
        super::merged(one("false", &json!({})), &json!({"matchConditions": conditions}))
    };
    validating(&client, "p", &policy("object.metadata.name.startsWith('x')")).await;
    bind(&client, "p", &json!({})).await;
    client.post(CONFIG_MAPS, &config_map("y")).await.expect(201);
    client.post(CONFIG_MAPS, &config_map("x")).await.expect(422);
    let failing = policy("object.data.missing == '1'");
    validating(&client, "q", &super::merged(failing.clone(), &json!({"failurePolicy": "Ignore"}))).await;
    bind(&client, "q", &json!({})).await;
    client.post(CONFIG_MAPS, &config_map("z")).await.expect(201);
    validating(&client, "r", &failing).await;
    bind(&client, "r", &json!({})).await;
    let message = client.post(CONFIG_MAPS, &config_map("z2")).await.message();
    let why = "denied request: expression 'object.data.missing == '1'' resulted in error: no such key: missing";
    assert!(message.ends_with(why), "{message}");
}

#[tokio::test]
async fn costs_are_limited_per_expression_and_per_policy() {
    let client = Client::new().await;
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let nested = |depth: usize| {
        let mut text = "true".to_owned();
        for level in 0..depth {
            text = format!("{list}.all(v{level}, {text})");
        }
        text
    };
    validating(&client, "p", &one(&nested(6), &json!({}))).await;
    bind(&client, "p", &json!({})).await;
    let message = client.post(CONFIG_MAPS, &config_map("x")).await.message();
    assert!(message.ends_with("resulted in error: operation cancelled: actual cost limit exceeded"), "{message}");
    client.delete(&format!("{GROUP}/validatingadmissionpolicies/p")).await.expect(200);

    // Each is affordable, but all of them together are not.
    let validations = vec![json!({"expression": nested(5)}); 40];
    validating(&client, "q", &json!({"validations": validations})).await;
    bind(&client, "q", &json!({})).await;
    let message = client.post(CONFIG_MAPS, &config_map("x")).await.message();
    let exceeded = "denied request: validation failed due to running out of cost budget, no further validation rules \
                    will be run";
    assert!(message.ends_with(exceeded), "{message}");
}

#[tokio::test]
async fn policies_do_not_apply_to_policies_but_to_webhook_configurations() {
    let client = Client::new().await;
    let everything = json!({"matchConstraints": {"resourceRules": [
        {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]},
    ]}});
    validating(&client, "p", &super::merged(one("false", &json!({})), &everything)).await;
    bind(&client, "p", &json!({})).await;
    client.post(CONFIG_MAPS, &config_map("x")).await.expect(422);
    let webhooks = json!({"metadata": {"name": "w"}, "webhooks": []});
    client.post(&format!("{GROUP}/validatingwebhookconfigurations"), &webhooks).await.expect(422);
    let review = json!({"spec": {"user": "jane", "nonResourceAttributes": {"path": "/", "verb": "get"}}});
    client.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await.expect(201);
    client.delete(&format!("{GROUP}/validatingadmissionpolicybindings/bind-p")).await.expect(200);
    client.delete(&format!("{GROUP}/validatingadmissionpolicies/p")).await.expect(200);
}

#[tokio::test]
async fn checks_are_counted() {
    let client = Client::new().await;
    validating(&client, "p", &one("object.data.a != '1'", &json!({}))).await;
    bind(&client, "p", &json!({"validationActions": ["Deny", "Audit"]})).await;
    client.post(CONFIG_MAPS, &config_map("x")).await.expect(422);
    client.post(CONFIG_MAPS, &config_map("x")).await.expect(422);
    let metrics = String::from_utf8(client.get("/metrics").await.raw.to_vec()).unwrap();
    for action in ["deny", "audit"] {
        let labels = format!(
            "enforcement_action=\"{action}\",error_type=\"invalid_error\",policy=\"p\",policy_binding=\"bind-p\""
        );
        let line = format!("apiserver_validating_admission_policy_check_total{{{labels}}} 2");
        assert!(metrics.contains(&line), "{metrics}");
        let line = format!("apiserver_validating_admission_policy_check_duration_seconds_count{{{labels}}} 2");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[tokio::test]
async fn invalid_policies_are_rejected_with_the_errors_of_expressions() {
    let client = Client::new().await;
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": super::config_maps(), "validations": [{"expression": "object.a ="}],
    }});
    let status = client.post(&format!("{GROUP}/validatingadmissionpolicies"), &policy).await.expect(422);
    assert_eq!(
        status["message"],
        "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: spec.validations[0].expression: \
         Invalid value: \"object.a =\": compilation failed: ERROR: <input>:1:10: Syntax error: token recognition error \
         at: '='\n | object.a =\n | .........^"
    );
}

#[tokio::test]
async fn the_costs_of_match_conditions_are_limited_together() {
    let client = Client::new().await;
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let costly = (0..5).fold("true".to_owned(), |text, level| format!("{list}.all(v{level}, {text})"));
    let conditions = |count: usize| {
        let conditions = (0..count).map(|index| json!({"name": format!("c{index}"), "expression": costly}));
        json!({"matchConditions": conditions.collect::<Vec<_>>(), "validations": [{"expression": "true"}]})
    };
    // One is affordable.
    validating(&client, "p", &conditions(1)).await;
    bind(&client, "p", &json!({})).await;
    client.post(CONFIG_MAPS, &config_map("x")).await.expect(201);
    validating(&client, "q", &super::merged(conditions(15), &json!({"failurePolicy": "Ignore"}))).await;
    bind(&client, "q", &json!({})).await;
    client.post(CONFIG_MAPS, &config_map("y")).await.expect(201);
    validating(&client, "r", &conditions(15)).await;
    bind(&client, "r", &json!({})).await;
    let message = client.post(CONFIG_MAPS, &config_map("z")).await.message();
    let exceeded = "'bind-r' denied request: validation failed due to running out of cost budget, no further validation \
                    rules will be run";
    assert!(message.ends_with(exceeded), "{message}");
}
