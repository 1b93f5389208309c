//! Causes of a reconcile.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;
use windlass_runtime::{
    Error,
    context::Context,
    controller::{Action, Cause, Trigger, Watch},
    object::revision_of,
    scope::Scope,
};

use super::*;
use crate::cluster::TestCluster;

fn labelled(name: &str) -> ConfigMap {
    let mut config = config(name);
    config.metadata.labels = Some([("test".to_owned(), "causes".to_owned())].into());
    config
}

#[tokio::test]
async fn a_reconcile_knows_what_has_caused_it() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), cluster.namespace());
    let owner = create(&api, labelled("a")).await;
    let (journal, trigger) = (Journal::new(), Trigger::new());
    let written = journal.clone();
    let controller = Controller::<ConfigMap>::new("causes", move |config: Arc<ConfigMap>, ctx: Context| {
        written.write(ctx.causes());
        let changed = ctx.causes().iter().any(|cause| matches!(cause, Cause::Object { .. }));
        let fails = changed && config.data.as_ref().is_some_and(|data| data.contains_key("fails"));
        async move {
            match fails {
                true => Err(Error::new("once")),
                false if ctx.attempts() > 0 => Ok(Action::requeue_after(Duration::from_millis(1))),
                false => Ok(Action::done()),
            }
        }
    })
    .scope(Scope::namespace(cluster.namespace()).labels("test=causes"))
    .source(Watch::<Secret>::new().scope(Scope::namespace(cluster.namespace())).owned())
    .source(&trigger);
    let running = Running::start(cluster.client(), controller);
    journal.until("the initial list", |seen| seen == [vec![Cause::Initial]]).await;

    let changed = merge(&api, "a", json!({"data": {"x": "1"}})).await;
    let expected = Cause::Object { old: Some(revision_of(&owner)), new: Some(revision_of(&changed)) };
    journal.until("a change of the object", |seen| seen.last() == Some(&vec![expected.clone()])).await;

    let mut child = Secret::default();
    child.metadata.name = Some("child".into());
    child.metadata.owner_references = Some(vec![controlled_by(&owner)]);
    let child = create(&secrets, child).await;
    let expected =
        Cause::Watched { kind: "Secret".into(), key: ObjectKey::of(&child), old: None, new: Some(revision_of(&child)) };
    journal.until("an event of a child", |seen| seen.last() == Some(&vec![expected.clone()])).await;

    trigger.enqueue(ObjectKey::of(&owner));
    journal.until("a trigger", |seen| seen.last() == Some(&vec![Cause::Source])).await;
    trigger.enqueue_all();
    journal.until("a resync", |seen| seen.last() == Some(&vec![Cause::Resync])).await;

    merge(&api, "a", json!({"data": {"fails": "once"}})).await;
    journal.until("a retry and a requeue", |seen| seen.ends_with(&[vec![Cause::Retry], vec![Cause::Requeue]])).await;
    let counted = |cause: &str| {
        running.metric(&format!("windlass_reconcile_causes_total{{controller=\"causes\",cause=\"{cause}\"}}"))
    };
    assert_eq!(
        ["initial", "object", "watched", "source", "resync", "retry"].map(counted),
        [1.0, 2.0, 1.0, 1.0, 1.0, 1.0]
    );
    running.stop().await;
}
