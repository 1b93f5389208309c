//! Addresses of etcd, and the prefix of the keys.

use std::{fmt, path::PathBuf};

use http::Uri;

use crate::{EtcdError, keys::Prefix};

/// The prefix of all keys unless another is given. That of kube-apiserver is `/registry`.
pub const DEFAULT_PREFIX: &str = "/windlass";

/// The port of servers without one.
const PORT: u16 = 2379;

/// Options of a store in etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdOptions {
    /// URLs of the members of one etcd cluster: `http://HOST[:PORT]` or `https://HOST[:PORT]`.
    pub servers: Vec<String>,
    /// The prefix of all keys, such as `/windlass`.
    pub prefix: String,
    /// File with the certificate authorities of the servers, in PEM; those of the system if there is none.
    pub ca_file: Option<PathBuf>,
    /// File with the client certificate, in PEM.
    pub cert_file: Option<PathBuf>,
    /// File with the key of the client certificate, in PEM.
    pub key_file: Option<PathBuf>,
}

impl EtcdOptions {
    /// Options for these servers, with [`DEFAULT_PREFIX`] and without certificates.
    pub fn new(servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            servers: servers.into_iter().map(Into::into).collect(),
            prefix: DEFAULT_PREFIX.to_owned(),
            ca_file: None,
            cert_file: None,
            key_file: None,
        }
    }

    /// Checks the options, without reading files or connecting.
    pub fn validate(&self) -> Result<(), EtcdError> {
        self.endpoints()?;
        Prefix::parse(&self.prefix)?;
        Ok(())
    }

    pub(crate) fn endpoints(&self) -> Result<Vec<Endpoint>, EtcdError> {
        if self.servers.is_empty() {
            return Err(EtcdError::NoServers);
        }
        if self.cert_file.is_some() != self.key_file.is_some() {
            return Err(EtcdError::HalfAPair);
        }
        let endpoints: Vec<Endpoint> =
            self.servers.iter().map(|server| Endpoint::parse(server)).collect::<Result<_, _>>()?;
        let has_files = [&self.ca_file, &self.cert_file].into_iter().any(Option::is_some);
        if has_files && let Some(plain) = endpoints.iter().find(|endpoint| !endpoint.tls) {
            return Err(EtcdError::NotEncrypted { server: plain.to_string() });
        }
        Ok(endpoints)
    }
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) tls: bool,
    /// Name or address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Endpoint {
    fn parse(server: &str) -> Result<Self, EtcdError> {
        let invalid = |problem| EtcdError::Server { server: server.to_owned(), problem };
        let uri: Uri = server.parse().map_err(|_| invalid("it is not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(invalid("it must begin with http:// or https://")),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or(invalid("it has no host"))?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(invalid("users are not supported"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(invalid("it must not have a path"));
        }
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Ok(Self { tls, host: host.to_owned(), port: uri.port_u16().unwrap_or(PORT) })
    }

    /// The host and port of a URL.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_urls_of_hosts() {
        for (server, expected) in [
            ("http://127.0.0.1:2379", "http://127.0.0.1:2379"),
            ("https://etcd.example/", "https://etcd.example:2379"),
            ("https://[::1]:1", "https://[::1]:1"),
        ] {
            assert_eq!(Endpoint::parse(server).unwrap().to_string(), expected);
        }
        for server in
            ["", "etcd", "etcd:2379", "unix:///run/etcd", "http://", "http://a/b", "http://u:p@a", "http://a?b"]
        {
            assert!(Endpoint::parse(server).is_err(), "{server}");
        }
    }

    #[test]
    fn options_that_cannot_work_are_rejected() {
        let none = EtcdOptions::new(Vec::<String>::new());
        assert!(matches!(none.validate(), Err(EtcdError::NoServers)));
        let plain = EtcdOptions { ca_file: Some("ca".into()), ..EtcdOptions::new(["https://a", "http://b"]) };
        assert!(matches!(plain.validate(), Err(EtcdError::NotEncrypted { server }) if server == "http://b:2379"));
        let half = EtcdOptions { cert_file: Some("c".into()), ..EtcdOptions::new(["https://a"]) };
        assert!(matches!(half.validate(), Err(EtcdError::HalfAPair)));
        let prefix = EtcdOptions { prefix: "/".into(), ..EtcdOptions::new(["https://a"]) };
        assert!(matches!(prefix.validate(), Err(EtcdError::Prefix { .. })));
    }
}
