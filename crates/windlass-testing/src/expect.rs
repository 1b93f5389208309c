//! Expectations about objects, which a test waits for.

use std::fmt::Debug;

use k8s_openapi::{NamespaceResourceScope, api::events::v1::Event, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{Api, Resource, api::ListParams};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{TestCluster, eventually};

/// Expectations about an object. Every method waits until its expectation holds, and fails the test if it never does.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_testing::{TestCluster, fixtures};
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let cluster = TestCluster::start().await;
/// cluster.create(fixtures::config_map("settings", "colour", "blue")).await;
/// let is_blue = |map: &ConfigMap| map.data.iter().any(|data| data["colour"] == "blue");
/// let map = cluster.expect::<ConfigMap>("settings").to("be blue", is_blue).await;
/// assert_eq!(map.metadata.name.as_deref(), Some("settings"));
/// # });
/// ```
pub struct Expectation<'a, K> {
    cluster: &'a TestCluster,
    api: Api<K>,
    name: String,
    kind: String,
}

impl TestCluster {
    /// Starts an expectation about an object in the test's namespace.
    pub fn expect<K>(&self, name: &str) -> Expectation<'_, K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        self.expect_in(self.api(), name)
    }

    /// Starts an expectation about a cluster-scoped object, or one in another namespace.
    pub fn expect_in<K: Resource<DynamicType = ()>>(&self, api: Api<K>, name: &str) -> Expectation<'_, K> {
        Expectation { cluster: self, api, name: name.to_owned(), kind: K::kind(&()).into_owned() }
    }
}

impl<K> Expectation<'_, K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    /// Waits until the object exists.
    pub async fn exists(&self) -> K {
        self.to("exist", |_| true).await
    }

    /// Waits until `holds` returns true. `what` completes the sentence "the object should ...".
    pub async fn to(&self, what: &str, holds: impl Fn(&K) -> bool) -> K {
        let sentence = format!("{} {} should {what}", self.kind, self.name);
        eventually(&sentence, async || self.get().await.filter(|object| holds(object))).await
    }

    /// Waits until the object does not exist.
    pub async fn gone(&self) {
        let sentence = format!("{} {} should be gone", self.kind, self.name);
        eventually(&sentence, async || self.get().await.is_none().then_some(())).await;
    }

    /// Waits until a condition is `True`.
    pub async fn condition(&self, kind: &str) -> Condition {
        self.condition_is(kind, "True").await
    }

    /// Waits until a condition has a status: `True`, `False` or `Unknown`.
    pub async fn condition_is(&self, kind: &str, status: &str) -> Condition {
        let sentence = format!("{} {} should have the condition {kind} {status}", self.kind, self.name);
        eventually(&sentence, async || {
            let condition = condition_of(&self.get().await?, kind)?;
            (condition.status == status).then_some(condition)
        })
        .await
    }

    /// Waits until a condition has a status and a reason.
    pub async fn condition_for(&self, kind: &str, status: &str, reason: &str) -> Condition {
        let sentence = format!("{} {} should have the condition {kind} {status} for {reason}", self.kind, self.name);
        eventually(&sentence, async || {
            let condition = condition_of(&self.get().await?, kind)?;
            (condition.status == status && condition.reason == reason).then_some(condition)
        })
        .await
    }

    /// Waits for an event about the object with a reason.
    pub async fn event(&self, reason: &str) -> Event {
        let sentence = format!("{} {} should have an event {reason}", self.kind, self.name);
        let events: Api<Event> = Api::all(self.cluster.client());
        let uid = self.exists().await.meta().uid.clone();
        eventually(&sentence, async || {
            let list = events.list(&ListParams::default()).await.ok()?;
            list.items.into_iter().find(|event| {
                event.regarding.as_ref().is_some_and(|regarding| regarding.uid == uid)
                    && event.reason.as_deref() == Some(reason)
            })
        })
        .await
    }

    async fn get(&self) -> Option<K> {
        // What is expected may never happen.
        self.cluster.check_denials();
        match self.api.get_opt(&self.name).await {
            Ok(object) => object,
            Err(error) => panic!("failed to get {} {}: {error}", self.kind, self.name),
        }
    }
}

/// Returns a condition of an object of any kind. Missing reasons, messages and times are filled in.
fn condition_of(object: &impl Serialize, kind: &str) -> Option<Condition> {
    let object = serde_json::to_value(object).expect("an object must serialize");
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let mut condition = conditions.iter().find(|condition| condition["type"] == kind)?.clone();
    for (field, fallback) in [("reason", ""), ("message", ""), ("lastTransitionTime", "1970-01-01T00:00:00Z")] {
        if condition.get(field).is_none_or(Value::is_null) {
            condition[field] = fallback.into();
        }
    }
    serde_json::from_value(condition).ok()
}
