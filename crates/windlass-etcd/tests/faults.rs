//! A cluster of etcd whose members are killed and paused while clients write and watch.
//!
//! `cargo xtask etcd` runs these tests; `ETCD_PROGRAM` is the path of etcd.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that says how many writes it has checked")]

use std::{
    collections::HashMap,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use windlass_etcd::{EtcdOptions, EtcdStore};
use windlass_store::{Error, ListOptions, Revision, Store};

/// Maximum time that the cluster may need after a fault until writes succeed again.
const RECOVERY: Duration = Duration::from_secs(10);
/// Number of acknowledged writes before each fault.
const WRITES_BEFORE_FAULT: usize = 100;

/// Three members, which end with this.
struct Cluster {
    etcd: PathBuf,
    folder: tempfile::TempDir,
    clients: Vec<u16>,
    peers: Vec<u16>,
    members: Vec<Option<Child>>,
}

impl Cluster {
    fn start() -> Self {
        let etcd = std::env::var_os("ETCD_PROGRAM").expect("run these tests with `cargo xtask etcd`");
        let listeners: Vec<TcpListener> =
            (0..6).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port must be free")).collect();
        let ports: Vec<u16> = listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        let folder = tempfile::tempdir().expect("the temporary directory must be created");
        let (clients, peers) = (ports[..3].to_vec(), ports[3..].to_vec());
        drop(listeners);
        let mut cluster = Self { etcd: etcd.into(), folder, clients, peers, members: Vec::new() };
        for number in 0..3 {
            let member = cluster.member(number);
            cluster.members.push(Some(member));
        }
        cluster
    }

    fn member(&self, number: usize) -> Child {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let (client, peer, name) = (url(self.clients[number]), url(self.peers[number]), format!("m{number}"));
        let all: Vec<String> =
            self.peers.iter().enumerate().map(|(number, port)| format!("m{number}={}", url(*port))).collect();
        let mut command = Command::new(&self.etcd);
        command.args(["--name", &name, "--initial-cluster", &all.join(","), "--log-level", "error", "--data-dir"]);
        command.arg(self.folder.path().join(&name));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("etcd must start")
    }

    fn kill(&mut self, number: usize) {
        let mut member = self.members[number].take().expect("the member must run");
        member.kill().expect("the member must run");
        member.wait().expect("the member must end");
    }

    fn restart(&mut self, number: usize) {
        self.members[number] = Some(self.member(number));
    }

    /// Sends a signal such as `STOP`.
    fn signal(&self, number: usize, signal: &str) {
        let id = self.members[number].as_ref().expect("the member must run").id();
        let status = Command::new("kill").args([&format!("-{signal}"), &id.to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill must succeed");
    }

    /// Opens a store that connects to this member first.
    async fn open(&self, first: usize) -> Arc<dyn Store> {
        self.open_on((0..3).map(|offset| (first + offset) % 3)).await
    }

    /// Waits until this member answers consistent reads again, for which it must have caught up with the others.
    async fn serves(&self, number: usize) {
        let caught_up = async {
            let store = self.open_on([number]).await;
            while store.revision().await.is_err() {
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(RECOVERY, caught_up).await.unwrap_or_else(|_| panic!("member {number} must catch up"));
    }

    /// Opens a store that connects to these members only.
    async fn open_on(&self, members: impl IntoIterator<Item = usize>) -> Arc<dyn Store> {
        let servers = members.into_iter().map(|number| format!("http://127.0.0.1:{}", self.clients[number]));
        let options = EtcdOptions::new(servers);
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match EtcdStore::open(options.clone()).await {
                Ok(store) => return Arc::new(store),
                Err(error) if error.is_transient() && Instant::now() < deadline => {
                    sleep(Duration::from_millis(100)).await
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in self.members.iter_mut().flatten() {
            // It has ended already.
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

/// Knowledge of one writer about its keys.
#[derive(Default)]
struct Written {
    /// Keys whose creation was acknowledged, with revision and value.
    acknowledged: HashMap<String, (Revision, Bytes)>,
    unknown: usize,
    failed: usize,
}

/// Creates keys until it is stopped; reports each acknowledged one.
async fn write(store: Arc<dyn Store>, root: String, stop: Arc<AtomicBool>, done: mpsc::Sender<Instant>) -> Written {
    let mut written = Written::default();
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (key, value) = (format!("{root}{number}"), Bytes::from(format!("{root}{number}")));
        match store.create(&key, value.clone()).await {
            Ok(revision) => {
                written.acknowledged.insert(key, (revision, value));
                // Nobody waits for a success at present.
                let _ = done.try_send(Instant::now());
            }
            Err(Error::Unknown { .. }) => written.unknown += 1,
            Err(Error::Unavailable { .. }) => written.failed += 1,
            Err(error) => panic!("{key}: {error}"),
        }
        sleep(Duration::from_millis(2)).await;
    }
    written
}

/// Writes through all members, watches, injects faults, and checks that nothing acknowledged was lost.
async fn faults(inject: impl Fn(&mut Cluster, usize)) {
    let mut cluster = Cluster::start();
    let watching = cluster.open(0).await;
    let start = watching.revision().await.unwrap();
    let mut watch = watching.watch("/load/", start).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (done, mut successes) = mpsc::channel(1);
    let mut writers = JoinSet::new();
    for writer in 0..6 {
        let store = cluster.open(writer % 3).await;
        writers.spawn(write(store, format!("/load/{writer}/"), stop.clone(), done.clone()));
    }
    for number in 0..3 {
        // All members work, and clients are writing.
        for _ in 0..WRITES_BEFORE_FAULT {
            let success = timeout(RECOVERY, successes.recv()).await;
            success
                .unwrap_or_else(|_| panic!("writes must go on before fault {number}"))
                .expect("the writers must run");
        }
        inject(&mut cluster, number);
        let fault = Instant::now();
        let recovered = async { while successes.recv().await.expect("the writers must run") < fault {} };
        timeout(RECOVERY, recovered).await.unwrap_or_else(|_| panic!("writes must resume after fault {number}"));
        cluster.heal(number);
        cluster.serves(number).await;
    }
    stop.store(true, Ordering::Relaxed);
    let written = writers.join_all().await;
    let page = watching.list(ListOptions { prefix: "/load/".into(), ..ListOptions::default() }).await.unwrap();
    let stored: HashMap<&str, (Revision, &Bytes)> =
        page.entries.iter().map(|entry| (&*entry.key, (entry.revision, &entry.value))).collect();
    let (mut acknowledged, mut unknown, mut failed) = (0, 0, 0);
    for writer in &written {
        for (key, (revision, value)) in &writer.acknowledged {
            assert_eq!(stored.get(key.as_str()), Some(&(*revision, value)), "{key}");
        }
        acknowledged += writer.acknowledged.len();
        (unknown, failed) = (unknown + writer.unknown, failed + writer.failed);
    }
    assert!(acknowledged > 100, "only {acknowledged} writes were acknowledged");
    assert!(stored.len() <= acknowledged + unknown, "writes that failed for sure must not be stored");
    let mut events = HashMap::new();
    let mut delivered = start;
    while delivered < page.revision {
        let batch = timeout(Duration::from_secs(30), watch.next()).await.expect("the watch must go on").unwrap();
        for event in batch.events {
            assert!(event.revision > delivered, "an event must be delivered once");
            assert!(events.insert(event.key.to_string(), event.revision).is_none(), "{} is created once", event.key);
        }
        delivered = batch.revision;
    }
    for (key, (revision, _)) in &stored {
        assert_eq!(events.get(*key), Some(revision), "{key}");
    }
    eprintln!("{acknowledged} writes acknowledged, {unknown} unknown, {failed} failed, {} stored", stored.len());
}

impl Cluster {
    /// Undoes the fault of a member.
    fn heal(&mut self, number: usize) {
        match &self.members[number] {
            None => self.restart(number),
            Some(_) => self.signal(number, "CONT"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn acknowledged_writes_survive_members_that_are_killed() {
    faults(|cluster, number| cluster.kill(number)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn acknowledged_writes_survive_members_that_are_paused() {
    faults(|cluster, number| cluster.signal(number, "STOP")).await;
}
