use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use expect_test::expect;
use http::StatusCode;
use serde_json::{Value, json};
use windlass_runtime::webhook::{Defaulter, Denied, Operation, Request, Validator, Warnings, Webhook, Webhooks};

use super::{
    Served,
    foo::{Foo, admission, foo},
};

const MUTATE: &str = "/mutate-webhook-windlass-example-v1-foo?timeout=10s";
const VALIDATE: &str = "/validate-webhook-windlass-example-v1-foo?timeout=10s";

/// Returns the response to a review; the rest of it must be as Kubernetes expects.
async fn ask(webhook: Webhook<Foo>, path: &str, review: Value) -> Value {
    let (_served, caller) = Served::with_certificate(Webhooks::new().add(webhook)).await;
    let (status, mut answer) = caller.post(path, &review).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    let mut response = answer["response"].take();
    assert_eq!(response["uid"], review["request"]["uid"]);
    response.as_object_mut().unwrap().remove("uid");
    response
}

fn patch_of(answer: &Value) -> Value {
    assert_eq!(answer["allowed"], true);
    assert_eq!(answer["patchType"], "JSONPatch");
    serde_json::from_slice(&STANDARD.decode(answer["patch"].as_str().unwrap()).unwrap()).unwrap()
}

#[tokio::test]
async fn defaults_are_answered_as_a_patch_that_leaves_the_unknown_alone() {
    let webhook = Webhook::<Foo>::new().default_with(|foo: &mut Foo, request: &Request<Foo>| -> Result<(), Denied> {
        foo.spec.replicas.get_or_insert(3);
        foo.metadata
            .labels
            .get_or_insert_default()
            .insert("user/of".to_owned(), request.user.username.clone().unwrap());
        Ok(())
    });
    let object = foo(json!({"unknown": {"a": [1]}, "zero": 0}));
    let answer = ask(webhook, MUTATE, admission("CREATE", object, Value::Null)).await;
    let expected = json!([
        {"op": "add", "path": "/metadata/labels", "value": {"user/of": "kubernetes-admin"}},
        {"op": "add", "path": "/spec/replicas", "value": 3},
    ]);
    assert_eq!(patch_of(&answer), expected);
}

#[tokio::test]
async fn nothing_to_default_means_no_patch() {
    let webhook = Webhook::<Foo>::new().default_with(|foo: &mut Foo, _: &Request<Foo>| {
        foo.spec.replicas.get_or_insert(3);
    });
    let object = foo(json!({"replicas": 1, "unknown": true}));
    let answer = ask(webhook, MUTATE, admission("UPDATE", object.clone(), object)).await;
    assert_eq!(answer, json!({"allowed": true}));
}

#[tokio::test]
async fn defaulters_run_in_order_and_may_wait() {
    struct Double;
    impl Defaulter<Foo> for Double {
        async fn default(&self, foo: &mut Foo, _: &Request<Foo>) -> Result<(), Denied> {
            tokio::task::yield_now().await;
            foo.spec.replicas = foo.spec.replicas.map(|replicas| replicas * 2);
            Ok(())
        }
    }
    let webhook = Webhook::<Foo>::new()
        .default_async(|mut foo, request: Arc<Request<Foo>>| async move {
            tokio::task::yield_now().await;
            foo.spec.replicas = Some(if request.is_create() { 5 } else { 0 });
            Ok::<_, Denied>(foo)
        })
        .defaulter(Double);
    let answer = ask(webhook, MUTATE, admission("CREATE", foo(json!({})), Value::Null)).await;
    assert_eq!(patch_of(&answer), json!([{"op": "add", "path": "/spec/replicas", "value": 10}]));
}

#[tokio::test]
async fn a_denial_names_the_invalid_fields() {
    let webhook = Webhook::<Foo>::new()
        .validate(|_: &Request<Foo>| Ok::<_, Denied>(Warnings::new("Foo is getting old")))
        .validate(|request: &Request<Foo>| -> Result<Warnings, Denied> {
            let spec = &request.object.as_ref().unwrap().spec;
            if spec.replicas < Some(0) {
                return Err(Denied::field("spec.replicas", "must not be negative").and_field("spec.image", "is empty"));
            }
            Ok(Warnings::none())
        });
    let answer = ask(webhook, VALIDATE, admission("CREATE", foo(json!({"replicas": -1})), Value::Null)).await;
    expect![[r#"
        {
          "allowed": false,
          "status": {
            "apiVersion": "v1",
            "code": 422,
            "details": {
              "causes": [
                {
                  "field": "spec.replicas",
                  "message": "must not be negative",
                  "reason": "FieldValueInvalid"
                },
                {
                  "field": "spec.image",
                  "message": "is empty",
                  "reason": "FieldValueInvalid"
                }
              ],
              "group": "webhook.windlass.example",
              "kind": "Foo",
              "name": "web"
            },
            "kind": "Status",
            "message": "Foo.webhook.windlass.example \"web\" is invalid: spec.replicas: must not be negative, spec.image: is empty",
            "metadata": {},
            "reason": "Invalid",
            "status": "Failure"
          },
          "warnings": [
            "Foo is getting old"
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&answer).unwrap());
}

#[tokio::test]
async fn validation_sees_old_and_new_and_everything_else() {
    let webhook = Webhook::<Foo>::new().also_on_delete().validate_async(|request: Arc<Request<Foo>>| async move {
        assert_eq!(request.operation, Operation::Update);
        assert_eq!((request.name.as_str(), request.namespace.as_deref()), ("web", Some("default")));
        assert_eq!(request.resource.resource, "foos");
        assert_eq!(request.subresource.as_deref(), Some("status"));
        assert_eq!(request.options["fieldManager"], "kubectl-edit");
        assert!(request.dry_run);
        let [old, new] = [&request.old_object, &request.object].map(|foo| foo.as_ref().unwrap().spec.replicas.unwrap());
        Ok::<_, Denied>(Warnings::new(format!("from {old} to {new}")))
    });
    let mut review = admission("UPDATE", foo(json!({"replicas": 2})), foo(json!({"replicas": 1})));
    review["request"]["dryRun"] = true.into();
    review["request"]["subResource"] = "status".into();
    let answer = ask(webhook, VALIDATE, review).await;
    assert_eq!(answer, json!({"allowed": true, "warnings": ["from 1 to 2"]}));
}

#[tokio::test]
async fn a_validator_is_called_by_operation() {
    struct Each;
    impl Validator<Foo> for Each {
        async fn validate_update(&self, old: &Foo, new: &Foo, _: &Request<Foo>) -> Result<Warnings, Denied> {
            match old.spec == new.spec {
                true => Ok(Warnings::none()),
                false => Err(Denied::new("frozen").code(409).reason("Conflict")),
            }
        }

        async fn validate_delete(&self, old: &Foo, _: &Request<Foo>) -> Result<Warnings, Denied> {
            Ok(Warnings::new(format!("{} goes", old.spec.image)))
        }
    }
    let webhook = || Webhook::<Foo>::new().also_on_delete().validator(Each);
    let (a, b) = (foo(json!({"image": "a"})), foo(json!({"image": "b"})));

    let answer = ask(webhook(), VALIDATE, admission("CREATE", a.clone(), Value::Null)).await;
    assert_eq!(answer, json!({"allowed": true}));
    let answer = ask(webhook(), VALIDATE, admission("UPDATE", b, a.clone())).await;
    assert_eq!((&answer["status"]["code"], &answer["status"]["message"]), (&json!(409), &json!("frozen")));
    let answer = ask(webhook(), VALIDATE, admission("DELETE", Value::Null, a)).await;
    assert_eq!(answer["warnings"], json!(["a goes"]));
    // Kubernetes does not do this, but it is no reason to fail.
    let answer = ask(webhook(), VALIDATE, admission("DELETE", Value::Null, Value::Null)).await;
    assert_eq!(answer["status"]["code"], 400);
}

#[tokio::test]
async fn an_object_that_fails_to_deserialize_is_denied() {
    let webhook = Webhook::<Foo>::new().validate(|_: &Request<Foo>| Ok::<_, Denied>(()));
    let answer = ask(webhook, VALIDATE, admission("CREATE", foo(json!({"replicas": "many"})), Value::Null)).await;
    assert_eq!(answer["allowed"], false);
    assert_eq!(answer["status"]["code"], 400);
}

#[tokio::test]
async fn a_stored_object_that_the_type_cannot_hold_can_be_defaulted_but_not_validated() {
    let webhook = Webhook::<Foo>::new()
        .default_with(|foo: &mut Foo, request: &Request<Foo>| {
            assert!(request.is_update() && request.old_object.is_none());
            foo.spec.replicas.get_or_insert(3);
        })
        .validate(|_: &Request<Foo>| Ok::<_, Denied>(()));
    let (_served, caller) = Served::with_certificate(Webhooks::new().add(webhook)).await;
    let review = admission("UPDATE", foo(json!({})), foo(json!({"replicas": "many"})));
    let (_, answer) = caller.post(MUTATE, &review).await;
    assert_eq!(patch_of(&answer["response"]), json!([{"op": "add", "path": "/spec/replicas", "value": 3}]));
    let (_, answer) = caller.post(VALIDATE, &review).await;
    assert_eq!(answer["response"]["status"]["code"], 400);
}

#[tokio::test]
async fn another_kind_is_rejected() {
    let webhook = Webhook::<Foo>::new().validate(|_: &Request<Foo>| Ok::<_, Denied>(()));
    let mut review = admission("UPDATE", foo(json!({})), foo(json!({})));
    review["request"]["kind"] = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    let answer = ask(webhook, VALIDATE, review).await;
    assert_eq!(
        answer["status"]["message"],
        "this webhook handles Foo of webhook.windlass.example/v1, not Scale of autoscaling/v1"
    );
}

#[tokio::test]
async fn a_panic_denies_and_is_counted() {
    let webhook = Webhook::<Foo>::new().validate(|request: &Request<Foo>| -> Result<(), Denied> {
        assert!(request.name != "web", "no web");
        Ok(())
    });
    let (served, caller) = Served::with_certificate(Webhooks::new().add(webhook)).await;
    let mut review = admission("CREATE", foo(json!({})), Value::Null);
    let (_, answer) = caller.post(VALIDATE, &review).await;
    assert_eq!(answer["response"]["status"]["message"], "panic: no web [recovered]");
    assert_eq!(answer["response"]["status"]["code"], 500);
    review["request"]["name"] = "other".into();
    let (_, answer) = caller.post(VALIDATE, &review).await;
    assert_eq!(answer["response"]["allowed"], true);
    assert!(served.metrics.encode().contains("controller_runtime_webhook_panics_total 1\n"));
}

#[test]
fn a_webhook_describes_itself() {
    let webhook = Webhook::<Foo>::new()
        .default_with(|_: &mut Foo, _: &Request<Foo>| ())
        .validate(|_: &Request<Foo>| Ok::<_, Denied>(()))
        .also_on_delete()
        .subresource("status")
        .timeout_seconds(5);
    let described = Webhooks::new().add(webhook).describe();
    let [mutate, validate] = &described[..] else { panic!("{described:?}") };
    assert_eq!(mutate.path, MUTATE.split('?').next().unwrap());
    assert_eq!(mutate.rules[0].operations, [Operation::Create, Operation::Update]);
    assert_eq!(validate.path, VALIDATE.split('?').next().unwrap());
    assert_eq!(validate.rules[0].operations, [Operation::Create, Operation::Update, Operation::Delete]);
    assert_eq!(validate.name, "validate.foos.v1.webhook.windlass.example");
    assert_eq!(validate.rules[0].resources, ["foos", "foos/status"]);
    assert_eq!((validate.calls.timeout_seconds, validate.versions.as_slice()), (5, ["v1".to_owned()].as_slice()));
}
