//! Webhooks served by a process on this machine.
//!
//! A cluster calls webhooks through a Service that selects pods. During a run there is no pod: CRDs and webhook
//! configurations contain a URL of this machine instead, with a CA created for the run. The configurations have their
//! own names, so that those of a deployed operator are left alone, and a label that identifies the run.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _, UdpSocket},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use windlass_plane::Pki;

use super::{account, trace::LABEL};

/// The route from an API server to this machine.
#[derive(Clone, Debug)]
pub(crate) struct Tunnel {
    /// Name of the operator.
    pub(crate) operator: String,
    /// Host name or address of this machine, as seen from the API server.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Directory with `tls.crt` and `tls.key` for the process.
    pub(crate) certificates: PathBuf,
    /// CA certificate in PEM.
    authority: String,
}

/// Resources that a run installs into a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Installation {
    pub(crate) definitions: Vec<Value>,
    pub(crate) configurations: Vec<Value>,
    /// The operator's service account, roles and bindings, if it runs as that account.
    pub(crate) roles: Vec<Value>,
}

impl Tunnel {
    /// Creates certificates in a directory; valid ones are reused.
    pub(crate) fn prepare(folder: &Path, operator: &str, host: String, port: u16) -> anyhow::Result<Self> {
        let pki = folder.join("pki");
        let made = Pki::load_or_create(&pki, std::slice::from_ref(&host))
            .context("failed to create a certificate for webhooks")?;
        for (from, to) in [("server.crt", "tls.crt"), ("server.key", "tls.key")] {
            let to = folder.join(to);
            fs::copy(pki.join(from), &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
        Ok(Self {
            operator: operator.to_owned(),
            host,
            port,
            certificates: folder.to_owned(),
            authority: made.ca().certificate.clone(),
        })
    }

    /// Redirects the CRDs and webhook configurations of an operator to this machine, and marks its roles. Other objects
    /// are dropped.
    pub(crate) fn redirect(&self, objects: Vec<Value>) -> Installation {
        let mut installation = Installation::default();
        for mut object in objects {
            match object["kind"].as_str().unwrap_or_default() {
                "CustomResourceDefinition" => {
                    if let Some(client) = object.pointer_mut("/spec/conversion/webhook/clientConfig") {
                        self.redirect_client(client);
                        object["metadata"]["labels"][LABEL] = json!(self.operator);
                    }
                    installation.definitions.push(object);
                }
                "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
                    for webhook in object["webhooks"].as_array_mut().into_iter().flatten() {
                        self.redirect_client(&mut webhook["clientConfig"]);
                    }
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    object["metadata"]["name"] = json!(format!("{name}-run"));
                    object["metadata"]["labels"][LABEL] = json!(self.operator);
                    installation.configurations.push(object);
                }
                kind if account::is_role(kind) => {
                    account::label(&mut object, &self.operator);
                    installation.roles.push(object);
                }
                _ => {}
            }
        }
        installation
    }

    fn redirect_client(&self, client: &mut Value) {
        let path = client.pointer("/service/path").and_then(Value::as_str).unwrap_or("/").trim_start_matches('/');
        let Self { port, .. } = self;
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        *client = json!({
            "url": format!("https://{host}:{port}/{path}"), "caBundle": STANDARD.encode(&self.authority),
        });
    }
}

impl Installation {
    /// CRDs with a conversion webhook, changed in a way that API servers ignore: servers cache conversions until a CRD
    /// changes, and another operator may convert differently.
    pub(crate) fn converted_again(&self, number: usize) -> Vec<Value> {
        let mut definitions = self.definitions.clone();
        definitions.retain_mut(|definition| {
            let versions = definition.pointer_mut("/spec/conversion/webhook/conversionReviewVersions");
            versions
                .and_then(Value::as_array_mut)
                .map(|versions| versions.push(json!(format!("run-{number}"))))
                .is_some()
        });
        definitions
    }
}

/// Returns the address of this machine that a server can reach: the local address of the route to the server.
pub(crate) fn own_address(server: &str) -> IpAddr {
    let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
    let found = || -> Option<IpAddr> {
        let uri: http::Uri = server.parse().ok()?;
        let host = uri.host()?.trim_matches(['[', ']']);
        let to = (host, uri.port_u16().unwrap_or(443)).to_socket_addrs().ok()?.next()?;
        let any: SocketAddr = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().ok()?;
        // Nothing is sent: the system only looks up a route.
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    found().unwrap_or(loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSIONS: &str = "conversionReviewVersions";

    fn tunnel(host: &str) -> Tunnel {
        Tunnel {
            operator: "shop".into(),
            host: host.into(),
            port: 4433,
            certificates: "/nowhere".into(),
            authority: "PEM".into(),
        }
    }

    fn service(path: &str) -> Value {
        json!({ "service": { "name": "shop-webhook", "namespace": "shop-system", "path": path, "port": 443 } })
    }

    #[test]
    fn webhook_configurations_point_to_this_machine_under_their_own_names() {
        let configuration = json!({
            "kind": "ValidatingWebhookConfiguration", "metadata": { "name": "shop", "labels": { "a": "b" } },
            "webhooks": [{ "name": "a", "clientConfig": service("/a") }, { "name": "b", "clientConfig": service("/b") }],
        });
        let installation = tunnel("127.0.0.1").redirect(vec![configuration, json!({ "kind": "Issuer" })]);
        let expected = json!({
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "shop-run", "labels": { "a": "b", "windlass.dev/run": "shop" } },
            "webhooks": [
                { "name": "a", "clientConfig": { "url": "https://127.0.0.1:4433/a", "caBundle": "UEVN" } },
                { "name": "b", "clientConfig": { "url": "https://127.0.0.1:4433/b", "caBundle": "UEVN" } },
            ],
        });
        assert_eq!(installation, Installation { configurations: vec![expected], ..Installation::default() });
    }

    #[test]
    fn crds_with_conversion_point_to_this_machine_and_others_are_unchanged() {
        let conversion =
            json!({ "strategy": "Webhook", "webhook": { "clientConfig": service("/convert"), VERSIONS: ["v1"] } });
        let converted =
            json!({ "kind": "CustomResourceDefinition", "metadata": {}, "spec": { "conversion": conversion } });
        let plain = json!({ "kind": "CustomResourceDefinition", "metadata": {}, "spec": {} });
        let installation = tunnel("fd00::1").redirect(vec![converted, plain.clone()]);
        let [converted, other] = &installation.definitions[..] else { panic!("{installation:?}") };
        let webhook = &converted["spec"]["conversion"]["webhook"];
        assert_eq!(webhook["clientConfig"]["url"], "https://[fd00::1]:4433/convert");
        assert_eq!(webhook[VERSIONS], json!(["v1"]));
        assert_eq!(converted["metadata"]["labels"][LABEL], "shop");
        assert_eq!(*other, plain);
        let mut anew = converted.clone();
        anew["spec"]["conversion"]["webhook"][VERSIONS] = json!(["v1", "run-3"]);
        assert_eq!(installation.converted_again(3), [anew]);
    }

    #[test]
    fn a_server_on_this_machine_reaches_it_by_the_loopback_address() {
        for server in ["https://127.0.0.1:6443", "https://localhost", "nonsense"] {
            assert!(own_address(server).is_loopback(), "{server}");
        }
        assert_eq!(own_address("https://127.0.0.1:6443").to_string(), "127.0.0.1");
    }

    #[test]
    fn certificates_are_written_where_the_operator_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let made = Tunnel::prepare(folder.path(), "shop", "10.1.2.3".into(), 1).unwrap();
        for file in ["tls.crt", "tls.key"] {
            assert!(fs::read_to_string(made.certificates.join(file)).unwrap().starts_with("-----BEGIN"));
        }
        assert!(made.authority.starts_with("-----BEGIN CERTIFICATE"));
        let again = Tunnel::prepare(folder.path(), "shop", "10.1.2.3".into(), 1).unwrap();
        assert_eq!(made.authority, again.authority);
    }
}
