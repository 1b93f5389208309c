//! Bind addresses, in the syntax of Go programs.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use tokio::net::TcpListener;

/// Address to listen on: `:8080` for all interfaces, `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080` for one, `0` to
/// disable the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// The server is disabled.
    Off,
    /// A port of one interface, or of all interfaces if there is no host.
    At {
        /// Host name or IP address; `None` for all interfaces.
        host: Option<String>,
        /// Port; 0 for any free port.
        port: u16,
    },
}

/// Error for a string that is not a bind address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid address {0:?}: expected :8080, 127.0.0.1:8080, or 0 to disable")]
pub struct InvalidBindAddress(String);

impl FromStr for BindAddress {
    type Err = InvalidBindAddress;

    fn from_str(text: &str) -> Result<Self, InvalidBindAddress> {
        let invalid = || InvalidBindAddress(text.to_owned());
        if text == "0" || text.is_empty() {
            return Ok(Self::Off);
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let port = port.parse().map_err(|_| invalid())?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').filter(|host| host.parse::<Ipv6Addr>().is_ok()).ok_or_else(invalid)?,
            None if host.contains([':', '/', ' ']) => return Err(invalid()),
            None => host,
        };
        Ok(Self::At { host: (!host.is_empty()).then(|| host.to_owned()), port })
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::At { host: None, port } => write!(f, ":{port}"),
            Self::At { host: Some(host), port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::At { host: Some(host), port } => write!(f, "{host}:{port}"),
        }
    }
}

impl BindAddress {
    /// Replaces all interfaces by one, if it is given.
    pub(super) fn within(self, address: Option<IpAddr>) -> Self {
        match (self, address) {
            (Self::At { host: None, port }, Some(address)) => Self::At { host: Some(address.to_string()), port },
            (address, _) => address,
        }
    }

    /// Starts listening; returns `None` if disabled. An address without an IP listens on IPv6, too, if it is available.
    pub async fn listen(&self) -> io::Result<Option<TcpListener>> {
        let listener = match self {
            Self::Off => return Ok(None),
            Self::At { host: Some(host), port } => TcpListener::bind((host.as_str(), *port)).await?,
            Self::At { host: None, port } => {
                match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port))).await {
                    Ok(listener) => listener,
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
                    Err(_) => TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port))).await?,
                }
            }
        };
        Ok(Some(listener))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_go_reads_them() {
        let at = |host: Option<&str>, port| Some(BindAddress::At { host: host.map(str::to_owned), port });
        for (text, expected) in [
            ("0", Some(BindAddress::Off)),
            ("", Some(BindAddress::Off)),
            (":8080", at(None, 8080)),
            ("127.0.0.1:0", at(Some("127.0.0.1"), 0)),
            ("localhost:8081", at(Some("localhost"), 8081)),
            ("[::1]:9443", at(Some("::1"), 9443)),
            ("8080", None),
            ("::1:80", None),
            ("[::1:80", None),
            ("[moon]:80", None),
            (":65536", None),
            ("http://x:80", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
            if let Some(bind) = expected.filter(|_| !text.is_empty()) {
                assert_eq!(bind.to_string(), text);
            }
        }
    }

    #[tokio::test]
    async fn all_addresses_can_be_listened_on() {
        let bind: BindAddress = ":0".parse().unwrap();
        let listener = bind.listen().await.unwrap().unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        assert!(BindAddress::Off.listen().await.unwrap().is_none());
    }
}
