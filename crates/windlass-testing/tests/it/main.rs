//! Test planes, used as tests of operators use them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod roles;
mod webhook_calls;
mod webhooks;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use windlass_runtime::{
    context::Context,
    controller::{Action, Controller},
    operator::Operator,
};
use windlass_testing::{
    TestCluster, TestPlane,
    fixtures::{self, Fixture},
};

const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test]
async fn hundreds_of_planes_run_side_by_side_in_isolation() {
    let planes = join_all((0..200).map(async |number| {
        let plane = TestPlane::builder().await;
        plane.create(fixtures::config_map("mine", "number", &number.to_string()).within("default")).await;
        plane
    }))
    .await;
    for (number, plane) in planes.iter().enumerate() {
        let maps: Api<ConfigMap> = Api::default_namespaced(plane.client());
        let data = maps.get("mine").await.unwrap().data.unwrap();
        assert_eq!(data["number"], number.to_string());
    }
    let namespaces: BTreeSet<_> = planes.iter().map(|plane| plane.namespace()).collect();
    assert_eq!(namespaces.len(), planes.len());
}

#[tokio::test]
async fn a_day_of_virtual_time_passes_instantly_for_the_server_too() {
    let began = std::time::Instant::now();
    let plane = TestPlane::builder().virtual_time().await;
    let before = plane.create(fixtures::config_map("before", "a", "b")).await;
    plane.advance(DAY).await;
    let after = plane.create(fixtures::config_map("after", "a", "b")).await;
    let created = |map: ConfigMap| map.metadata.creation_timestamp.unwrap().0.as_second();
    let passed = created(after) - created(before);
    assert!((86_400..86_500).contains(&passed), "{passed} seconds passed");
    assert!(began.elapsed() < DAY / 1000, "virtual time must be instant");
}

#[tokio::test]
async fn the_history_has_every_change_of_each_object() {
    let cluster = TestCluster::start().await;
    cluster.create(fixtures::config_map("settings", "colour", "red").finalized("example.com/hold")).await;
    let maps: Api<ConfigMap> = cluster.api();
    let blue = Patch::Merge(json!({"data": {"colour": "blue"}}));
    maps.patch("settings", &PatchParams::default(), &blue).await.unwrap();
    maps.delete("settings", &DeleteParams::default()).await.unwrap();
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("settings", &PatchParams::default(), &free).await.unwrap();
    cluster.expect::<ConfigMap>("settings").gone().await;
    let history = cluster.history().await;
    let told = history.split("ConfigMap ").nth(1).unwrap();
    assert!(told.starts_with(&format!("{}/settings", cluster.namespace())), "{history}");
    let lines = ["data.colour: \"red\" -> \"blue\"", "metadata.deletionTimestamp: (nothing)", "deleted"];
    let places: Vec<_> = lines.iter().map(|line| told.find(line).unwrap_or_else(|| panic!("{line}: {told}"))).collect();
    assert!(places.is_sorted(), "{told}");
}

#[tokio::test]
async fn objects_are_created_in_the_namespace_they_name() {
    let cluster = TestCluster::start().await;
    cluster.create(fixtures::namespace("elsewhere")).await;
    cluster.create(fixtures::config_map("here", "a", "b")).await;
    cluster.create(fixtures::config_map("there", "a", "b").within("elsewhere")).await;
    assert_eq!(
        cluster.expect::<ConfigMap>("here").exists().await.metadata.namespace.as_deref(),
        Some(cluster.namespace())
    );
    let there: Api<ConfigMap> = Api::namespaced(cluster.client(), "elsewhere");
    cluster.expect_in(there, "there").exists().await;
    let namespaces = Api::<Namespace>::all(cluster.client()).list(&ListParams::default()).await.unwrap();
    assert!(namespaces.items.iter().any(|namespace| namespace.metadata.name.as_deref() == Some("elsewhere")));
}

/// An operator that marks the ConfigMaps of all namespaces.
fn marking() -> Operator {
    let controller = Controller::<ConfigMap>::new("marks", async |config: Arc<ConfigMap>, ctx: Context| {
        if config.metadata.labels.is_none() {
            ctx.patch(&config, &Patch::Merge(json!({"metadata": {"labels": {"marked": "yes"}}}))).await?;
        }
        Ok(Action::done())
    });
    Operator::new("marking").controller(controller)
}

#[tokio::test]
async fn an_operator_can_watch_all_namespaces() {
    let plane = TestPlane::builder().await;
    if plane.server().is_none() {
        // It would change objects of other tests.
        return;
    }
    plane.create(fixtures::namespace("elsewhere")).await;
    let running = plane.run_in_all_namespaces(marking());
    plane.create(fixtures::config_map("here", "a", "b")).await;
    plane.create(fixtures::config_map("there", "a", "b").within("elsewhere")).await;
    let marked = |config: &ConfigMap| config.metadata.labels.as_ref().is_some_and(|labels| labels["marked"] == "yes");
    let there: Api<ConfigMap> = Api::namespaced(plane.client(), "elsewhere");
    plane.expect_in(there, "there").to("be marked", marked).await;
    plane.expect::<ConfigMap>("here").to("be marked", marked).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "timed out waiting: ConfigMap missing should exist")]
async fn an_expectation_that_never_holds_fails_the_test() {
    let cluster = TestCluster::start().await;
    cluster.expect::<ConfigMap>("missing").exists().await;
}
