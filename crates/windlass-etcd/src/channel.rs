//! Connections to the members of one cluster: which member is used, and when another one is.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use prost::Message;
use tokio::time::timeout;

use crate::{
    EtcdError, EtcdOptions,
    connection::{Connection, encoded},
    messages::{Answer, STATUS, StatusRequest, StatusResponse},
    options::Endpoint,
    status::{CallError, TIMED_OUT},
    tls::TlsFiles,
};

/// Maximum time that connecting to one server may take.
const CONNECT: Duration = Duration::from_secs(3);

/// The cluster, and the connection that calls share. Watches have connections of their own, so that neither waits for
/// the other.
pub(crate) struct Channel {
    endpoints: Vec<Endpoint>,
    files: TlsFiles,
    /// Identifies the cluster; known from the first connection on.
    cluster: OnceLock<u64>,
    /// The index of the server to connect to next.
    next: AtomicUsize,
    current: Mutex<Option<Arc<Connection>>>,
    connecting: tokio::sync::Mutex<()>,
}

impl Channel {
    pub(crate) fn new(options: &EtcdOptions) -> Result<Self, EtcdError> {
        Ok(Self {
            endpoints: options.endpoints()?,
            files: TlsFiles::new(options),
            cluster: OnceLock::new(),
            next: AtomicUsize::new(0),
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        })
    }

    /// Calls a method on the shared connection, once.
    pub(crate) async fn call<A: Answer>(
        &self,
        method: &'static str,
        request: &impl Message,
        within: Duration,
    ) -> Result<A, CallError> {
        let deadline = tokio::time::Instant::now() + within;
        let connection = match tokio::time::timeout_at(deadline, self.connection()).await {
            Ok(connection) => connection.map_err(|error| CallError::NotSent(error.to_string()))?,
            Err(_) => return Err(CallError::NotSent("etcd cannot be reached: connecting takes too long".to_owned())),
        };
        let answer = tokio::time::timeout_at(deadline, connection.call(method, encoded(request), within)).await;
        let answer: Result<A, CallError> = answer.unwrap_or_else(|_| Err(CallError::Lost(TIMED_OUT.to_owned())));
        match &answer {
            Ok(answer) if !self.is_ours(answer) => {
                self.retire(&connection);
                let endpoint = connection.endpoint();
                return Err(CallError::Lost(format!("etcd at {endpoint} belongs to another cluster than before")));
            }
            // Another member may do better.
            Err(error) if error.is_transient() => self.retire(&connection),
            _ => {}
        }
        answer
    }

    fn is_ours(&self, answer: &impl Answer) -> bool {
        let id = answer.header().map_or(0, |header| header.cluster_id);
        *self.cluster.get_or_init(|| id) == id
    }

    /// Returns the shared connection; connects if there is none.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, EtcdError> {
        if let Some(connection) = self.usable() {
            return Ok(connection);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(connection) = self.usable() {
            return Ok(connection);
        }
        let connection = Arc::new(self.dial().await?);
        *self.current.lock() = Some(connection.clone());
        Ok(connection)
    }

    fn usable(&self) -> Option<Arc<Connection>> {
        self.current.lock().clone().filter(|connection| !connection.is_closed())
    }

    /// Switches to another server. Calls on the old connection continue.
    pub(crate) fn retire(&self, connection: &Arc<Connection>) {
        let mut current = self.current.lock();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            *current = None;
            self.skip(connection.endpoint());
        }
    }

    /// Begins with the server after this one.
    pub(crate) fn skip(&self, endpoint: &Endpoint) {
        if let Some(index) = self.endpoints.iter().position(|other| other == endpoint) {
            self.next.store((index + 1) % self.endpoints.len(), Ordering::Relaxed);
        }
    }

    /// Returns a new connection to the first server that is a working member of the cluster.
    pub(crate) async fn dial(&self) -> Result<Connection, EtcdError> {
        let (first, count) = (self.next.load(Ordering::Relaxed), self.endpoints.len());
        let mut errors = Vec::new();
        for index in (first..first + count).map(|index| index % count) {
            let endpoint = &self.endpoints[index];
            // If the caller gives up meanwhile, the next one does not begin with a server that does not respond.
            self.next.store((index + 1) % count, Ordering::Relaxed);
            let late = || EtcdError::Unreachable { cause: format!("{endpoint}: it does not respond") };
            match timeout(CONNECT, self.member(endpoint)).await.unwrap_or_else(|_| Err(late())) {
                Ok(connection) => {
                    self.next.store(index, Ordering::Relaxed);
                    return Ok(connection);
                }
                Err(error) => errors.push(error),
            }
        }
        Err(worst(errors))
    }

    /// Connects to a server and checks that it can be used.
    async fn member(&self, endpoint: &Endpoint) -> Result<Connection, EtcdError> {
        let connection = Connection::open(endpoint, &self.files).await?;
        let status: StatusResponse = match connection.call(STATUS, encoded(&StatusRequest {}), CONNECT).await {
            Ok(status) => status,
            Err(CallError::Status(status)) => {
                let cause = format!("{endpoint}: {}", status.message);
                return Err(match status.is_rejection() {
                    true => EtcdError::Refused { cause },
                    false => EtcdError::Unreachable { cause },
                });
            }
            Err(CallError::Lost(cause) | CallError::NotSent(cause)) => {
                return Err(match Connection::rejection(endpoint, &self.files).await {
                    Some(alert) => EtcdError::Tls { cause: format!("{endpoint}: {alert}") },
                    None => EtcdError::Unreachable { cause },
                });
            }
        };
        let unusable = |problem: &str| Err(EtcdError::Unreachable { cause: format!("{endpoint}: {problem}") });
        if !self.is_ours(&status) {
            return unusable("it belongs to another cluster");
        }
        if is_too_old(&status.version) {
            return Err(EtcdError::Version { version: status.version });
        }
        if status.is_learner {
            return unusable("it is a learner");
        }
        if status.errors.iter().any(|error| error == "etcdserver: no leader") {
            return unusable("it has no leader");
        }
        Ok(connection)
    }
}

/// Returns the error of all servers: a transient one if there is any.
fn worst(mut errors: Vec<EtcdError>) -> EtcdError {
    if !errors.iter().any(EtcdError::is_transient) && !errors.is_empty() {
        return errors.swap_remove(0);
    }
    let causes: Vec<String> = errors
        .into_iter()
        .map(|error| match error {
            EtcdError::Unreachable { cause } => cause,
            error => error.to_string(),
        })
        .collect();
    EtcdError::Unreachable { cause: causes.join("; ") }
}

/// Returns whether a version reports progress that watches have not made (etcd#15220).
fn is_too_old(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(|number| number.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor)), Some(Some(patch))) = (numbers.next(), numbers.next(), numbers.next())
    else {
        return false;
    };
    match (major, minor) {
        (3, 5) => patch < 13,
        (3, 4) => patch < 31,
        _ => (major, minor) < (3, 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_report_wrong_progress_are_too_old() {
        for (version, expected) in [
            ("3.3.27", true),
            ("3.4.30", true),
            ("3.4.31", false),
            ("3.5.12", true),
            ("3.5.13", false),
            ("3.6.0-rc.1", false),
            ("4.0.0", false),
            ("unknown", false),
        ] {
            assert_eq!(is_too_old(version), expected, "{version}");
        }
    }

    #[test]
    fn an_error_is_transient_if_that_of_any_server_is() {
        let down = || EtcdError::Unreachable { cause: "a: down".to_owned() };
        let tls = || EtcdError::Tls { cause: "b: unknown issuer".to_owned() };
        assert!(matches!(worst(vec![tls(), tls()]), EtcdError::Tls { .. }));
        let error = worst(vec![down(), tls()]);
        let expected = "etcd cannot be reached: a: down; the TLS handshake with etcd failed: b: unknown issuer";
        assert_eq!((error.is_transient(), error.to_string().as_str()), (true, expected));
    }
}
