//! TLS servers that support only HTTP/1.1.

use std::sync::Mutex;

use kube::client::ConfigExt as _;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use windlass_runtime::{cache::Caches, key::ObjectKey, scope::Scope};

use super::*;
use crate::webhook::caller::Authority;

/// A TLS proxy in front of a server, with a choice of protocols.
struct Front {
    /// The protocol negotiated with each client.
    spoken: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
    serving: JoinSet<()>,
}

impl Front {
    /// Serves with a certificate of a CA until it is dropped.
    fn start(listener: TcpListener, authority: &Authority, server: &Config, protocols: &[&str]) -> Self {
        let protocols: Vec<Vec<u8>> = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let (certificate, key) = authority.issue("127.0.0.1");
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let near = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut near = near.with_no_client_auth().with_single_cert(chain, key).unwrap();
        near.alpn_protocols.clone_from(&protocols);
        let mut far = server.rustls_client_config().unwrap();
        far.alpn_protocols = protocols;
        let (acceptor, connector) = (TlsAcceptor::from(Arc::new(near)), TlsConnector::from(Arc::new(far)));
        let host = server.cluster_url.host().unwrap().to_owned();
        let port = server.cluster_url.port_u16().unwrap_or(443);
        let spoken: Arc<Mutex<Vec<_>>> = Arc::default();
        let agreed = spoken.clone();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut pipes = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, connector, agreed, host) =
                    (acceptor.clone(), connector.clone(), agreed.clone(), host.clone());
                pipes.spawn(async move {
                    let Ok(mut near) = acceptor.accept(stream).await else { return };
                    agreed.lock().unwrap().push(near.get_ref().1.alpn_protocol().map(<[u8]>::to_vec));
                    let far = TcpStream::connect((host.as_str(), port)).await.unwrap();
                    let mut far = connector.connect(ServerName::try_from(host).unwrap(), far).await.unwrap();
                    if near.get_ref().1.alpn_protocol() != Some(b"h2") {
                        // The server behind it would understand HTTP/2 nevertheless.
                        let mut first = [0; 3];
                        let Ok(_) = near.read_exact(&mut first).await else { return };
                        assert_ne!(&first, b"PRI", "HTTP/2 was not agreed on");
                        far.write_all(&first).await.unwrap();
                    }
                    drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
                });
            }
        });
        Self { spoken, serving }
    }

    fn spoken(&self) -> Vec<Option<Vec<u8>>> {
        self.spoken.lock().unwrap().clone()
    }
}

/// A configuration for who trusts the authority. The front has the administrator's identity.
fn config(address: std::net::SocketAddr, authority: &Authority) -> Config {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.root_cert = Some(vec![CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap().to_vec()]);
    config
}

#[tokio::test]
async fn an_informer_and_writes_work_without_http_2() {
    let tls = Tls::start().await;
    let authority = Authority::new();
    for protocols in [&["http/1.1"][..], &[]] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let front = Front::start(listener, &authority, &tls.config, protocols);
        let client = client::connect(&config(address, &authority), ClientOptions::new("windlass-test")).unwrap();
        let namespace = namespace(&client).await;
        let caches = Caches::new(client.clone());
        let seen = caches.informer::<ConfigMap>(&Scope::namespace(&namespace));
        seen.synced().await;
        // The watch holds its connection; others do not wait for it.
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let mut writes = JoinSet::new();
        for number in 0..20 {
            let maps = maps.clone();
            writes.spawn(
                async move { maps.create(&PostParams::default(), &map(&format!("map-{number}"))).await.unwrap() },
            );
        }
        writes.join_all().await;
        eventually("all are seen", async || {
            let there = |number| seen.get(&ObjectKey::namespaced(&namespace, &format!("map-{number}"))).is_some();
            (0..20).all(there).then_some(())
        })
        .await;
        let spoken = front.spoken();
        assert!(spoken.len() > 1, "watches and requests use separate connections");
        // The first connection offers HTTP/2; later ones offer nothing.
        let first = protocols.first().map(|protocol| protocol.as_bytes().to_vec());
        assert_eq!(spoken[0], first);
        assert!(spoken[1..].iter().all(Option::is_none), "{spoken:?}");
    }
}

#[tokio::test]
async fn a_server_that_lost_http_2_support_still_works() {
    let tls = Tls::start().await;
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut front = Front::start(listener, &authority, &tls.config, &["h2", "http/1.1"]);
    let client = client::connect(&config(address, &authority), ClientOptions::new("windlass-test")).unwrap();
    client.apiserver_version().await.unwrap();
    assert_eq!(front.spoken(), [Some(b"h2".to_vec())]);
    front.serving.shutdown().await;
    let listener = TcpListener::bind(address).await.unwrap();
    let front = Front::start(listener, &authority, &tls.config, &["http/1.1"]);
    eventually("it is answered", async || client.apiserver_version().await.ok()).await;
    client.apiserver_version().await.unwrap();
    assert_eq!(front.spoken()[0].as_deref(), Some(&b"http/1.1"[..]));
}
