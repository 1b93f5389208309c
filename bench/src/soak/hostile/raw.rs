//! Connections that speak HTTP/1.1 by hand, so that they can stop anywhere.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::servers::Running;

/// Receive buffer of slow clients: a small one makes the server wait soon.
const RECEIVE_BUFFER: u32 = 4096;

/// The server to connect to.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) url: String,
    pub(super) address: SocketAddr,
    /// For HTTP/2.
    pub(super) tls: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
}

impl Target {
    pub(super) fn new(server: &Running) -> anyhow::Result<Self> {
        let authority = server.url.strip_prefix("https://").context("the URL must begin with https://")?;
        let mut http1 = ClientConfig::clone(&server.tls);
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            url: server.url.clone(),
            address: authority.parse().with_context(|| format!("{authority} is not address:port"))?,
            tls: server.tls.clone(),
            http1: Arc::new(http1),
        })
    }

    /// Connects without TLS. Closing it resets the connection if it is `abrupt`.
    pub(super) async fn socket(&self, abrupt: bool) -> anyhow::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        let stream = socket.connect(self.address).await?;
        if abrupt {
            stream.set_zero_linger()?;
        }
        Ok(stream)
    }

    /// Connects with TLS, for HTTP/1.1 or HTTP/2.
    pub(super) async fn connect(&self, abrupt: bool, http2: bool) -> anyhow::Result<TlsStream<TcpStream>> {
        let config = if http2 { &self.tls } else { &self.http1 };
        let name = ServerName::from(self.address.ip());
        let handshake = TlsConnector::from(config.clone()).connect(name, self.socket(abrupt).await?);
        Ok(tokio::time::timeout(Duration::from_secs(30), handshake).await??)
    }

    /// Returns the head of a request.
    pub(super) fn head(&self, method: &str, path: &str, length: usize) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n",
            self.address
        )
    }
}
