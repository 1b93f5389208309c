//! A client: random requests, one after the other, on one connection at a time.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use http::{Method, StatusCode};
use rustls::ClientConfig;
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

use super::{
    LoadArgs,
    history::{Call, Key, ListKind, Micros, OpId, Operation, Outcome, Version},
    object::{self, COLLECTION},
    random::Random,
    seeded::SeededBugs,
};
use crate::client::{Body, Client};

/// A request without a response for this long has an unknown outcome.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval between attempts to connect.
const RETRY: Duration = Duration::from_millis(2);
/// Number of requests after which a client moves to another server, on average.
const MOVES: u32 = 100;
/// Size of the pages of a list.
const PAGE: usize = 7;

/// Address of a running server.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    pub(super) url: String,
    pub(super) tls: Arc<ClientConfig>,
}

/// State that all clients share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) start: Instant,
    pub(super) keys: u32,
    pub(super) padding: String,
    pub(super) bugs: SeededBugs,
    pub(super) stopped: AtomicBool,
    /// The servers; `None` while one is down or not ready.
    servers: watch::Sender<Vec<Option<Endpoint>>>,
    pub(super) operations: AtomicU32,
}

/// A connection to a server.
pub(super) struct Connection {
    pub(super) client: Client,
    /// The number of the server.
    pub(super) server: u32,
}

impl Shared {
    pub(super) fn now(&self) -> Micros {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Creates the state for servers that do not run yet.
    pub(super) fn new(load: &LoadArgs, servers: usize) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            keys: load.keys,
            padding: "x".repeat(load.payload),
            bugs: SeededBugs::new(load.seed_bug),
            stopped: AtomicBool::new(false),
            servers: watch::Sender::new(vec![None; servers]),
            operations: AtomicU32::new(0),
        })
    }

    /// Announces a running server, or that one is down.
    pub(super) fn announce(&self, server: usize, endpoint: Option<Endpoint>) {
        self.servers.send_modify(|servers| servers[server] = endpoint);
    }

    /// Returns the number of servers, including those that are down.
    pub(super) fn count(&self) -> usize {
        self.servers.borrow().len()
    }

    /// Returns whether there are several servers.
    fn has_choice(&self) -> bool {
        self.count() > 1
    }

    /// Connects to one of the running servers, once there is one; the number selects it, as a load balancer would.
    pub(super) async fn connect(&self, choice: u32) -> Option<Connection> {
        let mut servers = self.servers.subscribe();
        for choice in (0..u32::MAX).map(|attempt| choice.wrapping_add(attempt) as usize) {
            // Fails only if the run is over.
            let servers = servers.wait_for(|servers| servers.iter().any(Option::is_some)).await.ok()?.clone();
            let count = servers.iter().flatten().count();
            let running =
                servers.iter().enumerate().filter_map(|(server, endpoint)| Some((server, endpoint.as_ref()?)));
            let Some((server, endpoint)) = running.cycle().nth(choice % count) else { continue };
            if let Ok(Ok(client)) = timeout(RESPONSE_TIMEOUT, Client::connect(&endpoint.url, &endpoint.tls, 1)).await {
                return Some(Connection { client, server: u32::try_from(server).unwrap_or(u32::MAX) });
            }
            tokio::time::sleep(RETRY).await;
        }
        None
    }
}

/// A client with the operations that it recorded.
pub(super) struct Lane {
    shared: Arc<Shared>,
    number: u32,
    random: Random,
    /// The newest version of each object that this client has seen.
    seen: HashMap<Key, Version>,
    /// The revision of its last list.
    listed: u64,
    pub(super) operations: Vec<Operation>,
}

impl Lane {
    pub(super) fn new(shared: Arc<Shared>, number: u32, seed: u64) -> Self {
        let random = Random::new(seed, number.into());
        Self { shared, number, random, seen: HashMap::new(), listed: 0, operations: Vec::new() }
    }

    /// Sends requests until the run is stopped, and returns the recorded operations.
    pub(super) async fn run(mut self) -> anyhow::Result<Vec<Operation>> {
        while !self.shared.is_stopped() {
            let choice = self.random.below(u32::MAX);
            let Some(connection) = self.shared.connect(choice).await else { break };
            let has_choice = self.shared.has_choice();
            while !self.shared.is_stopped() {
                let call = self.choose();
                if !self.perform(&connection, call).await? || has_choice && self.random.below(MOVES) == 0 {
                    break;
                }
            }
        }
        Ok(self.operations)
    }

    fn choose(&mut self) -> Call {
        // Half of the requests meet on a few objects.
        let keys = if self.random.below(2) == 0 { self.shared.keys.div_ceil(8) } else { self.shared.keys };
        let key = Key(self.random.below(keys));
        let expected = self.seen.get(&key).map(|version| version.revision);
        match (self.random.below(100), expected) {
            (0..20, _) => Call::Create(key),
            (20..42, Some(revision)) => Call::Put(key, revision),
            (42..57, _) => Call::Patch(key),
            (57..63, _) => Call::Delete(key, None),
            (63..70, Some(revision)) => Call::Delete(key, Some(revision)),
            (86..93, _) => Call::List(ListKind::Consistent),
            (93..97, _) => Call::List(ListKind::Cached),
            (97..100, _) if self.listed > 0 => Call::List(ListKind::Exact(self.listed)),
            _ => Call::Get(key),
        }
    }

    /// Sends a request and records it. Returns false if the connection can no longer be used, or if another server may
    /// do better.
    pub(super) async fn perform(&mut self, connection: &Connection, call: Call) -> anyhow::Result<bool> {
        let Connection { client, server } = connection;
        let id = OpId(self.shared.operations.fetch_add(1, Ordering::Relaxed) + 1);
        let begin = self.shared.now();
        let answer = timeout(RESPONSE_TIMEOUT, self.send(client, id, call)).await;
        let end = self.shared.now();
        let (outcome, usable) = match answer {
            Ok(Ok((status, value))) => {
                (interpret(call, status, &value)?, !(status.is_server_error() && self.shared.has_choice()))
            }
            Ok(Err(_)) | Err(_) => (Outcome::Unknown, false),
        };
        let outcome = self.shared.bugs.list(call, outcome);
        self.learn(call, &outcome);
        self.operations.push(Operation { id, client: self.number, server: *server, call, begin, end, outcome });
        Ok(usable)
    }

    async fn send(&mut self, client: &Client, id: OpId, call: Call) -> anyhow::Result<(StatusCode, Value)> {
        let padding = &self.shared.padding;
        match call {
            Call::Create(key) => {
                client.ask(Method::POST, COLLECTION, Body::json(&object::create(key, id, padding))).await
            }
            Call::Put(key, _) => {
                let base = self.seen.get(&key).ok_or_else(|| anyhow::anyhow!("{key} must have been seen"))?;
                let body = Body::json(&object::update(key, id, base, padding));
                client.ask(Method::PUT, &object::path(key), body).await
            }
            Call::Patch(key) => {
                let bytes = object::patch(id).to_string().into();
                let body = Body { content_type: "application/merge-patch+json", bytes };
                client.ask(Method::PATCH, &object::path(key), body).await
            }
            Call::Delete(key, expected) => {
                let preconditions = expected.map(|revision| json!({"resourceVersion": revision.to_string()}));
                let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
                client.ask(Method::DELETE, &object::path(key), Body::json(&options)).await
            }
            Call::Get(key) => client.ask(Method::GET, &object::path(key), Body::default()).await,
            Call::List(ListKind::Consistent) if self.random.below(4) == 0 => pages(client).await,
            Call::List(kind) => {
                let path = match kind {
                    ListKind::Consistent => COLLECTION.to_owned(),
                    ListKind::Cached => format!("{COLLECTION}?resourceVersion=0"),
                    ListKind::Exact(at) => format!("{COLLECTION}?resourceVersion={at}&resourceVersionMatch=Exact"),
                };
                client.ask(Method::GET, &path, Body::default()).await
            }
        }
    }

    fn learn(&mut self, call: Call, outcome: &Outcome) {
        match (outcome, call.key()) {
            (Outcome::Object(version), Some(key)) => {
                self.seen.insert(key, *version);
            }
            (Outcome::NotFound | Outcome::Deleted(_), Some(key)) => {
                self.seen.remove(&key);
            }
            (Outcome::Listed { revision, .. }, _) => self.listed = *revision,
            _ => {}
        }
    }
}

/// Lists in pages and returns them as one list. Fails if the pages are not of one revision.
async fn pages(client: &Client) -> anyhow::Result<(StatusCode, Value)> {
    let (status, mut list) = client.ask(Method::GET, &format!("{COLLECTION}?limit={PAGE}"), Body::default()).await?;
    while let Some(token) = list["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
        let path = format!("{COLLECTION}?limit={PAGE}&continue={token}");
        let (status, mut next) = client.ask(Method::GET, &path, Body::default()).await?;
        if !status.is_success() {
            return Ok((status, next));
        }
        anyhow::ensure!(next["metadata"]["resourceVersion"] == list["metadata"]["resourceVersion"], "{next}");
        let mut items = list["items"].take();
        if let (Some(items), Some(more)) = (items.as_array_mut(), next["items"].as_array_mut()) {
            items.append(more);
        }
        list["metadata"] = next["metadata"].take();
        list["items"] = items;
    }
    Ok((status, list))
}

fn interpret(call: Call, status: StatusCode, value: &Value) -> anyhow::Result<Outcome> {
    let code = status.as_u16();
    Ok(match (code, call) {
        (200..=299, Call::List(_)) => object::list(value)?,
        (200..=299, Call::Delete(..)) => Outcome::Deleted(object::uid(&value["details"]["uid"])?),
        (200..=299, _) => {
            let (_, version) = object::parse(value)?.ok_or_else(|| anyhow::anyhow!("not the object: {value}"))?;
            Outcome::Object(version)
        }
        (404, _) => Outcome::NotFound,
        (409, Call::Create(_)) if value["reason"] == "AlreadyExists" => Outcome::Exists,
        (409, _) => Outcome::Conflict,
        (400..=499, _) => Outcome::Rejected(code),
        _ => Outcome::Unknown,
    })
}
