//! Where objects are stored, and how clients see them: subresources, tables and OpenAPI.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_apiserver::{
    Server,
    authentication::{AuthenticationOptions, RequestHeaderOptions},
};
use windlass_extension::{RunningExtension, certificates::ServingCertificate, prelude::*};
use windlass_store::{EmbeddedStore, Entry, Error, ListOptions, MemoryStore, Page, Revision, Store, Watch};

/// Desired state of a Boat.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "sea.example.com", version = "v1", kind = "Boat", namespaced, status = "BoatStatus")]
#[kube(scale(
    spec_replicas_path = ".spec.oars",
    status_replicas_path = ".status.oars",
    label_selector_path = ".status.selector"
))]
#[kube(printcolumn = r#"{"name": "Oars", "type": "integer", "jsonPath": ".spec.oars"}"#)]
struct BoatSpec {
    /// Number of oars.
    #[schemars(range(min = 1))]
    oars: i32,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct BoatStatus {
    oars: i32,
    selector: String,
}

async fn start(extension: Extension) -> RunningExtension {
    let certificate = ServingCertificate::issue(&["sea.default.svc".to_owned()]).unwrap();
    let authentication = AuthenticationOptions {
        request_header: Some(RequestHeaderOptions::new(certificate.authority.clone())),
        ..AuthenticationOptions::default()
    };
    let main = Server::builder(Arc::new(MemoryStore::new())).authentication(authentication).build().await.unwrap();
    extension.kind::<Boat>().start(main.client(), &certificate).await.unwrap()
}

fn boats(extension: &RunningExtension) -> Api<Boat> {
    Api::namespaced(extension.client(), "any")
}

async fn get(client: &Client, path: &str, accept: &str) -> Value {
    let request = Request::get(path).header("accept", accept).body(Vec::new()).unwrap();
    client.request(request).await.unwrap()
}

/// A directory that is removed at the end of a test.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn objects_in_a_file_outlive_the_server() {
    let directory = Directory(std::env::temp_dir().join(format!("windlass-extension-{}", std::process::id())));
    std::fs::create_dir_all(&directory.0).unwrap();
    let path = directory.0.join("boats.redb");
    let open = || Arc::new(EmbeddedStore::open(&path).unwrap());
    let store = open();
    let opened = Arc::downgrade(&store);
    let first = start(Extension::new("sea").store(store)).await;
    let created = boats(&first).create(&PostParams::default(), &Boat::new("a", BoatSpec { oars: 2 })).await.unwrap();
    drop(first);
    // The tasks of the server end, and close the file.
    let closed = async {
        while opened.strong_count() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), closed).await.unwrap();
    let second = start(Extension::new("sea").store(open())).await;
    let found = boats(&second).get("a").await.unwrap();
    assert_eq!((found.metadata.uid, found.spec.oars), (created.metadata.uid, 2));
}

/// A store that counts what is created in it.
struct Counting {
    objects: MemoryStore,
    created: AtomicUsize,
}

#[async_trait]
impl Store for Counting {
    async fn revision(&self) -> std::result::Result<Revision, Error> {
        self.objects.revision().await
    }

    async fn get(&self, key: &str) -> std::result::Result<Option<Entry>, Error> {
        self.objects.get(key).await
    }

    async fn list(&self, options: ListOptions) -> std::result::Result<Page, Error> {
        self.objects.list(options).await
    }

    async fn create(&self, key: &str, value: Bytes) -> std::result::Result<Revision, Error> {
        if key.contains("boats/any") {
            self.created.fetch_add(1, Ordering::Relaxed);
        }
        self.objects.create(key, value).await
    }

    async fn update(&self, key: &str, expected: Revision, value: Bytes) -> std::result::Result<Revision, Error> {
        self.objects.update(key, expected, value).await
    }

    async fn delete(&self, key: &str, expected: Revision) -> std::result::Result<Revision, Error> {
        self.objects.delete(key, expected).await
    }

    async fn watch(&self, prefix: &str, after: Revision) -> std::result::Result<Box<dyn Watch>, Error> {
        self.objects.watch(prefix, after).await
    }

    async fn compact(&self, revision: Revision) -> std::result::Result<(), Error> {
        self.objects.compact(revision).await
    }
}

#[tokio::test]
async fn objects_are_stored_where_the_author_wants() {
    let store = Arc::new(Counting { objects: MemoryStore::new(), created: AtomicUsize::new(0) });
    let extension = start(Extension::new("sea").store(store.clone())).await;
    for name in ["a", "b"] {
        boats(&extension).create(&PostParams::default(), &Boat::new(name, BoatSpec { oars: 2 })).await.unwrap();
    }
    let rejected = boats(&extension).create(&PostParams::default(), &Boat::new("c", BoatSpec { oars: 0 })).await;
    assert!(rejected.unwrap_err().to_string().contains("should be greater than or equal to 1"));
    assert_eq!(store.created.load(Ordering::Relaxed), 2);
    assert_eq!(boats(&extension).list(&ListParams::default()).await.unwrap().items.len(), 2);
}

#[tokio::test]
async fn a_kind_can_have_a_scale() {
    let extension = start(Extension::new("sea")).await;
    let boats = boats(&extension);
    boats.create(&PostParams::default(), &Boat::new("a", BoatSpec { oars: 2 })).await.unwrap();
    let status = json!({"status": {"oars": 1, "selector": "boat=a"}});
    boats.patch_status("a", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let scale = boats.get_scale("a").await.unwrap();
    let (spec, status) = (scale.spec.unwrap(), scale.status.unwrap());
    assert_eq!((spec.replicas, status.replicas, status.selector.as_deref()), (Some(2), 1, Some("boat=a")));
    let more = json!({"spec": {"replicas": 6}});
    boats.patch_scale("a", &PatchParams::default(), &Patch::Merge(&more)).await.unwrap();
    assert_eq!(boats.get("a").await.unwrap().spec.oars, 6);
    let none = json!({"spec": {"replicas": 0}});
    let rejected = boats.patch_scale("a", &PatchParams::default(), &Patch::Merge(&none)).await.unwrap_err();
    assert!(rejected.to_string().contains("should be greater than or equal to 1"), "{rejected}");
}

#[tokio::test]
async fn clients_see_tables_and_openapi() {
    let extension = start(Extension::new("sea")).await;
    boats(&extension).create(&PostParams::default(), &Boat::new("a", BoatSpec { oars: 2 })).await.unwrap();
    let client = extension.client();
    let path = "/apis/sea.example.com/v1/namespaces/any/boats";
    let table = get(&client, path, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    let columns: Vec<_> = table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!(columns, ["Name", "Oars"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 2]));
    let document = get(&client, "/openapi/v3/apis/sea.example.com/v1", "application/json").await;
    let schema = &document["components"]["schemas"]["com.example.sea.v1.Boat"];
    let oars = &schema["properties"]["spec"]["properties"]["oars"];
    assert_eq!((&oars["description"], oars["minimum"].as_f64()), (&json!("Number of oars."), Some(1.0)));
    for path in ["", "/{name}", "/{name}/status", "/{name}/scale"] {
        let path = format!("/apis/sea.example.com/v1/namespaces/{{namespace}}/boats{path}");
        assert!(document["paths"][&path].is_object(), "{path}");
    }
    let old = get(&client, "/openapi/v2", "application/json").await;
    assert!(old["definitions"]["com.example.sea.v1.Boat"].is_object());
}
