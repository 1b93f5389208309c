//! Several servers over one store.

mod in_effect;
mod names;
mod options;

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_apiserver::Server;
use windlass_store::{Batch, Entry, Error, ListOptions, Page, Revision, Store, Watch, memory::MemoryStore};

use crate::client::{Client, config_map, names};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// As written in the book.
const BOUND: Duration = Duration::from_secs(10);

/// One server's connection to a store that others write to as well.
struct Shared {
    store: Arc<MemoryStore>,
    /// Whether the connection delivers no events.
    stalled: Arc<AtomicBool>,
    /// The newest revision that the connection reports, if events are late and the server does not know it yet.
    frozen: Frozen,
}

type Frozen = Arc<Mutex<Option<Revision>>>;

impl Shared {
    fn new(store: &Arc<MemoryStore>) -> Self {
        Self { store: store.clone(), stalled: Arc::default(), frozen: Arc::default() }
    }

    /// Returns a function that holds back all later events, and one that delivers them.
    fn delay(&self) -> (impl AsyncFn() + use<>, impl Fn() + use<>) {
        let (store, stalled, frozen) = (self.store.clone(), self.stalled.clone(), self.frozen.clone());
        let (stalled_too, frozen_too) = (self.stalled.clone(), self.frozen.clone());
        let stop = async move || {
            let newest = store.revision().await.unwrap();
            *frozen.lock().unwrap() = Some(newest);
            stalled.store(true, Ordering::SeqCst);
        };
        let go_on = move || {
            *frozen_too.lock().unwrap() = None;
            stalled_too.store(false, Ordering::SeqCst);
        };
        (stop, go_on)
    }
}

#[async_trait]
impl Store for Shared {
    async fn revision(&self) -> Result<Revision, Error> {
        let frozen = *self.frozen.lock().unwrap();
        match frozen {
            Some(revision) => Ok(revision),
            None => self.store.revision().await,
        }
    }
    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        self.store.get(key).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.store.list(options).await
    }
    async fn create(&self, key: &str, value: Bytes) -> Result<Revision, Error> {
        // As with a network: servers interleave.
        tokio::task::yield_now().await;
        self.store.create(key, value).await
    }
    async fn update(&self, key: &str, expected: Revision, value: Bytes) -> Result<Revision, Error> {
        tokio::task::yield_now().await;
        self.store.update(key, expected, value).await
    }
    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        self.store.delete(key, expected).await
    }
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        Ok(Box::new(StallingWatch(self.store.watch(prefix, after).await?, self.stalled.clone())))
    }
    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.store.compact(revision).await
    }
    fn is_shared(&self) -> bool {
        true
    }
}

struct StallingWatch(Box<dyn Watch>, Arc<AtomicBool>);

#[async_trait]
impl Watch for StallingWatch {
    async fn next(&mut self) -> Result<Batch, Error> {
        let batch = self.0.next().await;
        while self.1.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        batch
    }
}

/// Starts a server.
async fn replica(store: &Arc<MemoryStore>) -> Client {
    Client::of(Server::builder(Arc::new(Shared::new(store))).build().await.unwrap())
}

/// Starts a server that listens.
async fn listening(store: &Arc<MemoryStore>, address: &str, port: u16) -> Client {
    let address: IpAddr = address.parse().unwrap();
    let builder = Server::builder(Arc::new(Shared::new(store))).listening_on(SocketAddr::new(address, port));
    Client::of(builder.build().await.unwrap())
}

fn service(name: &str, kind: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}})
}

/// Waits until a condition holds; fails after a minute.
async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..1200 {
        if let Some(value) = check().await {
            return value;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}");
}

async fn stored(store: &MemoryStore, prefix: &str) -> Vec<String> {
    let page = store.list(ListOptions { prefix: prefix.to_owned(), ..ListOptions::default() }).await.unwrap();
    page.entries.iter().map(|entry| entry.key[prefix.len()..].to_owned()).collect()
}

fn addresses_of(endpoints: &Value) -> Vec<String> {
    let subsets = endpoints["subsets"].as_array().unwrap();
    let each = subsets.iter().flat_map(|subset| {
        let port = subset["ports"][0]["port"].as_u64().unwrap();
        let ips = subset["addresses"].as_array().unwrap();
        ips.iter().map(move |address| format!("{}:{port}", address["ip"].as_str().unwrap()))
    });
    each.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_that_start_at_the_same_time_on_an_empty_store_all_start() {
    let store = Arc::new(MemoryStore::new());
    let servers = join_all((0..4).map(|_| replica(&store))).await;
    for server in &servers {
        let role = server.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/admin").await.expect(200);
        assert!(!role["rules"].as_array().unwrap().is_empty());
        server.get(&format!("{SERVICES}/kubernetes")).await.expect(200);
        server.get("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/catch-all").await.expect(200);
    }
    let roles: Vec<_> = stored(&store, "/rbac.authorization.k8s.io/clusterroles/").await;
    assert_eq!(roles.iter().collect::<BTreeSet<_>>().len(), roles.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_services_get_different_addresses_and_ports() {
    const EACH: usize = 60;
    let store = Arc::new(MemoryStore::new());
    let servers = Arc::new(join_all((0..3).map(|_| replica(&store))).await);
    let creations = (0..3 * EACH).map(|number| {
        let servers = servers.clone();
        tokio::spawn(async move {
            let created = servers[number % 3].post(SERVICES, &service(&format!("s{number}"), "NodePort")).await;
            let spec = created.expect(201)["spec"].clone();
            (spec["clusterIP"].as_str().unwrap().to_owned(), spec["ports"][0]["nodePort"].as_u64().unwrap())
        })
    });
    let values: Vec<_> = join_all(creations).await.into_iter().map(Result::unwrap).collect();
    let addresses: BTreeSet<_> = values.iter().map(|(address, _)| address.clone()).collect();
    let ports: BTreeSet<_> = values.iter().map(|(_, port)| *port).collect();
    assert_eq!((addresses.len(), ports.len()), (3 * EACH, 3 * EACH));
    // A claim for each of them and for the service of the servers, and no others.
    assert_eq!(stored(&store, "/networking.k8s.io/ipaddresses/").await.len(), 3 * EACH + 1);
    assert_eq!(stored(&store, "/allocations/nodeports/").await.len(), 3 * EACH);
}

#[tokio::test]
async fn a_claim_that_a_server_does_not_know_yet_leads_to_other_values_or_an_error() {
    let store = Arc::new(MemoryStore::new());
    let network = || "10.0.0.0/29".parse().unwrap();
    let connection = Shared::new(&store);
    let (stop, go_on) = connection.delay();
    let a =
        Client::of(Server::builder(Arc::new(Shared::new(&store))).service_network(network()).build().await.unwrap());
    let b = Client::of(Server::builder(Arc::new(connection)).service_network(network()).build().await.unwrap());
    // All but one address are taken by services that B does not know.
    stop().await;
    let with_address = |name: &str, address: &str| {
        let mut service = service(name, "ClusterIP");
        service["spec"]["clusterIP"] = address.into();
        service
    };
    for last in 2..6 {
        a.post(SERVICES, &with_address(&format!("s{last}"), &format!("10.0.0.{last}"))).await.expect(201);
    }
    let rejected = b.post(SERVICES, &with_address("fixed", "10.0.0.3")).await;
    assert_eq!(rejected.code, 422);
    assert!(rejected.message().contains("provided IP is already allocated"), "{}", rejected.message());
    let server = b.server.clone();
    let creating = tokio::spawn(async move { Client::of(server).post(SERVICES, &service("any", "ClusterIP")).await });
    eventually("the service must be stored", async || store.get("/core/services/default/any").await.unwrap()).await;
    // The response waits until the allocator knows the service.
    go_on();
    assert_eq!(creating.await.unwrap().expect(201)["spec"]["clusterIP"], "10.0.0.6");
    assert_eq!(b.post(SERVICES, &service("more", "ClusterIP")).await.code, 500, "the network is full");
}

#[tokio::test]
async fn values_of_a_deleted_service_are_free_on_all_servers_at_once() {
    let store = Arc::new(MemoryStore::new());
    let (a, b) = (replica(&store).await, replica(&store).await);
    let mut wanted = service("s", "NodePort");
    wanted["spec"]["clusterIP"] = "10.0.0.77".into();
    wanted["spec"]["ports"][0]["nodePort"] = 30777.into();
    for round in 0..5 {
        a.post(SERVICES, &wanted).await.expect(201);
        assert_eq!(
            b.post(SERVICES, &{
                let mut other = wanted.clone();
                other["metadata"]["name"] = "t".into();
                other
            })
            .await
            .code,
            422,
            "{round}"
        );
        b.delete(&format!("{SERVICES}/s")).await.expect(200);
        a.get(&format!("{SERVICES}/s")).await.expect(404);
    }
    // A change of type releases the values, too.
    a.post(SERVICES, &wanted).await.expect(201);
    let external = json!({"spec": {"type": "ExternalName", "externalName": "example.com", "clusterIP": null, "clusterIPs": null,
        "ports": [{"port": 80, "nodePort": null}]}});
    a.merge(&format!("{SERVICES}/s"), &external).await.expect(200);
    assert_eq!(stored(&store, "/allocations/nodeports/").await, [""; 0]);
    assert_eq!(stored(&store, "/networking.k8s.io/ipaddresses/").await, ["10.0.0.1"]);
}

#[tokio::test]
async fn a_claimed_address_looks_like_one_that_was_created_by_request() {
    let store = Arc::new(MemoryStore::new());
    let claimed = replica(&store).await.get(&format!("{ADDRESSES}/10.0.0.1")).await.expect(200);
    let alone = Client::new().await;
    let requested = eventually("the IPAddress is missing", async || {
        let answer = alone.get(&format!("{ADDRESSES}/10.0.0.1")).await;
        (answer.code == 200).then(|| answer.json())
    })
    .await;
    let comparable = |object: &Value| {
        let mut object = object.clone();
        for field in ["uid", "creationTimestamp", "resourceVersion"] {
            object["metadata"][field] = Value::Null;
        }
        object["metadata"]["managedFields"][0]["time"] = Value::Null;
        object
    };
    assert_eq!(comparable(&claimed), comparable(&requested));
}

#[tokio::test(start_paused = true)]
async fn claims_of_a_server_that_died_are_released_after_a_minute() {
    let store = Arc::new(MemoryStore::new());
    let alive = replica(&store).await;
    let orphan = json!({
        "apiVersion": "allocations/v1", "kind": "NodePort", "metadata": {"name": "30123", "uid": "1"},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "never"}},
    });
    let text = serde_json::to_string(&orphan).unwrap();
    store.create("/allocations/nodeports/30123", text.into()).await.unwrap();
    let mut wanted = service("s", "NodePort");
    wanted["spec"]["ports"][0]["nodePort"] = 30123.into();
    tokio::time::sleep(Duration::from_secs(50)).await;
    let rejected = alive.post(SERVICES, &wanted).await;
    assert_eq!(rejected.code, 422, "{}", rejected.message());
    tokio::time::sleep(Duration::from_secs(30)).await;
    alive.post(SERVICES, &wanted).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn endpoints_are_those_of_the_servers_that_run() {
    let store = Arc::new(MemoryStore::new());
    let a = listening(&store, "10.1.0.1", 6443).await;
    let b = listening(&store, "10.1.0.2", 6443).await;
    let c = listening(&store, "10.1.0.2", 6444).await;
    let shown = async |client: &Client| addresses_of(&client.get(ENDPOINTS).await.expect(200));
    let expect = async |client: &Client, wanted: &[&str]| {
        let start = Instant::now();
        eventually(&format!("expected {wanted:?}"), async || (shown(client).await == wanted).then_some(())).await;
        start.elapsed()
    };
    expect(&a, &["10.1.0.1:6443", "10.1.0.2:6443", "10.1.0.2:6444"]).await;
    let slices = |list: &Value| -> Vec<String> { names(list) };
    assert_eq!(slices(&a.get(SLICES).await.expect(200)), ["kubernetes", "kubernetes-6444"]);
    // One dies: its endpoint goes after the time of its lease.
    drop(b);
    let took = expect(&a, &["10.1.0.1:6443", "10.1.0.2:6444"]).await;
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(17), "{took:?}");
    // They stay while they are renewed.
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(shown(&a).await, ["10.1.0.1:6443", "10.1.0.2:6444"]);
    // One that leaves is gone at once.
    c.server.leave().await;
    assert_eq!(shown(&a).await, ["10.1.0.1:6443"]);
    drop(c);
    expect(&a, &["10.1.0.1:6443"]).await;
    eventually("the slice of port 6444 must go", async || {
        (slices(&a.get(SLICES).await.expect(200)) == ["kubernetes"]).then_some(())
    })
    .await;
    // The last one keeps its endpoint: an empty list helps nobody.
    a.server.leave().await;
    assert_eq!(shown(&a).await, ["10.1.0.1:6443"]);
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_a_user_deletes_are_restored() {
    let store = Arc::new(MemoryStore::new());
    let a = listening(&store, "10.1.0.1", 6443).await;
    let _b = listening(&store, "10.1.0.2", 6443).await;
    a.delete(ENDPOINTS).await.expect(200);
    eventually("the endpoints must be restored", async || {
        let answer = a.get(ENDPOINTS).await;
        (answer.code == 200 && addresses_of(&answer.json()) == ["10.1.0.1:6443", "10.1.0.2:6443"]).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn each_server_has_an_identity_lease() {
    let store = Arc::new(MemoryStore::new());
    let a = listening(&store, "10.1.0.1", 6443).await;
    let _b = listening(&store, "10.1.0.1", 6444).await;
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let leases = eventually("two leases", async || {
        let list = a.get(path).await.expect(200);
        (list["items"].as_array().unwrap().len() == 2).then_some(list)
    })
    .await;
    let holders = leases["items"].as_array().unwrap().iter().map(|lease| {
        let (name, holder) = (&lease["metadata"]["name"], &lease["spec"]["holderIdentity"]);
        assert!(holder.as_str().unwrap().starts_with(&format!("{}_", name.as_str().unwrap())), "{lease}");
        holder.to_string()
    });
    assert_eq!(holders.collect::<BTreeSet<_>>().len(), 2);
}

#[tokio::test]
async fn a_client_that_changes_servers_never_goes_back() {
    let store = Arc::new(MemoryStore::new());
    let connection = Shared::new(&store);
    let stalled = connection.stalled.clone();
    let (a, b) = (replica(&store).await, Client::of(Server::builder(Arc::new(connection)).build().await.unwrap()));
    let maps = "/api/v1/namespaces/default/configmaps";
    stalled.store(true, Ordering::SeqCst);
    let version = a.post(maps, &config_map("m")).await.expect(201)["metadata"]["resourceVersion"].clone();
    let version = version.as_str().unwrap();
    // B does not have it in time.
    let late = b.get(&format!("{maps}?resourceVersion={version}&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!(late.code, 504);
    assert!(late.message().contains("Too large resource version"), "{}", late.message());
    // It waits.
    let server = b.server.clone();
    let reading = tokio::spawn(async move { Client::of(server).get(&format!("{maps}/m")).await });
    stalled.store(false, Ordering::SeqCst);
    reading.await.unwrap().expect(200);
    let list = b.get(&format!("{maps}?resourceVersion={version}&resourceVersionMatch=NotOlderThan")).await.expect(200);
    assert!(names(&list).contains(&"m".to_owned()));
    let mut watch = b.watch(&format!("{maps}?watch=true&resourceVersion={version}")).await;
    a.post(maps, &config_map("n")).await.expect(201);
    assert_eq!(watch.brief().await, "ADDED n");
}
