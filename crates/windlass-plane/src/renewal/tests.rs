use std::{fs, time::SystemTime};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConnection,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    time_provider::TimeProvider,
};

use super::*;
use crate::CertificateAndKey;

const A_DAY: Duration = Duration::from_secs(DAY);

struct Setup {
    renewal: Renewal,
    folder: tempfile::TempDir,
    start: Duration,
}

impl Setup {
    fn server_config(&self) -> Arc<rustls::ServerConfig> {
        let verifier = self.renewal.pki().client_verifier().unwrap();
        self.renewal.server_config(verifier).unwrap()
    }

    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let start = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let directory = folder.path().join("pki");
        let pki = Pki::load_or_create_at(&directory, &[], start).unwrap();
        let mut renewal = Renewal::new(pki, &directory, Vec::new()).unwrap();
        renewal.write_kubeconfig(&folder.path().join("kubeconfig"), "https://127.0.0.1:1").unwrap();
        Self { renewal, folder, start }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }
}

/// A point in time.
#[derive(Debug)]
struct At(Duration);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(self.0))
    }
}

/// A connection in memory.
struct Connection {
    client: ClientConnection,
    server: ServerConnection,
}

impl Connection {
    /// Connects as the administrator at this time, and returns the connection with the server's certificate.
    fn open(tls: &Arc<rustls::ServerConfig>, pki: &Pki, now: Duration) -> Result<(Self, String), rustls::Error> {
        let certificates = |pair: &CertificateAndKey| -> Vec<CertificateDer<'static>> {
            CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).map(Result::unwrap).collect()
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(pki.ca()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_details(provider, Arc::new(At(now)))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                certificates(pki.admin()),
                PrivateKeyDer::from_pem_slice(pki.admin().key.as_bytes()).unwrap(),
            )
            .unwrap();
        // The server verifies clients by the same time.
        let mut server_config = rustls::ServerConfig::clone(tls);
        server_config.time_provider = Arc::new(At(now));
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let server = ServerConnection::new(Arc::new(server_config)).unwrap();
        let mut connection = Self { client, server };
        while connection.client.is_handshaking() || connection.server.is_handshaking() {
            connection.exchange()?;
        }
        let presented = connection.client.peer_certificates().unwrap()[0].to_vec();
        let known = certificates(pki.server());
        let name = if known[0].to_vec() == presented { "the current certificate" } else { "another certificate" };
        Ok((connection, name.to_owned()))
    }

    fn exchange(&mut self) -> Result<(), rustls::Error> {
        let mut bytes = Vec::new();
        self.client.write_tls(&mut bytes).unwrap();
        self.server.read_tls(&mut bytes.as_slice()).unwrap();
        self.server.process_new_packets()?;
        bytes.clear();
        self.server.write_tls(&mut bytes).unwrap();
        self.client.read_tls(&mut bytes.as_slice()).unwrap();
        self.client.process_new_packets()?;
        Ok(())
    }

    /// Returns whether bytes of the client arrive.
    fn works(&mut self) -> bool {
        use std::io::{Read as _, Write as _};
        self.client.writer().write_all(b"ping").unwrap();
        self.exchange().unwrap();
        let mut received = [0; 4];
        self.server.reader().read_exact(&mut received).is_ok() && &received == b"ping"
    }
}

#[test]
fn certificates_are_renewed_for_new_connections_while_old_ones_continue() {
    let mut setup = Setup::new();
    let tls = setup.server_config();
    let old = setup.renewal.pki().clone();
    let kubeconfig = setup.read("kubeconfig");
    let (mut first, presented) = Connection::open(&tls, &old, setup.start).unwrap();
    assert_eq!(presented, "the current certificate");

    setup.renewal.check(setup.start + 334 * A_DAY);
    assert_eq!(setup.read("kubeconfig"), kubeconfig, "nothing is due");

    let later = setup.start + 336 * A_DAY;
    setup.renewal.check(later);
    let new = setup.renewal.pki().clone();
    assert_ne!(new.server().certificate, old.server().certificate);
    assert_ne!(new.admin().certificate, old.admin().certificate);
    assert_eq!(new.ca().certificate, old.ca().certificate);
    assert_eq!(setup.read("pki/server.crt"), new.server().certificate);
    assert_eq!(setup.read("pki/admin.key"), new.admin().key);
    assert_eq!(setup.read("kubeconfig"), crate::kubeconfig(&new, "https://127.0.0.1:1"));

    let (_, presented) = Connection::open(&tls, &new, later).unwrap();
    assert_eq!(presented, "the current certificate");
    assert!(first.works(), "an open connection must continue");
    // The old certificate would have expired here; clients with the old kubeconfig have, the server has not.
    let after = setup.start + 370 * A_DAY;
    Connection::open(&tls, &new, after).map(drop).unwrap();
    assert!(Connection::open(&tls, &old, after).is_err());
    assert!(setup.renewal.problems.is_empty(), "{:?}", setup.renewal.problems);
}

#[test]
fn certificates_that_someone_has_replaced_are_loaded() {
    let mut setup = Setup::new();
    let tls = setup.server_config();
    let old = setup.renewal.pki().clone();
    // Issued by the same authority elsewhere.
    let elsewhere = tempfile::tempdir().unwrap();
    for name in ["ca.crt", "ca.key"] {
        fs::write(elsewhere.path().join(name), setup.read(&format!("pki/{name}"))).unwrap();
    }
    let other = Pki::load_or_create_at(elsewhere.path(), &[], setup.start).unwrap();

    // Only the certificate so far: it does not match its key.
    setup.write("pki/server.crt", &other.server().certificate);
    setup.renewal.check(setup.start);
    assert_eq!(setup.renewal.problems.len(), 1);
    assert!(setup.renewal.problems[0].contains("server.key does not belong to"), "{:?}", setup.renewal.problems);
    assert_eq!(Connection::open(&tls, &old, setup.start).unwrap().1, "the current certificate");

    setup.write("pki/server.key", &other.server().key);
    setup.write("pki/admin.key", &other.admin().key);
    setup.write("pki/admin.crt", &other.admin().certificate);
    setup.renewal.check(setup.start);
    assert!(setup.renewal.problems.is_empty(), "{:?}", setup.renewal.problems);
    assert_eq!(Connection::open(&tls, &other, setup.start).unwrap().1, "the current certificate");
    assert_eq!(setup.read("kubeconfig"), crate::kubeconfig(&other, "https://127.0.0.1:1"));

    // Removed, to get a new one.
    fs::remove_file(setup.folder.path().join("pki/server.crt")).unwrap();
    setup.renewal.check(setup.start);
    let newest = setup.renewal.pki().clone();
    assert_ne!(newest.server().certificate, other.server().certificate);
    assert_eq!(Connection::open(&tls, &newest, setup.start).unwrap().1, "the current certificate");
}

#[test]
fn a_replaced_authority_is_left_for_the_next_start() {
    let mut setup = Setup::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Pki::load_or_create_at(elsewhere.path(), &[], setup.start).unwrap();
    for name in ["ca.crt", "ca.key", "server.crt", "server.key", "admin.crt", "admin.key"] {
        setup.write(&format!("pki/{name}"), &fs::read_to_string(elsewhere.path().join(name)).unwrap());
    }
    let before = setup.renewal.pki().clone();
    setup.renewal.check(setup.start + 336 * A_DAY);
    assert!(setup.renewal.problems[0].contains("ca.crt has changed"), "{:?}", setup.renewal.problems);
    assert_eq!(setup.renewal.pki().server().certificate, before.server().certificate);
    assert_eq!(setup.read("pki/server.crt"), other.server().certificate);
}

#[test]
fn a_certificate_that_ends_with_its_authority_is_not_reissued_repeatedly() {
    let mut setup = Setup::new();
    let near_the_end = setup.start + 3640 * A_DAY;
    setup.renewal.check(near_the_end);
    let first = setup.renewal.pki().server().certificate.clone();
    let announced = setup.renewal.announced;
    assert_eq!(announced, Some(near_the_end), "the expiry must be announced");
    setup.renewal.check(near_the_end + Duration::from_secs(60));
    assert_eq!(setup.renewal.pki().server().certificate, first);
    assert_eq!(setup.renewal.announced, announced, "once a day");
    setup.renewal.check(near_the_end + A_DAY);
    assert_eq!(setup.renewal.announced, Some(near_the_end + A_DAY));
}

#[test]
fn the_front_proxy_certificate_is_renewed_and_given_to_the_server() {
    let mut setup = Setup::new();
    let told = Arc::<parking_lot::Mutex<Vec<String>>>::default();
    let telling = told.clone();
    setup.renewal.on_front_proxy(move |pair| telling.lock().push(pair.certificate.clone()));
    let first = setup.read("pki/front-proxy-client.crt");
    setup.renewal.check(setup.start + A_DAY);
    assert!(told.lock().is_empty(), "it is not due");
    setup.renewal.check(setup.start + 350 * A_DAY);
    let second = setup.read("pki/front-proxy-client.crt");
    assert_ne!(first, second);
    assert_eq!(*told.lock(), [second]);
    assert_eq!(setup.renewal.problems, [""; 0]);
}
