use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, client::Body};
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::{context::Context, lease::Ring, scope::Scope};

/// Number of objects, each of which belongs to a parent of its own.
const CHILDREN: usize = 100;

#[derive(Default)]
struct Requests {
    lists: AtomicUsize,
    patches: AtomicUsize,
}

fn parent(number: usize) -> ConfigMap {
    let meta = json!({"name": format!("p{number}"), "namespace": "default", "uid": format!("u{number}")});
    serde_json::from_value(json!({ "metadata": meta })).unwrap()
}

fn child(number: usize) -> ConfigMap {
    let meta = json!({"name": format!("c{number}"), "namespace": "default"});
    serde_json::from_value(json!({"metadata": meta, "data": {"a": "1"}})).unwrap()
}

/// Returns the child as the API server has it.
fn stored(number: usize) -> Value {
    let owner = crate::objects::owner::controller_reference(&parent(number)).unwrap();
    let owned = json!({ format!("k:{{\"uid\":\"u{number}\"}}"): {} });
    let fields = json!({"f:data": {"f:a": {}}, "f:metadata": {"f:ownerReferences": owned}});
    let mut child = serde_json::to_value(child(number)).unwrap();
    child["metadata"]["uid"] = format!("c{number}").into();
    child["metadata"]["resourceVersion"] = "5".into();
    child["metadata"]["ownerReferences"] = json!([owner]);
    child["metadata"]["managedFields"] = json!([
        {"manager": "test", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields},
    ]);
    child
}

/// An API server with the children of all parents.
fn server(requests: &Arc<Requests>) -> Client {
    let requests = requests.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let requests = requests.clone();
        async move {
            let uri = request.uri();
            let name = uri.path().rsplit_once("/configmaps/").map(|(_, name)| name.to_owned());
            let accept = request.headers().get("accept").map(|accept| accept.to_str().unwrap().to_owned());
            let answer = match name.and_then(|name| name[1..].parse().ok()) {
                Some(number) => {
                    requests.patches.fetch_add(usize::from(request.method() == Method::PATCH), Ordering::SeqCst);
                    stored(number)
                }
                None if uri.query().is_some_and(|query| query.contains("watch=true")) => std::future::pending().await,
                None => {
                    let metadata = accept.is_some_and(|accept| accept.contains("PartialObjectMetadataList"));
                    requests.lists.fetch_add(usize::from(metadata), Ordering::SeqCst);
                    let items: Vec<_> = (0..CHILDREN).map(stored).collect();
                    json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": items})
                }
            };
            Ok::<_, tower::BoxError>(Response::new(Body::from(answer.to_string().into_bytes())))
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn objects_that_a_replica_gains_later_are_not_sent_either() {
    for wait in [Duration::ZERO, KEEP * 2] {
        let requests = Arc::new(Requests::default());
        let (sender, shard) = Shard::followed("me".into());
        let share = |members: &[&str]| {
            let ring = Arc::new(Ring::new(members.iter().map(|member| Arc::from(*member))));
            sender.send_modify(|view| {
                view.until = Some(Instant::now() + KEEP * 10);
                view.held = vec![ring];
            });
        };
        share(&["me", "other"]);
        let context = Context::builder(server(&requests)).field_manager("test").shard(shard.clone()).build();
        let scope = Scope::namespace("default");
        let informer = context.caches().informer::<ConfigMap>(&scope);
        informer.synced().await;
        context.add_informer(&(), &scope, informer);
        let apply = async |numbers: &[usize]| {
            for number in numbers {
                let parent = parent(*number);
                context.for_key(&ObjectKey::of(&parent)).apply_owned(&parent, child(*number)).await.unwrap();
            }
        };
        let is_ours = |number: &usize| shard.owns(&ObjectKey::of(&parent(*number)));
        let (first, later): (Vec<_>, Vec<_>) = (0..CHILDREN).partition(is_ours);
        assert!(first.len() > 2 * SINGLE && later.len() > 2 * SINGLE, "{} {}", first.len(), later.len());
        apply(&first).await;
        let seen = || (requests.lists.load(Ordering::SeqCst), requests.patches.load(Ordering::SeqCst));
        assert_eq!(seen(), (1, 0));
        let [entry] = &*context.watched_kinds.all() else { panic!("one kind") };
        let known = || entry.managed_fields.state.lock().listed.as_ref().map(|listed| listed.objects.len());
        // Those that were looked up alone, before the list; nothing of the other replica.
        assert_eq!(known(), Some(SINGLE - 1));
        tokio::time::sleep(wait).await;
        assert_eq!(known().is_some(), wait.is_zero(), "they are dropped after a while");
        share(&["me"]);
        apply(&later).await;
        assert_eq!(seen(), (2, 0));
    }
}
