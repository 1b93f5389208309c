use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, client::Body};

use super::*;
use crate::{
    context::{Context, SharedHandles, WatchedKinds},
    lease::Leadership,
};

#[tokio::test]
async fn nothing_is_sent_by_a_process_that_does_not_lead() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let client = Client::new(
        tower::service_fn(move |_: http::Request<Body>| {
            counter.fetch_add(1, Ordering::SeqCst);
            async { Err::<http::Response<Body>, _>(std::io::Error::other("connection refused")) }
        }),
        "default",
    );
    // A candidate that has not been elected.
    let (_standing, leadership) = Leadership::followed();
    let context = Context::new(SharedHandles::for_test(client, leadership), WatchedKinds::new());
    let mut object = ConfigMap::default();
    object.metadata.name = Some("one".into());
    object.metadata.namespace = Some("default".into());
    object.metadata.resource_version = Some("1".into());
    let patch = Patch::Merge(serde_json::json!({}));
    let answers = [
        context.create(object.clone()).await.map(drop),
        context.update(object.clone()).await.map(drop),
        context.patch(&object, &patch).await.map(drop),
        context.apply(object.clone()).await.map(drop),
        context.set_status(&object, serde_json::json!({"a": 1})).await.map(drop),
        context.add_finalizer(&object, "example.com/x").await.map(drop),
        context.delete(&object).await,
    ];
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(error.is_not_leading(), "{error}");
    }
    assert_eq!(sent.load(Ordering::SeqCst), 0);
    assert!(context.live().get::<ConfigMap>(&ObjectKey::of(&object)).await.is_err(), "reading is tried");
    assert_eq!(sent.load(Ordering::SeqCst), 1);
}
