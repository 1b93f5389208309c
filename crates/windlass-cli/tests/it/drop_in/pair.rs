//! Starting and stopping the two programs.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tempfile::TempDir;
use windlass_plane::{CertificateAndKey, Pki, TokenKey, kubeconfig};

use crate::process::{output, windlass};

/// Far more than a start or a stop takes on any machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of times that a start is repeated if another process took the port in the meantime, as envtest does.
const STARTS: usize = 5;

/// A directory written by `windlass assets`.
pub(super) fn assets() -> Arc<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let written = output(windlass().arg("assets").arg(folder.path()));
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    Arc::new(folder)
}

/// A program of the directory.
pub(super) fn entry(assets: &TempDir, name: &str) -> Command {
    let mut command = Command::new(assets.path().join(name));
    command.env_remove("RUST_LOG").env_remove("WINDLASS_CONTROLLERS").env_remove("WINDLASS_NODES").stdin(Stdio::null());
    command
}

/// Certificates and keys like those of envtest.
pub(super) fn files() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let pki = Pki::load_or_create(&folder.path().join("pki"), &[]).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("apiserver.crt", &pki.server().certificate);
    write("apiserver.key", &pki.server().key);
    write("ca.crt", &pki.ca().certificate);
    write("sa.key", TokenKey::generate().to_pem());
    folder
}

/// A port that was free a moment ago.
pub(super) fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// A running program; killed when dropped.
struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    fn spawn(mut command: Command, log: PathBuf) -> Self {
        let file = fs::File::create(&log).unwrap();
        let child = command.stdout(Stdio::null()).stderr(file).spawn().unwrap();
        Self { child, log }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits for a line of the log; `None` if the program ends.
    fn line_with(&mut self, text: &str) -> Option<String> {
        let start = Instant::now();
        loop {
            let ended = self.child.try_wait().unwrap().is_some();
            let log = self.log();
            // The last line may be incomplete.
            let complete = log.rfind('\n').map_or("", |end| &log[..end]);
            if let Some(line) = complete.lines().find(|line| line.contains(text)) {
                return Some(line.to_owned());
            }
            if ended {
                return None;
            }
            assert!(start.elapsed() < TIMEOUT, "no {text:?} in {log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(exit) = self.child.try_wait().unwrap() {
                return exit;
            }
            assert!(start.elapsed() < TIMEOUT, "still running: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn stop(&mut self, signal: &str) -> (ExitStatus, Duration) {
        let start = Instant::now();
        let sent = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        (self.wait(), start.elapsed())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail if it has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running etcd.
pub(super) struct Etcd {
    process: Process,
    port: u16,
}

impl Etcd {
    /// Starts it on a port, or on a free one, with its data next to the certificates.
    pub(super) fn start(assets: &TempDir, files: &Path, port: u16) -> Self {
        let mut command = entry(assets, "etcd");
        command.arg(format!("--data-dir={}", files.join("etcd").display())).args([
            &format!("--listen-client-urls=http://127.0.0.1:{port}"),
            &format!("--advertise-client-urls=http://127.0.0.1:{port}"),
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync=true",
        ]);
        let mut process = Process::spawn(command, files.join("etcd.log"));
        let line = process.line_with("ready to serve client requests");
        let line: serde_json::Value =
            serde_json::from_str(&line.unwrap_or_else(|| panic!("{}", process.log()))).unwrap();
        let port = line["address"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
        Self { process, port }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn stop(&mut self, signal: &str) -> (ExitStatus, Duration) {
        self.process.stop(signal)
    }
}

/// A running API server.
pub(super) struct KubeApiserver {
    process: Process,
    port: u16,
}

impl KubeApiserver {
    /// Starts it on a port that was free a moment ago.
    pub(super) fn spawn(assets: &TempDir, files: &Path, etcd: u16, arguments: &[&str]) -> Self {
        Self::spawn_at(assets, files, free_port(), etcd, arguments)
    }

    pub(super) fn spawn_at(assets: &TempDir, files: &Path, port: u16, etcd: u16, arguments: &[&str]) -> Self {
        Self::spawn_with(assets, files, (port, etcd), arguments, &[])
    }

    fn spawn_with(
        assets: &TempDir,
        files: &Path,
        (port, etcd): (u16, u16),
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut command = entry(assets, "kube-apiserver");
        let file = |name: &str| files.join(name).display().to_string();
        command.args([
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", files.display()),
            format!("--client-ca-file={}", file("ca.crt")),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--etcd-servers=http://127.0.0.1:{etcd}"),
            format!("--secure-port={port}"),
            format!("--service-account-issuer=https://127.0.0.1:{port}/"),
            format!("--service-account-key-file={}", file("sa.key")),
            format!("--service-account-signing-key-file={}", file("sa.key")),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ]);
        command.args(arguments).envs(variables.iter().copied());
        Self { process: Process::spawn(command, files.join(format!("server-{port}.log"))), port }
    }

    pub(super) fn wait_until_serving(&mut self) {
        assert!(self.is_serving(), "{}", self.log());
    }

    /// Waits until it serves; returns false if it ends instead.
    fn is_serving(&mut self) -> bool {
        self.process.line_with("Serving securely on").is_some()
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.process.child.try_wait().unwrap().is_some()
    }

    pub(super) fn log(&self) -> String {
        self.process.log()
    }

    /// Waits until it ends by itself.
    pub(super) fn ended(mut self) -> (ExitStatus, String) {
        (self.process.wait(), self.log())
    }

    pub(super) fn stop(&mut self, signal: &str) -> (ExitStatus, Duration) {
        self.process.stop(signal)
    }
}

/// A control plane.
pub(super) struct Pair {
    pub(super) server: KubeApiserver,
    pub(super) etcd: Etcd,
    assets: Arc<TempDir>,
    files: TempDir,
}

impl Pair {
    pub(super) fn start(assets: &Arc<TempDir>) -> Self {
        Self::start_with(assets, &[], &[])
    }

    pub(super) fn start_with(assets: &Arc<TempDir>, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let files = files();
        let etcd = Etcd::start(assets, files.path(), 0);
        let server = serving(assets, files.path(), etcd.port(), arguments, variables);
        Self { server, etcd, assets: assets.clone(), files }
    }

    /// Starts the API server again.
    pub(super) fn restart_server(&mut self) {
        self.server = serving(&self.assets, self.files.path(), self.etcd.port(), &[], &[]);
    }

    /// Starts etcd again, with the same data.
    pub(super) fn restart_etcd(&mut self) {
        self.etcd = Etcd::start(&self.assets, self.files.path(), 0);
    }

    /// A client of the administrator.
    pub(super) async fn admin(&self) -> Client {
        Self::client(self.kubeconfig()).await
    }

    /// A client with a certificate.
    pub(super) async fn client_with(&self, pair: &CertificateAndKey) -> Client {
        let mut kubeconfig = self.kubeconfig();
        let user = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
        user.client_certificate_data = Some(STANDARD.encode(&pair.certificate));
        user.client_key_data = Some(STANDARD.encode(&pair.key).into());
        Self::client(kubeconfig).await
    }

    fn kubeconfig(&self) -> Kubeconfig {
        let pki = Pki::load_or_create(&self.files.path().join("pki"), &[]).unwrap();
        Kubeconfig::from_yaml(&kubeconfig(&pki, &format!("https://127.0.0.1:{}", self.server.port))).unwrap()
    }

    async fn client(kubeconfig: Kubeconfig) -> Client {
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }
}

fn serving(assets: &TempDir, files: &Path, etcd: u16, arguments: &[&str], variables: &[(&str, &str)]) -> KubeApiserver {
    for _ in 0..STARTS {
        let mut server = KubeApiserver::spawn_with(assets, files, (free_port(), etcd), arguments, variables);
        if server.is_serving() {
            return server;
        }
        assert!(server.log().contains("address already in use"), "{}", server.log());
    }
    panic!("all ports are in use");
}
