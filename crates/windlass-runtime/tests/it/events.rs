//! Events as users see them.

use k8s_openapi::api::{core::v1::ObjectReference, events::v1::Event};
use kube::{Api, api::ListParams};
use windlass_runtime::events::{EventMetrics, EventStyle, EventType, Recorder};

use crate::cluster::TestCluster;

fn config_map(cluster: &TestCluster, name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("ConfigMap".to_owned()),
        namespace: Some(cluster.namespace().to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

async fn events(cluster: &TestCluster) -> Vec<Event> {
    let api: Api<Event> = Api::namespaced(cluster.client(), cluster.namespace());
    api.list(&ListParams::default()).await.unwrap().items
}

#[tokio::test]
async fn an_event_is_complete() {
    let cluster = TestCluster::start().await;
    let recorder = Recorder::new(cluster.client(), "foo-controller", "foo-0");
    let (about, related) = (config_map(&cluster, "web"), config_map(&cluster, "data"));
    recorder.record_related(&about, &related, EventType::Warning, "Failed", "Sync", "no space left");
    recorder.flush().await;
    let found = events(&cluster).await;
    let [event] = found.as_slice() else { panic!("one event: {found:?}") };
    assert!(event.metadata.name.as_deref().unwrap().starts_with("web."));
    assert_eq!(event.regarding.as_ref(), Some(&about));
    assert_eq!(event.related.as_ref(), Some(&related));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.reason.as_deref(), Some("Failed"));
    assert_eq!(event.action.as_deref(), Some("Sync"));
    assert_eq!(event.note.as_deref(), Some("no space left"));
    assert_eq!(event.reporting_controller.as_deref(), Some("foo-controller"));
    assert_eq!(event.reporting_instance.as_deref(), Some("foo-0"));
    assert_eq!(event.series, None);
}

#[tokio::test]
async fn ten_occurrences_are_one_event_with_a_count() {
    let cluster = TestCluster::start().await;
    let metrics = EventMetrics::default();
    let recorder = Recorder::with_metrics(cluster.client(), "foo-controller", "foo-0", metrics.clone());
    let about = config_map(&cluster, "web");
    for number in 1..=10 {
        recorder.record(&about, EventType::Normal, "Synced", "Sync", &format!("synced for the {number}th time"));
        if number < 4 {
            // Some are written one by one, some are counted together.
            recorder.flush().await;
        }
    }
    recorder.flush().await;
    let found = events(&cluster).await;
    let [event] = found.as_slice() else { panic!("one event: {found:?}") };
    assert_eq!(event.series.as_ref().map(|series| series.count), Some(10));
    assert!(metrics.written() < 10, "{}", metrics.written());
    assert_eq!(metrics.dropped(), 0);
}

#[tokio::test]
async fn texts_that_are_too_long_are_cut_and_accepted() {
    let cluster = TestCluster::start().await;
    let metrics = EventMetrics::default();
    let recorder = Recorder::with_metrics(cluster.client(), "foo-controller", &"i".repeat(500), metrics.clone());
    let about = config_map(&cluster, "web");
    recorder.record(&about, EventType::Normal, &"R".repeat(500), &"é".repeat(500), &"ä".repeat(5000));
    recorder.flush().await;
    let found = events(&cluster).await;
    let [event] = found.as_slice() else { panic!("one event, {} dropped: {found:?}", metrics.dropped()) };
    assert_eq!(event.reason.as_deref().map(str::len), Some(128));
    assert!(event.note.as_deref().unwrap().len() <= 1024);
}

#[tokio::test]
async fn spam_about_one_object_is_limited_and_counted() {
    let cluster = TestCluster::start().await;
    let metrics = EventMetrics::default();
    let recorder = Recorder::with_metrics(cluster.client(), "foo-controller", "foo-0", metrics.clone());
    let about = config_map(&cluster, "web");
    for number in 0..60 {
        recorder.record(&about, EventType::Normal, &format!("Reason{number}"), "Sync", "again");
    }
    recorder.flush().await;
    assert_eq!(events(&cluster).await.len(), 25);
    assert_eq!((metrics.written(), metrics.dropped()), (25, 35));
}

#[tokio::test]
async fn events_of_a_cluster_scoped_object_are_in_the_default_namespace() {
    let cluster = TestCluster::start().await;
    let recorder = Recorder::new(cluster.client(), "foo-controller", "foo-0");
    let name = TestCluster::unique("node");
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.clone()),
        ..ObjectReference::default()
    };
    recorder.record(&about, EventType::Normal, "Seen", "See", "there it is");
    recorder.flush().await;
    let api: Api<Event> = Api::namespaced(cluster.client(), "default");
    let of_node = ListParams::default().fields(&format!("regarding.name={name}"));
    assert_eq!(api.list(&of_node).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn an_event_that_the_server_rejects_is_dropped_and_others_are_written() {
    let cluster = TestCluster::start().await;
    let metrics = EventMetrics::default();
    let recorder = Recorder::with_metrics(cluster.client(), "foo-controller", "foo-0", metrics.clone());
    let mut nowhere = config_map(&cluster, "web");
    nowhere.namespace = Some(TestCluster::unique("missing"));
    recorder.record(&nowhere, EventType::Normal, "Synced", "Sync", "this is never delivered");
    recorder.record(&config_map(&cluster, "web"), EventType::Normal, "Synced", "Sync", "done");
    recorder.flush().await;
    assert_eq!(events(&cluster).await.len(), 1);
    assert_eq!((metrics.written(), metrics.dropped()), (1, 1));
}

#[tokio::test]
async fn recorded_events_are_written_after_the_last_recorder_is_dropped() {
    let cluster = TestCluster::start().await;
    let recorder = Recorder::new(cluster.client(), "foo-controller", "foo-0");
    recorder.reporting("bar-controller").record(
        &config_map(&cluster, "web"),
        EventType::Normal,
        "Synced",
        "Sync",
        "done",
    );
    drop(recorder);
    let event = crate::cluster::eventually("the event exists", async || events(&cluster).await.pop()).await;
    assert_eq!(event.reporting_controller.as_deref(), Some("bar-controller"));
}

#[tokio::test]
async fn counted_events_are_those_of_the_core_group() {
    let cluster = TestCluster::start().await;
    let recorder = Recorder::new(cluster.client(), "foo-controller", "foo-0").with_style(EventStyle::Counted);
    let about = config_map(&cluster, "web");
    for note in ["up to 3", "up to 20", "up to 3"] {
        recorder.record(&about, EventType::Normal, "Scaled", "", note);
        recorder.flush().await;
    }
    recorder.from_instance("node-1").record(&about, EventType::Warning, "Failed", "", "no space left");
    recorder.flush().await;
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(cluster.client(), cluster.namespace());
    let mut found = events.list(&ListParams::default()).await.unwrap().items;
    found.sort_by_key(|event| event.message.clone());
    let shown: Vec<_> = found
        .iter()
        .map(|event| {
            let source = event.source.clone().unwrap();
            assert_eq!(event.involved_object, about);
            assert!(event.first_timestamp <= event.last_timestamp && event.first_timestamp.is_some());
            assert_eq!(event.reporting_component, source.component);
            (event.message.as_deref().unwrap(), event.count.unwrap(), source.component.unwrap(), source.host)
        })
        .collect();
    let component = || "foo-controller".to_owned();
    let expected = [
        ("no space left", 1, component(), Some("node-1".to_owned())),
        ("up to 20", 1, component(), None),
        ("up to 3", 2, component(), None),
    ];
    assert_eq!(shown, expected);
}
