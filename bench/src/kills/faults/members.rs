//! The members of etcd.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use windlass_bench::child::Server;

use super::super::{random::Random, seeded::copy};

/// Number of members.
pub(super) const COUNT: usize = 3;
/// Number of writes after which a member takes a snapshot: few, so that one that was away needs the snapshot of another,
/// and that one whose disk is full notices soon.
const SNAPSHOT_COUNT: &str = "500";
const CATCH_UP: &str = "200";
/// Time limit of a request.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// Age of the copies that replace the data if writes are lost.
const SET_BACK: Duration = Duration::from_millis(300);
/// Ports for members, which other programs do not get by chance while a member is down.
const PORTS: (u16, u32) = (15_000, 15_000);

/// A cluster of etcd on the loopback address.
pub(super) struct Members {
    etcd: PathBuf,
    /// A directory per member, with its log and its data.
    folders: Vec<PathBuf>,
    clients: Vec<u16>,
    peers: Vec<u16>,
    processes: Vec<Option<Server>>,
}

impl Members {
    /// Starts all members. The directories must exist.
    pub(super) fn start(etcd: PathBuf, folders: Vec<PathBuf>) -> anyhow::Result<Self> {
        let mut random = Random::new(std::process::id().into(), 0);
        let listeners: Vec<TcpListener> = (0..2 * COUNT).map(|_| listener(&mut random)).collect::<Result<_, _>>()?;
        let ports: Vec<u16> = listeners.iter().map(|it| Ok(it.local_addr()?.port())).collect::<anyhow::Result<_>>()?;
        drop(listeners);
        let (clients, peers) = (ports[..COUNT].to_vec(), ports[COUNT..].to_vec());
        let processes = (0..COUNT).map(|_| None).collect();
        let mut members = Self { etcd, folders, clients, peers, processes };
        for number in 0..COUNT {
            members.launch(number)?;
        }
        Ok(members)
    }

    /// Starts a member on its data.
    pub(super) fn launch(&mut self, number: usize) -> anyhow::Result<()> {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let peers = self.peers.iter().enumerate().map(|(number, port)| format!("m{number}={}", url(*port)));
        let (client, peer) = (url(self.clients[number]), url(self.peers[number]));
        let mut command = Command::new(&self.etcd);
        command.args(["--name", &format!("m{number}"), "--initial-cluster", &peers.collect::<Vec<_>>().join(",")]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer, "--log-level", "warn"]);
        command.args(["--snapshot-count", SNAPSHOT_COUNT, "--snapshot-catchup-entries", CATCH_UP]);
        command.arg("--data-dir").arg(data(&self.folders[number]));
        // The log is not on the disk of the data, which may be full.
        let log = self.folders[number].with_extension("log");
        self.processes[number] = Some(Server::spawn(&mut command, &log)?);
        Ok(())
    }

    /// Kills a member.
    pub(super) fn kill(&mut self, number: usize) {
        self.processes[number] = None;
    }

    /// Sends a signal such as `STOP` to a member.
    pub(super) fn signal(&self, number: usize, signal: &str) -> anyhow::Result<()> {
        self.processes[number].as_ref().context("the member must run")?.signal(signal)
    }

    /// Fails if a member has ended.
    pub(super) fn check(&mut self, number: usize) -> anyhow::Result<()> {
        self.processes[number].as_mut().context("the member must run")?.check()
    }

    /// The port of a member for clients.
    pub(super) fn port(&self, number: usize) -> u16 {
        self.clients[number]
    }

    /// Returns whether a member answers consistent reads, for which it needs the others.
    pub(super) async fn is_healthy(&self, number: usize) -> bool {
        let health = ask(self.clients[number], "GET", "/health", "").await;
        health.is_ok_and(|health| health["health"] == "true")
    }

    /// Returns the member that leads.
    pub(super) async fn leader(&self) -> anyhow::Result<usize> {
        for (number, port) in self.clients.iter().enumerate() {
            let status = ask(*port, "POST", "/v3/maintenance/status", "{}").await?;
            if status["leader"].is_string() && status["leader"] == status["header"]["member_id"] {
                return Ok(number);
            }
        }
        bail!("no member of etcd leads")
    }

    /// Compacts the whole history; returns the revision.
    pub(super) async fn compact(&self) -> anyhow::Result<String> {
        let mut last = anyhow::anyhow!("there are no members");
        for port in &self.clients {
            let compacted = async {
                let probe = json!({"key": "AA==", "limit": 1}).to_string();
                let newest = ask(*port, "POST", "/v3/kv/range", &probe).await?["header"]["revision"].take();
                let revision = newest.as_str().context("an answer must have a revision")?.to_owned();
                ask(*port, "POST", "/v3/kv/compaction", &json!({"revision": revision}).to_string()).await?;
                Ok(revision)
            };
            match compacted.await {
                Ok(revision) => return Ok(revision),
                Err(error) => last = error,
            }
        }
        Err(last.context("failed to compact etcd"))
    }

    /// Kills all members and starts them on the data of a moment before, so that acknowledged writes are lost.
    pub(super) async fn set_back(&mut self) -> anyhow::Result<()> {
        let earlier = |folder: &Path| folder.join("earlier");
        (0..COUNT).try_for_each(|number| self.signal(number, "STOP"))?;
        // While all are stopped, their files are what a crash would leave.
        let copied = self.folders.iter().try_for_each(|folder| copy(&data(folder), &earlier(folder)));
        (0..COUNT).try_for_each(|number| self.signal(number, "CONT"))?;
        copied.context("failed to copy the data of etcd")?;
        tokio::time::sleep(SET_BACK).await;
        (0..COUNT).for_each(|number| self.kill(number));
        for folder in &self.folders {
            fs::remove_dir_all(data(folder))?;
            fs::rename(earlier(folder), data(folder))?;
        }
        (0..COUNT).try_for_each(|number| self.launch(number))
    }
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn listener(random: &mut Random) -> anyhow::Result<TcpListener> {
    let (first, count) = PORTS;
    for _ in 0..100 {
        let port = first + u16::try_from(random.below(count))?;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return Ok(listener);
        }
    }
    bail!("no port is free")
}

/// Calls etcd's JSON API.
async fn ask(port: u16, method: &str, path: &str, body: &str) -> anyhow::Result<Value> {
    let exchange = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        // Responses of this version end with the connection.
        let head = format!("{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        anyhow::Ok(response)
    };
    let response = timeout(ANSWERS_WITHIN, exchange).await.context("etcd does not answer")??;
    let (head, body) = response.split_once("\r\n\r\n").context("not a response")?;
    ensure!(head.split(' ').nth(1) == Some("200"), "etcd: {path}: {response}");
    Ok(serde_json::from_str(body)?)
}
