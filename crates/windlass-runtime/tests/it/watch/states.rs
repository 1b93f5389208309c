//! Ways to fetch a state: pages, streams, scopes, forms.

use k8s_openapi::api::core::v1::Secret;
use kube::core::{DynamicObject, PartialObjectMeta};

use super::*;
use crate::faults::{Fault, Faults, Seen};

/// Makes lists read from storage, in pages, as after an expired revision.
fn paged(faults: &Faults) {
    faults.inject(|seen| seen.is_list("configmaps"), 1, Fault::status(410));
}

fn lists(faults: &Faults) -> Vec<Seen> {
    faults.seen().into_iter().filter(|seen| seen.is_list("configmaps")).collect()
}

#[tokio::test]
async fn a_list_in_pages_is_one_state() {
    let cluster = TestCluster::start().await;
    for number in 0..7 {
        create(&cluster, &format!("object-{number}")).await;
    }
    let faults = Faults::around(cluster.client());
    paged(&faults);
    // A page that breaks is requested again, alone.
    faults.inject(|seen| !seen.parameter("continue").is_empty(), 1, Fault::Cut(700));
    let options = WatchOptions { page_size: 3, ..options(&cluster) };
    let mut reflected = Reflected::<ConfigMap>::start(faults.client(), options);
    reflected.until("the state has arrived", |reflected| reflected.replaces == 1).await;
    assert_eq!(reflected.objects.len(), 7);
    assert_eq!(lists(&faults).len(), 1 + 3 + 1);
    create(&cluster, "later").await;
    reflected.until("changes follow", |reflected| reflected.objects.len() == 8).await;
}

#[tokio::test]
async fn an_expired_page_restarts_the_list() {
    let cluster = TestCluster::start().await;
    for number in 0..5 {
        create(&cluster, &format!("object-{number}")).await;
    }
    let faults = Faults::around(cluster.client());
    paged(&faults);
    faults.inject(|seen| !seen.parameter("continue").is_empty(), 1, Fault::status(410));
    let options = WatchOptions { page_size: 3, ..options(&cluster) };
    let mut reflected = Reflected::<ConfigMap>::start(faults.client(), options);
    reflected.until("the state has arrived", |reflected| reflected.replaces == 1).await;
    assert_eq!(reflected.objects.len(), 5);
    let last = lists(&faults).pop().unwrap();
    assert_eq!((last.parameter("resourceVersion"), last.parameter("limit"), last.parameter("continue")), ("", "", ""));
}

#[tokio::test]
async fn a_state_is_streamed_and_its_changes_follow_on_the_same_connection() {
    let cluster = TestCluster::start().await;
    create(&cluster, "a").await;
    let faults = Faults::around(cluster.client());
    let options = WatchOptions { streaming_list: true, ..options(&cluster) };
    let mut reflected = Reflected::<ConfigMap>::start(faults.client(), options);
    reflected.until("the state has arrived", |reflected| reflected.replaces == 1).await;
    assert_eq!(reflected.names(), ["a"]);
    create(&cluster, "b").await;
    reflected.until("b exists", |reflected| reflected.names() == ["a", "b"]).await;
    let seen = faults.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].parameter("sendInitialEvents"), "true");
    assert_eq!(seen[0].parameter("resourceVersionMatch"), "NotOlderThan");
}

#[tokio::test]
async fn a_server_without_streaming_lists_gets_ordinary_lists_from_then_on() {
    for code in [400, 422] {
        let cluster = TestCluster::start().await;
        create(&cluster, "a").await;
        let faults = Faults::around(cluster.client());
        faults.inject(|seen| seen.parameter("sendInitialEvents") == "true", usize::MAX, Fault::status(code));
        let options = WatchOptions { streaming_list: true, ..options(&cluster) };
        let mut reflected = Reflected::<ConfigMap>::start(faults.client(), options);
        reflected.until("the state has arrived", |reflected| reflected.replaces == 1).await;
        faults.inject(Seen::is_watch, 1, Fault::status(410));
        faults.drop_watches();
        reflected.until("the state was sent again", |reflected| reflected.replaces == 2).await;
        assert_eq!(faults.count(|seen| seen.parameter("sendInitialEvents") == "true"), 1);
        assert_eq!(reflected.names(), ["a"]);
    }
}

#[tokio::test]
async fn a_stream_cut_before_its_end_is_never_treated_as_complete() {
    let cluster = TestCluster::start().await;
    for name in ["a", "b", "c"] {
        create(&cluster, name).await;
    }
    let faults = (0..900).step_by(50).flat_map(|cut| [Fault::Cut(cut), Fault::End(cut)]);
    let cluster = &cluster;
    futures_util::future::join_all(faults.map(|fault| async move {
        let faults = Faults::around(cluster.client());
        faults.inject(Seen::is_watch, 1, fault);
        let options = WatchOptions { streaming_list: true, ..options(cluster) };
        let mut reflected = Reflected::<ConfigMap>::start(faults.client(), options);
        reflected.until("the state has arrived", |reflected| reflected.replaces == 1).await;
        assert_eq!(reflected.names(), ["a", "b", "c"]);
        assert_eq!(faults.count(Seen::is_watch), 2);
    }))
    .await;
}

#[tokio::test]
async fn only_metadata_is_requested_and_it_has_the_types_of_its_resource() {
    for streaming_list in WAYS {
        let cluster = TestCluster::start().await;
        create(&cluster, "a").await;
        let options = WatchOptions { streaming_list, ..options(&cluster).metadata() };
        let mut reflected = Reflected::<PartialObjectMeta<ConfigMap>>::start(cluster.client(), options);
        reflected.until("the state has arrived", |reflected| reflected.replaces == 1).await;
        touch(&cluster, "a", "new").await;
        let Change::Apply(changed) = reflected.next().await else { panic!("the change must arrive") };
        for object in [&changed, &reflected.objects["a"]] {
            let types = object.types.as_ref().unwrap();
            assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "ConfigMap"));
            assert_eq!(object.metadata.labels.as_ref().unwrap()["of"], "test");
        }
    }
}

#[tokio::test]
async fn objects_without_a_type_at_compile_time_have_their_types() {
    let cluster = TestCluster::start().await;
    create(&cluster, "a").await;
    let mut reflected = Reflected::<DynamicObject>::start(cluster.client(), options(&cluster));
    reflected.until("the state has arrived", |reflected| reflected.replaces == 1).await;
    let object = &reflected.objects["a"];
    assert_eq!(object.types.as_ref().unwrap().kind, "ConfigMap");
    assert_eq!(object.data["data"]["key"], "value");
}

#[tokio::test]
async fn an_object_leaves_and_enters_a_scope_by_its_labels() {
    let cluster = TestCluster::start().await;
    create(&cluster, "a").await;
    let mut reflected = Reflected::<ConfigMap>::start(cluster.client(), options(&cluster));
    reflected.until("the state has arrived", |reflected| reflected.replaces == 1).await;
    for (label, names) in [("other", &[][..]), ("test", &["a"][..])] {
        let patch = serde_json::json!({"metadata": {"labels": {"of": label}}});
        config_maps(&cluster).patch("a", &Default::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
        reflected.until("it matches its label", |reflected| reflected.names() == names).await;
    }
    let options = WatchOptions::of::<ConfigMap>(
        &(),
        Scope::namespace(cluster.namespace()).fields("metadata.name=b").labels("of=test"),
    );
    create(&cluster, "b").await;
    let mut reflected = Reflected::<ConfigMap>::start(cluster.client(), options);
    reflected.until("the state has arrived", |reflected| reflected.replaces == 1).await;
    assert_eq!(reflected.names(), ["b"]);
}

#[tokio::test]
async fn an_object_that_fails_to_deserialize_does_not_affect_others() {
    /// A ConfigMap with wrong types.
    #[derive(Clone, Debug, serde::Serialize, serde::Deserialize, kube::Resource)]
    #[resource(inherit = ConfigMap)]
    struct Numbers {
        metadata: kube::core::ObjectMeta,
        #[serde(default)]
        data: BTreeMap<String, u8>,
    }
    for streaming_list in WAYS {
        let cluster = TestCluster::start().await;
        create(&cluster, "odd").await;
        let mut good = create(&cluster, "good").await;
        good.data = None;
        config_maps(&cluster).replace("good", &PostParams::default(), &good).await.unwrap();
        let metrics = windlass_runtime::metrics::Metrics::new();
        let options = WatchOptions {
            streaming_list,
            metrics: Some(windlass_runtime::watch::WatchMetrics::register(&metrics)),
            ..options(&cluster)
        };
        let mut reflected = Reflected::<Numbers>::start(cluster.client(), options);
        reflected.until("the state has arrived", |reflected| reflected.replaces == 1).await;
        assert_eq!(reflected.names(), ["good"]);
        touch(&cluster, "odd", "still").await;
        let mut another = create(&cluster, "another").await;
        another.data = None;
        config_maps(&cluster).replace("another", &PostParams::default(), &another).await.unwrap();
        reflected.until("another exists", |reflected| reflected.names() == ["another", "good"]).await;
        let shown = metrics.encode();
        assert!(shown.contains(r#"reflector_unreadable_objects_total{name="configmaps"} 3"#), "{shown}");
        assert!(shown.contains(r#"reflector_lists_total{name="configmaps"} 1"#), "{shown}");
        // Deleted, although its content is unknown.
        delete(&cluster, "odd").await;
        let gone = async {
            loop {
                if let Change::Gone { key, revision } = reflected.next().await {
                    return (key, revision);
                }
            }
        };
        let (key, revision) = gone.await;
        assert_eq!((key.namespace(), key.name()), (Some(cluster.namespace()), "odd"));
        assert!(revision > 0);
        assert_eq!((reflected.replaces, reflected.names()), (1, vec!["another", "good"]));
    }
}

#[tokio::test]
async fn secrets_of_all_namespaces_are_one_state() {
    let cluster = TestCluster::start().await;
    let mut secret = Secret::default();
    secret.metadata.name = Some(TestCluster::unique("secret"));
    let name = secret.metadata.name.clone().unwrap();
    Api::namespaced(cluster.client(), cluster.namespace()).create(&PostParams::default(), &secret).await.unwrap();
    let options = WatchOptions::of::<Secret>(&(), Scope::all().fields(format!("metadata.name={name}")));
    let mut reflected = Reflected::<Secret>::start(cluster.client(), options);
    reflected.until("the state has arrived", |reflected| reflected.replaces == 1).await;
    assert_eq!(reflected.names(), [name]);
}
