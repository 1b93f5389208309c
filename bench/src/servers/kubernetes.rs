//! kube-apiserver with TLS, client certificates and RBAC, on an etcd of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use windlass_bench::child::{Server, free_port};

use super::{Places, READY_WITHIN, Running, readyz};
use crate::pki::{FRONT_PROXY, Pki};

pub(super) async fn start(folder: TempDir, places: &Places) -> anyhow::Result<Running> {
    let (etcd, apiserver) = (peer(places, "etcd")?, peer(places, "kube-apiserver")?);
    let certificates = folder.path().join("pki");
    let pki = if certificates.is_dir() { Pki::at(certificates) } else { Pki::make(certificates)? };
    let tls = pki.client_config()?;
    let [client_port, peer_port, port] = ports(&folder.path().join("ports"))?;
    let etcd_url = format!("http://127.0.0.1:{client_port}");
    let peer_url = format!("http://127.0.0.1:{peer_port}");

    let begin = Instant::now();
    let mut command = Command::new(etcd);
    command.arg("--data-dir").arg(folder.path().join("etcd"));
    command.args(["--listen-client-urls", &etcd_url, "--advertise-client-urls", &etcd_url]);
    command.args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url]);
    command.args(["--initial-cluster", &format!("default={peer_url}"), "--log-level", "warn"]);
    let mut etcd = Server::spawn(&mut command, &folder.path().join("etcd.log"))?;
    listening(client_port, &mut etcd).await?;

    let flag = |name: &str, file: &str| format!("--{name}={}", pki.path(file).display());
    let mut command = Command::new(apiserver);
    command.arg(format!("--etcd-servers={etcd_url}")).arg(format!("--secure-port={port}"));
    command.args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--authorization-mode=RBAC"]);
    command.args(["--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged"]);
    command.arg(flag("tls-cert-file", "server.crt")).arg(flag("tls-private-key-file", "server.key"));
    command.arg(flag("client-ca-file", "ca.crt")).arg("--service-account-issuer=https://kubernetes.default.svc");
    command.arg(flag("service-account-key-file", "accounts.pub"));
    command.arg(flag("service-account-signing-key-file", "accounts.key"));
    command.arg(format!("--cert-dir={}", pki.folder().display()));
    command.arg(flag("proxy-client-cert-file", &format!("{FRONT_PROXY}.crt")));
    command.arg(flag("proxy-client-key-file", &format!("{FRONT_PROXY}.key")));
    command.arg(flag("requestheader-client-ca-file", "front-proxy-ca.crt"));
    command.arg(format!("--requestheader-allowed-names={FRONT_PROXY}"));
    command.args(["--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group"]);
    command.arg("--requestheader-extra-headers-prefix=X-Remote-Extra-");
    let mut apiserver = Server::spawn(&mut command, &folder.path().join("kube-apiserver.log"))?;
    let url = format!("https://127.0.0.1:{port}");
    readyz(&url, &tls, &mut apiserver).await?;
    Ok(Running { url, tls, pki, ready_in: begin.elapsed(), processes: vec![apiserver, etcd], folder })
}

/// Returns free ports, or those of an earlier start, so that clients connect again.
fn ports(file: &Path) -> anyhow::Result<[u16; 3]> {
    if let Ok(text) = fs::read_to_string(file) {
        return serde_json::from_str(&text).with_context(|| format!("cannot read {}", file.display()));
    }
    let ports = [free_port()?, free_port()?, free_port()?];
    fs::write(file, json!(ports).to_string()).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(ports)
}

pub(crate) fn peer(places: &Places, name: &str) -> anyhow::Result<PathBuf> {
    let path = places.peers.join(name);
    if !path.is_file() {
        bail!(
            "{} does not exist: build it with `cargo xtask peers`, or pass its directory with --peers",
            path.display()
        );
    }
    Ok(path)
}

async fn listening(port: u16, process: &mut Server) -> anyhow::Result<()> {
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        process.check()?;
        if start.elapsed() > READY_WITHIN {
            bail!("etcd does not listen on its port");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
