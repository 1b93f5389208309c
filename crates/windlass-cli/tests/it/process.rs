//! Running the binary.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// Far more than a start or a stop takes on any machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The command, independent of the environment of the test.
pub(crate) fn windlass() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.env_remove("WINDLASS_DATA_DIR").env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Runs a command that exits by itself.
pub(crate) fn output(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.wait_with_output().unwrap()
}

/// A running `windlass up`; killed when dropped.
pub(crate) struct Up {
    child: Child,
    data_dir: PathBuf,
    url: String,
}

impl Up {
    /// Starts a server on a free port and waits until it is serving.
    pub(crate) fn start(data_dir: &Path, arguments: &[&str]) -> Self {
        Self::start_as(windlass(), data_dir, arguments)
    }

    /// Starts a server that can open only this many files.
    pub(crate) fn start_with_open_files(files: u32, data_dir: &Path, arguments: &[&str]) -> Self {
        let program = windlass();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")]).arg(program.get_program());
        shell.env_remove("WINDLASS_DATA_DIR").env_remove("RUST_LOG").stdin(Stdio::null());
        Self::start_as(shell, data_dir, arguments)
    }

    fn start_as(mut program: Command, data_dir: &Path, arguments: &[&str]) -> Self {
        let ready_file = data_dir.with_extension("ready");
        // The server does so too, but only once it is running.
        let _ = fs::remove_file(&ready_file);
        let log = data_dir.with_extension("log");
        let child = program
            .args(["up", "--port", "0", "--data-dir"])
            .arg(data_dir)
            .arg("--ready-file")
            .arg(&ready_file)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut up = Self { child, data_dir: data_dir.to_owned(), url: String::new() };
        let start = Instant::now();
        loop {
            if let Some(exit) = up.child.try_wait().unwrap() {
                panic!("windlass up ended: {exit}: {}", fs::read_to_string(&log).unwrap());
            }
            match fs::read_to_string(&ready_file) {
                Ok(text) => {
                    up.url = text.trim_end().to_owned();
                    return up;
                }
                Err(error) => assert!(start.elapsed() < TIMEOUT, "not ready: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kubeconfig(&self) -> Kubeconfig {
        Kubeconfig::read_from(self.data_dir.join("kubeconfig")).unwrap()
    }

    /// The client certificate in the kubeconfig.
    pub(crate) fn admin_certificate(&self) -> String {
        let kubeconfig = self.kubeconfig();
        kubeconfig.auth_infos[0].auth_info.as_ref().unwrap().client_certificate_data.clone().unwrap()
    }

    /// A client with the credentials of the kubeconfig.
    pub(crate) async fn admin(&self) -> Client {
        let config = Config::from_custom_kubeconfig(self.kubeconfig(), &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// A client that trusts the server, without credentials.
    pub(crate) async fn anonymous(&self) -> Client {
        let mut config =
            Config::from_custom_kubeconfig(self.kubeconfig(), &KubeConfigOptions::default()).await.unwrap();
        config.auth_info = kube::config::AuthInfo::default();
        Client::try_from(config).unwrap()
    }

    /// Waits until it exits by itself. Returns the status and the log.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let start = Instant::now();
        let exit = loop {
            if let Some(exit) = self.child.try_wait().unwrap() {
                break exit;
            }
            assert!(start.elapsed() < TIMEOUT, "still running");
            std::thread::sleep(Duration::from_millis(5));
        };
        (exit, fs::read_to_string(self.data_dir.with_extension("log")).unwrap())
    }

    /// Sends a signal and waits for the exit. Returns the status, the time it took, and the output.
    pub(crate) fn stop(mut self, signal: &str) -> (ExitStatus, Duration, String) {
        let start = Instant::now();
        let sent = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let exit = loop {
            if let Some(exit) = self.child.try_wait().unwrap() {
                break exit;
            }
            assert!(start.elapsed() < TIMEOUT, "still running after {signal}");
            std::thread::sleep(Duration::from_millis(5));
        };
        let took = start.elapsed();
        let printed = std::io::read_to_string(self.child.stdout.take().unwrap()).unwrap();
        (exit, took, printed)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Both fail if it has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
