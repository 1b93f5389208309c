//! An etcd that requires client certificates.
//!
//! `cargo xtask etcd` runs these tests; `ETCD_PROGRAM` is the path of etcd.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::time::{Instant, sleep};
use windlass_etcd::{EtcdError, EtcdOptions, EtcdStore};
use windlass_store::{Revision, Store};

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Writes a certificate with its key into files, and returns their paths.
    fn issue(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let paths = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
        fs::write(&paths.0, certificate.pem()).unwrap();
        fs::write(&paths.1, key.serialize_pem()).unwrap();
        paths
    }
}

struct Etcd(Child);

impl Drop for Etcd {
    fn drop(&mut self) {
        // It has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn open(options: &EtcdOptions) -> Result<EtcdStore, EtcdError> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match EtcdStore::open(options.clone()).await {
            Err(error) if error.is_transient() && Instant::now() < deadline => sleep(Duration::from_millis(100)).await,
            result => return result,
        }
    }
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn certificates_are_checked_on_both_sides() {
    let program = std::env::var_os("ETCD_PROGRAM").expect("run these tests with `cargo xtask etcd`");
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    let (ca, other_ca) = (folder.path().join("ca.crt"), folder.path().join("other.crt"));
    fs::write(&ca, &authority.pem).unwrap();
    fs::write(&other_ca, &other.pem).unwrap();
    let (server_cert, server_key) = authority.issue(folder.path(), "server");
    let (client_cert, client_key) = authority.issue(folder.path(), "client");
    let (stranger_cert, stranger_key) = other.issue(folder.path(), "stranger");
    let listeners = [TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap()];
    let [client, peer] = listeners.map(|listener| listener.local_addr().unwrap());
    let (url, peer) = (format!("https://{client}"), format!("http://{peer}"));
    let mut command = Command::new(program);
    command.args(["--log-level", "error", "--listen-client-urls", &url, "--advertise-client-urls", &url]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("default={peer}"), "--client-cert-auth"]);
    command.arg("--data-dir").arg(folder.path().join("data")).arg("--trusted-ca-file").arg(&ca);
    command.arg("--cert-file").arg(&server_cert).arg("--key-file").arg(&server_key);
    let _etcd = Etcd(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());

    let good = EtcdOptions {
        ca_file: Some(ca),
        cert_file: Some(client_cert),
        key_file: Some(client_key),
        ..EtcdOptions::new([&url])
    };
    let store = open(&good).await.unwrap();
    let mut watch = store.watch("/", Revision::INITIAL).await.unwrap();
    let written = store.create("/a", "value".into()).await.unwrap();
    assert_eq!(watch.next().await.unwrap().revision, written);

    let bad = [
        EtcdOptions { cert_file: None, key_file: None, ..good.clone() },
        EtcdOptions { cert_file: Some(stranger_cert), key_file: Some(stranger_key), ..good.clone() },
        EtcdOptions { ca_file: Some(other_ca), ..good.clone() },
        EtcdOptions { ca_file: None, ..good.clone() },
    ];
    for options in bad {
        let error = EtcdStore::open(options.clone()).await.err();
        assert!(matches!(&error, Some(EtcdError::Tls { .. })), "{options:?}: {error:?}");
    }
    let missing = EtcdOptions { key_file: Some(folder.path().join("none")), ..good.clone() };
    let error = EtcdStore::open(missing).await.err();
    assert!(matches!(&error, Some(EtcdError::File { path, .. }) if path.ends_with("none")), "{error:?}");
    let plain = EtcdOptions::new([format!("http://{client}")]);
    let error = EtcdStore::open(plain).await.err();
    assert!(matches!(&error, Some(EtcdError::Unreachable { .. })), "{error:?}");
}
