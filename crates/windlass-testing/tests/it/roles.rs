//! Operators run with the roles of their manifests, and a missing rule fails the test.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use expect_test::{Expect, expect};
use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, ResourceExt as _, api::DeleteParams};
use windlass_runtime::{
    Result,
    context::Context,
    controller::{Action, Controller},
    manifests::Permission,
    operator::Operator,
};
use windlass_testing::{
    RunningOperator, TestCluster, eventually,
    fixtures::{self, Fixture},
};

/// Creates a Secret for each ConfigMap.
async fn copy(map: Arc<ConfigMap>, ctx: Context) -> Result<Action> {
    let secret = fixtures::secret(&map.name_any(), "colour", "blue").within(&map.namespace().unwrap_or_default());
    match ctx.create(secret).await {
        Err(error) if !error.is_already_exists() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

fn copier() -> Controller<ConfigMap> {
    Controller::new("copier", copy)
}

/// Starts an operator that is denied a request.
async fn denied(cluster: &TestCluster) -> RunningOperator {
    let running = cluster.run(Operator::new("copy-operator").controller(copier()));
    cluster.create(fixtures::config_map("one", "colour", "blue")).await;
    eventually("a request is denied", async || (!running.denials().is_empty()).then_some(())).await;
    running
}

/// Checks the message of a panic.
fn failed(cluster: &TestCluster, outcome: std::thread::Result<()>, expected: Expect) {
    let panic = outcome.expect_err("the test must fail");
    let message = panic.downcast_ref::<String>().unwrap();
    expected.assert_eq(&message.replace(cluster.namespace(), "NAMESPACE"));
}

#[tokio::test]
async fn a_missing_rule_fails_the_test_when_the_operator_stops() {
    let cluster = TestCluster::start().await;
    let running = denied(&cluster).await;
    let outcome = AssertUnwindSafe(running.stop()).catch_unwind().await.map(|result| result.unwrap());
    failed(
        &cluster,
        outcome,
        expect![[r#"
            the generated roles of copy-operator are too small:

            controller "copier" may not create secrets in namespace NAMESPACE
              missing rule:
                - apiGroups: [""]
                  resources: ["secrets"]
                  verbs: ["create"]
              hint: add to controller "copier": .creates::<Secret>()
        "#]],
    );
}

#[tokio::test]
async fn a_missing_rule_fails_the_test_when_the_operator_is_dropped() {
    let cluster = TestCluster::start().await;
    let running = denied(&cluster).await;
    let outcome = catch_unwind(AssertUnwindSafe(|| drop(running)));
    let message = *outcome.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains(".creates::<Secret>()"), "{message}");
    // Once is enough.
    drop(cluster);
}

#[tokio::test]
async fn a_missing_rule_fails_the_next_expectation() {
    let cluster = TestCluster::start().await;
    let running = denied(&cluster).await;
    let outcome = AssertUnwindSafe(cluster.expect::<Secret>("one").exists()).catch_unwind().await;
    let message = *outcome.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains(".creates::<Secret>()"), "{message}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_missing_rule_fails_the_test_even_if_nothing_else_looks() {
    let cluster = TestCluster::start().await;
    std::mem::forget(denied(&cluster).await);
    let outcome = catch_unwind(AssertUnwindSafe(|| drop(cluster)));
    let message = *outcome.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains(".creates::<Secret>()"), "{message}");
}

#[tokio::test]
async fn a_declared_rule_is_enough() {
    let cluster = TestCluster::start().await;
    let running = cluster.run(Operator::new("copy-operator").controller(copier().creates::<Secret>()));
    cluster.create(fixtures::config_map("one", "colour", "blue")).await;
    cluster.expect::<Secret>("one").exists().await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn an_administrator_needs_no_rules() {
    let cluster = TestCluster::start().await;
    let running = cluster.run_as_admin(Operator::new("copy-operator").controller(copier()));
    cluster.create(fixtures::config_map("one", "colour", "blue")).await;
    cluster.expect::<Secret>("one").exists().await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_test_can_allow_denials() {
    let cluster = TestCluster::start().await;
    let running = denied(&cluster).await.allow_denials();
    cluster.expect::<ConfigMap>("one").exists().await;
    let denial = running.denials().remove(0);
    assert_eq!((denial.verb.as_str(), denial.resource.as_str()), ("create", "secrets"));
    assert!(denial.user.starts_with("system:serviceaccount:") && denial.user.contains(":copy-operator"), "{denial:?}");
    running.stop().await.unwrap();
}

/// Deletes a Secret for each ConfigMap, without the context.
async fn clean(map: Arc<ConfigMap>, ctx: Context) -> Result<Action> {
    let secrets: Api<Secret> = ctx.api(&map.namespace().unwrap_or_default());
    // The result does not matter.
    let _ = secrets.delete(&map.name_any(), &DeleteParams::default()).await;
    Ok(Action::done())
}

#[tokio::test]
async fn requests_of_the_client_need_rules_too() {
    let cluster = TestCluster::start().await;
    let controller = Controller::<ConfigMap>::new("cleaner", clean);
    let running = cluster.run(Operator::new("clean-operator").controller(controller));
    cluster.create(fixtures::config_map("one", "colour", "blue")).await;
    eventually("a request is denied", async || (!running.denials().is_empty()).then_some(())).await;
    let outcome = catch_unwind(AssertUnwindSafe(|| drop(running)));
    failed(
        &cluster,
        outcome,
        expect![[r#"
            the generated roles of clean-operator are too small:

            may not delete secrets in namespace NAMESPACE
              missing rule:
                - apiGroups: [""]
                  resources: ["secrets"]
                  verbs: ["delete"]
              hint: add to the operator, or to the controller that sent it: .permission(Permission::new("", "secrets", ["delete"]))
        "#]],
    );
}

#[tokio::test]
async fn permissions_of_tasks_belong_to_the_operator() {
    let cluster = TestCluster::start().await;
    let namespace = cluster.namespace().to_owned();
    let operator = Operator::new("task-operator").permission(Permission::of::<Secret>(["create"])).task(
        "once",
        async move |ctx, _shutdown| {
            ctx.create(fixtures::secret("one", "colour", "blue").within(&namespace)).await?;
            Ok(())
        },
    );
    let running = cluster.run(operator);
    cluster.expect::<Secret>("one").exists().await;
    running.stop().await.unwrap();
}
