//! Reads and writes of reconcilers.

mod apply;
mod edit_status;
mod finalizers;
mod lagging;
mod options;
mod set;
mod status;
mod subresources;
mod writes;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret, ServiceAccount},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResource, CustomResourceExt, Resource,
    api::{Patch, PatchParams, PostParams},
    client::Body,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_macros::Conditions;
use windlass_runtime::{
    cache::Index,
    context::{Context, ContextError},
    events::Recorder,
    key::ObjectKey,
    object::Object,
    objects::conditions::{self, Condition},
    scope::Scope,
};

use crate::cluster::{TestCluster, eventually};

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "context.windlass.dev", version = "v1", kind = "Gadget", namespaced, status = "GadgetStatus")]
#[serde(rename_all = "camelCase")]
struct GadgetSpec {
    size: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    color: Option<String>,
    #[serde(default = "round")]
    shape: String,
}

fn round() -> String {
    "round".into()
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Conditions)]
#[conditions(crate = windlass_runtime)]
#[serde(rename_all = "camelCase")]
struct GadgetStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    conditions: Vec<Condition>,
}

/// A context like that of a controller, which counts its writes.
struct Bench {
    cluster: TestCluster,
    context: Context,
    writes: Arc<AtomicUsize>,
}

impl Bench {
    async fn start() -> Self {
        let cluster = TestCluster::start().await;
        let client = cluster.client();
        Self::over(cluster, client).await
    }

    /// Uses a client that may have faults.
    async fn over(cluster: TestCluster, client: Client) -> Self {
        let writes = Arc::new(AtomicUsize::new(0));
        let client = counting(client, Arc::clone(&writes));
        let recorder = Recorder::new(client.clone(), "gadget-operator", "test");
        let context = Context::builder(client).recorder(recorder).field_manager("gadget-operator").build();
        let bench = Self { cluster, context, writes };
        bench.wire::<ConfigMap>().await;
        bench.wire::<Secret>().await;
        bench
    }

    /// Adds the kind Gadget.
    async fn with_gadgets() -> Self {
        let bench = Self::start().await;
        let definitions: Api<CustomResourceDefinition> = Api::all(bench.cluster.client());
        let definition = Gadget::crd();
        let name = definition.metadata.name.clone().unwrap();
        definitions.patch(&name, &PatchParams::apply("tests").force(), &Patch::Apply(&definition)).await.unwrap();
        bench.wire::<Gadget>().await;
        bench
    }

    async fn wire<K: Object<DynamicType: Default>>(&self) {
        self.wire_scope::<K>(&Scope::namespace(self.namespace())).await;
    }

    async fn wire_scope<K: Object<DynamicType: Default>>(&self, scope: &Scope) {
        let informer = self.context.caches().informer::<K>(scope);
        informer.synced().await;
        self.context.add_informer(&K::DynamicType::default(), scope, informer);
    }

    fn namespace(&self) -> &str {
        self.cluster.namespace()
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(self.namespace(), name)
    }

    /// Returns the API of another client.
    fn api<K>(&self) -> Api<K>
    where
        K: Object + Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client(), self.namespace())
    }

    /// Sends a merge patch of another client, and waits until it is cached.
    async fn meddle<K>(&self, name: &str, patch: serde_json::Value) -> Arc<K>
    where
        K: Object + Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        let written = self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        self.seen(name, &written).await
    }

    /// Waits until a state is cached.
    async fn seen<K>(&self, name: &str, state: &K) -> Arc<K>
    where
        K: Object<DynamicType = ()>,
    {
        let version = state.meta().resource_version.clone();
        eventually("the cache has seen the write", async || {
            self.context.get::<K>(&self.key(name)).unwrap().filter(|cached| cached.meta().resource_version == version)
        })
        .await
    }

    /// Returns the number of writes since the last call.
    fn writes(&self) -> usize {
        self.writes.swap(0, Ordering::SeqCst)
    }

    /// Creates a ConfigMap as a parent.
    async fn parent(&self, name: &str) -> Arc<ConfigMap> {
        let parent = self.api().create(&PostParams::default(), &self.config(name, &[])).await.unwrap();
        self.seen(name, &parent).await
    }

    fn config(&self, name: &str, data: &[(&str, &str)]) -> ConfigMap {
        let mut config = ConfigMap::default();
        config.metadata.name = Some(name.into());
        config.metadata.namespace = Some(self.namespace().into());
        config.data = Some(data.iter().map(|&(key, value)| (key.into(), value.into())).collect());
        config
    }

    fn gadget(&self, name: &str, size: i64) -> Gadget {
        let mut gadget = Gadget::new(name, GadgetSpec { size, color: None, shape: round() });
        gadget.metadata.namespace = Some(self.namespace().into());
        gadget
    }
}

/// Returns a client that counts requests other than GETs.
fn counting(client: Client, writes: Arc<AtomicUsize>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        if request.method() != http::Method::GET {
            writes.fetch_add(1, Ordering::SeqCst);
        }
        let client = client.clone();
        async move { client.send(request).await }
    });
    Client::new(service, namespace)
}

#[tokio::test]
async fn the_error_for_a_kind_that_is_not_watched_has_a_hint() {
    let bench = Bench::start().await;
    let key = bench.key("web");
    let error = bench.context.get::<k8s_openapi::api::core::v1::Pod>(&key).unwrap_err().to_string();
    for part in ["Pod is not watched", ".owns::<Pod>()", ".watches::<Pod>(..)", "ctx.live()"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(bench.context.list::<k8s_openapi::api::core::v1::Pod>().is_err());
    let live = bench.context.live().get::<k8s_openapi::api::core::v1::Pod>(&key).await.unwrap();
    assert!(live.is_none(), "which works");
}

/// A ConfigMap as an older version of an operator knows it.
#[derive(Resource, Clone, Debug, Serialize, Deserialize)]
#[resource(inherit = ConfigMap)]
struct Sizes {
    metadata: kube::core::ObjectMeta,
    #[serde(default)]
    data: std::collections::BTreeMap<String, u32>,
}

#[tokio::test]
async fn a_former_state_is_not_returned_for_an_object_that_became_unreadable() {
    let bench = Bench::start().await;
    bench.wire::<Sizes>().await;
    bench.context.create(bench.config("one", &[])).await.unwrap();
    let get = || bench.context.get::<Sizes>(&bench.key("one"));
    eventually("it is cached", async || get().unwrap()).await;
    bench.meddle::<ConfigMap>("one", serde_json::json!({"data": {"size": "large"}})).await;
    let error = eventually("it is unreadable", async || get().err()).await;
    assert!(matches!(&error, ContextError::Unreadable { key, .. } if *key == bench.key("one")), "{error}");
    bench.meddle::<ConfigMap>("one", serde_json::json!({"data": null})).await;
    eventually("it is readable again", async || get().ok().flatten()).await;
}

#[tokio::test]
async fn reads_are_by_key_namespace_selector_and_owner() {
    let bench = Bench::start().await;
    let ctx = &bench.context;
    let parent = bench.parent("parent").await;
    for (name, app) in [("a", "web"), ("b", "db")] {
        let mut config = bench.config(name, &[]);
        config.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        ctx.apply_owned(&parent, config).await.unwrap();
    }
    assert_eq!(ctx.get::<ConfigMap>(&bench.key("a")).unwrap().unwrap().metadata.name.as_deref(), Some("a"));
    assert!(ctx.get::<ConfigMap>(&bench.key("c")).unwrap().is_none());
    let names = |objects: Vec<Arc<ConfigMap>>| {
        let mut names: Vec<String> = objects.iter().filter_map(|object| object.metadata.name.clone()).collect();
        names.retain(|name| name != "kube-root-ca.crt");
        names.sort();
        names
    };
    assert_eq!(names(ctx.list().unwrap()), ["a", "b", "parent"]);
    assert_eq!(names(ctx.list_in(bench.namespace()).unwrap()), ["a", "b", "parent"]);
    assert!(ctx.list_in::<ConfigMap>("elsewhere").unwrap().is_empty());
    let selector = windlass_runtime::cache::parse_selector("app=web").unwrap();
    assert_eq!(names(ctx.select(&selector).unwrap()), ["a"]);
    assert_eq!(names(ctx.select_in(bench.namespace(), &selector).unwrap()), ["a"]);
    assert_eq!(names(ctx.owned(&parent).unwrap()), ["a", "b"]);
    assert!(ctx.owned::<Secret, _>(&parent).unwrap().is_empty());
}

#[tokio::test]
async fn an_index_has_the_objects_of_all_scopes() {
    let bench = Bench::start().await;
    let ctx = &bench.context;
    let scope = || Scope::namespace(bench.namespace());
    for selector in ["team=a", "tier=web", "team=c"] {
        bench.wire_scope::<ServiceAccount>(&scope().labels(selector)).await;
    }
    for (name, team, tier) in [("one", "a", "db"), ("two", "a", "web"), ("three", "b", "web"), ("four", "b", "db")] {
        let mut account = ServiceAccount::default();
        (account.metadata.name, account.metadata.namespace) = (Some(name.into()), Some(bench.namespace().into()));
        account.metadata.labels =
            Some([("team".to_owned(), team.to_owned()), ("tier".to_owned(), tier.to_owned())].into());
        ctx.create(account).await.unwrap();
    }
    let tier =
        |account: &ServiceAccount| account.metadata.labels.iter().filter_map(|it| it.get("tier").cloned()).collect();
    let by_tier: Index<ServiceAccount, String> = ctx.index("tier", tier).unwrap();
    let names = |tier: &str| {
        let mut names: Vec<_> = by_tier.get(tier).iter().filter_map(|it| it.metadata.name.clone()).collect();
        names.sort();
        names
    };
    // `two` is in two scopes, `four` in none.
    assert_eq!((names("web"), names("db")), (vec!["three".to_owned(), "two".to_owned()], vec!["one".to_owned()]));
    assert_eq!((by_tier.count("web"), by_tier.count("db"), by_tier.count("none")), (2, 1, 0));
    let mut values = by_tier.clone().values();
    values.sort();
    assert_eq!(values, ["db", "web"]);
    let error = ctx.informer::<ServiceAccount>().err().unwrap().to_string();
    assert!(error.contains("several scopes") && error.contains("ctx.index"), "{error}");
    let error = ctx.index("tier", |_: &ServiceAccount| vec![1]).err().unwrap();
    assert!(matches!(error, ContextError::Index { .. }), "{error}");
}

#[tokio::test]
async fn an_unreadable_object_is_not_missing_in_reads_of_many_but_an_error() {
    let bench = Bench::start().await;
    let (parent, other) = (bench.parent("parent").await, bench.parent("other").await);
    for name in ["a", "b"] {
        let mut config = bench.config(name, &[]);
        config.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
        bench.context.apply_owned(&parent, config).await.unwrap();
    }
    // Values are text, which is not readable as a size.
    bench.meddle::<ConfigMap>("b", serde_json::json!({"data": {"size": "large"}})).await;
    let selector = |text: &str| windlass_runtime::cache::parse_selector(text).unwrap();
    // An informer that has never seen `b` in a readable state.
    let fresh = Context::builder(bench.cluster.client()).build();
    let scope = Scope::namespace(bench.namespace()).fields("metadata.name!=kube-root-ca.crt");
    let informer = fresh.caches().informer::<Sizes>(&scope);
    informer.synced().await;
    fresh.add_informer(&(), &scope, informer.clone());
    let index = || fresh.index("all", |_: &Sizes| vec![()]).map(|index: Index<Sizes, ()>| index.count(&()));
    let unreadable = [
        fresh.owned::<Sizes, _>(&parent).map(|all| all.len()),
        fresh.list::<Sizes>().map(|all| all.len()),
        fresh.list_in::<Sizes>(bench.namespace()).map(|all| all.len()),
        fresh.select::<Sizes>(&selector("app=web")).map(|all| all.len()),
        fresh.select_in::<Sizes>(bench.namespace(), &selector("app=web")).map(|all| all.len()),
        index(),
    ];
    for (place, read) in unreadable.into_iter().enumerate() {
        let error = read.err().unwrap_or_else(|| panic!("read {place}"));
        assert!(matches!(&error, ContextError::Unreadable { key, .. } if *key == bench.key("b")), "{error}");
    }
    // It does not belong to these.
    assert!(fresh.owned::<Sizes, _>(&other).unwrap().is_empty());
    assert!(fresh.list_in::<Sizes>("elsewhere").unwrap().is_empty());
    assert!(fresh.select::<Sizes>(&selector("app=db")).unwrap().is_empty());
    assert!(fresh.select_in::<Sizes>("elsewhere", &selector("app=web")).unwrap().is_empty());
    let names = |objects: Vec<Arc<Sizes>>| {
        let mut names: Vec<_> = objects.iter().filter_map(|object| object.metadata.name.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(names(informer.list()), ["a", "other", "parent"], "the informer omits it");
    bench.meddle::<ConfigMap>("b", serde_json::json!({"data": null})).await;
    let owned = eventually("it is readable", async || fresh.owned::<Sizes, _>(&parent).ok()).await;
    assert_eq!(names(owned), ["a", "b"]);
    // A former state counts.
    bench.meddle::<ConfigMap>("b", serde_json::json!({"data": {"size": "large"}})).await;
    eventually("it is unreadable again", async || fresh.get::<Sizes>(&bench.key("b")).err()).await;
    assert_eq!(names(fresh.owned::<Sizes, _>(&parent).unwrap()), ["a", "b"]);
    assert_eq!(index().unwrap(), names(fresh.list::<Sizes>().unwrap()).len());
}
