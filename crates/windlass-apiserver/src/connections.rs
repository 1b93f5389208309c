//! The open connections: how many there are, whose they are, and which of them are idle.
//!
//! An idle connection costs its client nothing to reopen, so a server at its limit closes the connection that is idle
//! longest instead of rejecting a new one. New connections are rejected only if every connection is busy, and even then
//! a reserve remains for members of `system:masters`.

mod tracked;

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;

pub(crate) use self::tracked::{Registration, TrackedBody, TrackedStream};
use crate::{authentication::ClientCertificate, limits::Limits, user::User};

/// Connections above the limit for handshakes, and for members of `system:masters` afterwards.
const RESERVE: usize = 64;
/// File descriptors that are not available to connections, in addition to an eighth of all.
const OTHER_FILES: usize = 64;

/// The open connections of a server.
pub(crate) struct Connections {
    max: usize,
    max_per_client: usize,
    start: Instant,
    open: Mutex<Open>,
    /// Idle connections that were closed for new ones.
    evicted: AtomicU64,
    /// New connections that were closed because of a limit.
    rejected: AtomicU64,
}

#[derive(Default)]
struct Open {
    next_id: u64,
    entries: BTreeMap<u64, Entry>,
    /// The number of connections of each client.
    clients: HashMap<Client, usize>,
}

struct Entry {
    connection: Arc<Connection>,
    client: Client,
}

/// The owner of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Client {
    /// Not authenticated, perhaps not yet.
    Unknown,
    /// A member of `system:masters`.
    Masters,
    User(Arc<str>),
}

/// An open connection.
pub(crate) struct Connection {
    id: u64,
    connections: Arc<Connections>,
    /// The number of requests that are being answered, and 1 for an upgraded connection.
    active: AtomicUsize,
    /// Time at which the last request ended, in milliseconds since the start.
    idle_since: AtomicU64,
    closing: Notify,
    draining: Notify,
}

/// A request in progress, until its response is sent.
pub(crate) struct ActiveRequest(Arc<Connection>);

/// The client of a connection.
pub(crate) struct Peer {
    /// The client certificate.
    pub(crate) certificate: Option<Arc<ClientCertificate>>,
    /// The address of the client.
    pub(crate) address: Option<IpAddr>,
    pub(crate) connection: Arc<Connection>,
}

impl Peer {
    /// Returns whether the certificate tells whose connection this is.
    pub(crate) fn has_owner(&self) -> bool {
        self.certificate.as_ref().is_some_and(|certificate| certificate.owner.is_some())
    }
}

impl Connections {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let files = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files as usize);
        Arc::new(Self {
            max: limits.max_connections.min(available(files)),
            max_per_client: limits.max_connections_per_client,
            start: Instant::now(),
            open: Mutex::default(),
            evicted: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
        })
    }

    /// Registers a new connection, before its handshake. Returns `None` if there is no room.
    pub(crate) fn register(self: &Arc<Self>) -> Option<Registration> {
        let mut open = self.open.lock();
        if open.entries.len() >= self.max
            && !self.evict(&mut open, None, None)
            && open.entries.len() >= self.max + RESERVE
        {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let id = open.next_id;
        open.next_id += 1;
        let connection = Arc::new(Connection {
            id,
            connections: self.clone(),
            active: AtomicUsize::new(0),
            idle_since: AtomicU64::new(self.now()),
            closing: Notify::new(),
            draining: Notify::new(),
        });
        open.entries.insert(id, Entry { connection: connection.clone(), client: Client::Unknown });
        *open.clients.entry(Client::Unknown).or_default() += 1;
        Some(Registration::new(connection))
    }

    /// Closes the connection that has been idle longest, to free its file descriptor.
    pub(crate) fn evict_one(&self) {
        self.evict(&mut self.open.lock(), None, None);
    }

    /// Closes the idle connection with the earliest end of its last request: any, or one of a client. Connections of
    /// `system:masters` are closed last. Returns whether there was one.
    fn evict(&self, open: &mut Open, client: Option<&Client>, except: Option<u64>) -> bool {
        let entries = open.entries.iter().filter(|(id, entry)| {
            entry.connection.active.load(Ordering::Relaxed) == 0
                && client.is_none_or(|client| entry.client == *client)
                && Some(**id) != except
        });
        let oldest = entries.min_by_key(|(_, entry)| {
            (entry.client == Client::Masters, entry.connection.idle_since.load(Ordering::Relaxed))
        });
        let Some(id) = oldest.map(|(id, _)| *id) else { return false };
        if let Some(entry) = open.remove(id) {
            self.evicted.fetch_add(1, Ordering::Relaxed);
            entry.connection.closing.notify_one();
        }
        true
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the numbers of open, evicted and rejected connections.
    pub(crate) fn counts(&self) -> (usize, u64, u64) {
        let open = self.open.lock().entries.len();
        (open, self.evicted.load(Ordering::Relaxed), self.rejected.load(Ordering::Relaxed))
    }
}

/// Returns the number of connections for which there are file descriptors.
fn available(files: usize) -> usize {
    files.saturating_sub(files / 8 + OTHER_FILES + RESERVE).max(1)
}

impl Open {
    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        if let Some(count) = self.clients.get_mut(&entry.client) {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&entry.client);
            }
        }
        Some(entry)
    }
}

impl Connection {
    /// Records whose connection this is, after the handshake (`None` without a client certificate) or after a token was
    /// accepted. Returns `false` if the connection must be closed because a limit is reached.
    pub(crate) fn identify(&self, user: Option<&User>) -> bool {
        let client = match user {
            None => Client::Unknown,
            Some(user) if user.is_master() => Client::Masters,
            Some(user) => Client::User(user.name.as_str().into()),
        };
        let connections = &self.connections;
        let mut open = connections.open.lock();
        // It may have been evicted meanwhile.
        let Some(entry) = open.entries.get(&self.id) else { return false };
        if entry.client == Client::Masters || (entry.client != Client::Unknown && client == Client::Unknown) {
            return true;
        }
        if entry.client != client {
            let Some(entry) = open.remove(self.id) else { return false };
            open.entries.insert(self.id, Entry { client: client.clone(), ..entry });
            *open.clients.entry(client.clone()).or_default() += 1;
        }
        if client == Client::Masters {
            return true;
        }
        let total = open.entries.len() <= connections.max || connections.evict(&mut open, None, Some(self.id));
        let of_client = open.clients.get(&client).is_none_or(|count| *count <= connections.max_per_client);
        let fits = total && (of_client || connections.evict(&mut open, Some(&client), Some(self.id)));
        if !fits {
            connections.rejected.fetch_add(1, Ordering::Relaxed);
            open.remove(self.id);
        }
        fits
    }

    /// Records the start of a request.
    pub(crate) fn begin(self: &Arc<Self>) -> ActiveRequest {
        self.active.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(self.clone())
    }

    /// Closes the connection after the responses to its open requests.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
    }

    /// Accepts no more requests; open ones continue, however long they take.
    pub(crate) fn drain(&self) {
        self.draining.notify_one();
    }

    /// Resolves when the connection should accept no more requests.
    pub(crate) async fn draining(&self) {
        self.draining.notified().await;
    }

    /// Resolves when the connection should be closed.
    pub(crate) async fn closing(&self) {
        self.closing.notified().await;
    }

    /// Returns how long the connection has been idle; `None` if it is busy.
    pub(crate) fn idle(&self) -> Option<Duration> {
        let since = self.idle_since.load(Ordering::Relaxed);
        let idle = self.active.load(Ordering::Relaxed) == 0;
        idle.then(|| Duration::from_millis(self.connections.now().saturating_sub(since)))
    }
}

impl ActiveRequest {
    /// Keeps the connection busy permanently: it is no longer HTTP.
    pub(crate) fn upgraded(self) -> Self {
        self.0.active.fetch_add(1, Ordering::Relaxed);
        self
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.connections.now(), Ordering::Relaxed);
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(max: usize, max_per_client: usize) -> Arc<Connections> {
        let limits = Limits { max_connections: max, max_connections_per_client: max_per_client, ..Limits::default() };
        Connections::new(&limits)
    }

    fn user(name: &str) -> User {
        User { name: name.to_owned(), ..User::default() }
    }

    fn is_open(registration: &Registration) -> bool {
        let connection = registration.connection();
        connection.connections.open.lock().entries.contains_key(&connection.id)
    }

    fn identify(registration: &Registration, name: &str) -> bool {
        registration.connection().identify(Some(&user(name)))
    }

    #[test]
    fn at_the_limit_the_longest_idle_connection_is_closed() {
        let connections = connections(3, 10);
        let open: Vec<_> = (0..3).map(|_| connections.register().unwrap()).collect();
        for (registration, since) in open.iter().zip([1, 0, 2]) {
            registration.connection().idle_since.store(since, Ordering::Relaxed);
        }
        let busy = open[1].connection().begin();
        let new = connections.register().unwrap();
        assert_eq!([&open[0], &open[1], &open[2], &new].map(is_open), [false, true, true, true]);
        drop(busy);
        drop((open, new));
        assert_eq!(connections.counts(), (0, 1, 0));
    }

    #[test]
    fn administrators_connect_even_if_all_connections_are_busy() {
        let connections = connections(2, 10);
        let open: Vec<_> = (0..2).map(|_| connections.register().unwrap()).collect();
        assert!(open.iter().all(|one| identify(one, "eve")));
        let _busy: Vec<_> = open.iter().map(|one| one.connection().begin()).collect();
        let other = connections.register().unwrap();
        assert!(!identify(&other, "mallory"), "there is no room, and nothing is idle");
        let admin = connections.register().unwrap();
        assert!(admin.connection().identify(Some(&User::admin())));
    }

    #[test]
    fn handshakes_are_rejected_beyond_the_reserve_only_if_nothing_is_idle() {
        let connections = connections(1, 10_000);
        let (mut open, mut busy) = (Vec::new(), Vec::new());
        for _ in 0..=RESERVE {
            let registration = connections.register().unwrap();
            busy.push(registration.connection().begin());
            open.push(registration);
        }
        assert!(connections.register().is_none());
        busy.pop();
        assert!(connections.register().is_some());
    }

    #[test]
    fn a_client_at_its_limit_loses_its_own_idle_connections() {
        let connections = connections(100, 2);
        let bystander = connections.register().unwrap();
        assert!(identify(&bystander, "bob"));
        let open: Vec<_> = (0..4).map(|_| connections.register().unwrap()).collect();
        assert!(open.iter().all(|one| identify(one, "eve")));
        assert_eq!(open.iter().map(is_open).collect::<Vec<_>>(), [false, false, true, true]);
        assert!(is_open(&bystander));
        let _busy: Vec<_> = open.iter().map(|one| one.connection().begin()).collect();
        let fifth = connections.register().unwrap();
        assert!(!identify(&fifth, "eve"), "all connections of the client are busy");
        assert!(identify(&connections.register().unwrap(), "bob"));
    }

    #[test]
    fn a_token_moves_a_connection_to_its_user() {
        let connections = connections(100, 1);
        let first = connections.register().unwrap();
        assert!(first.connection().identify(None));
        assert!(identify(&first, "eve"));
        let second = connections.register().unwrap();
        assert!(second.connection().identify(None), "no other connection is unknown");
        assert!(is_open(&first) && is_open(&second));
    }

    #[test]
    fn connections_leave_file_descriptors_for_others() {
        assert_eq!(available(1024), 768);
        assert_eq!(available(100), 1);
        assert!(available(usize::MAX) > 1 << 40);
    }
}
