//! `cargo xtask etcd`: runs the tests of the etcd backend with a single member, with a cluster of three, and with members
//! that are killed; and those of three API servers over one etcd, and of migrations.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};

use crate::{cargo, peers};

const USAGE: &str = "usage: cargo xtask etcd [--peers DIR]";
/// The package of the backend.
const STORE: &str = "windlass-etcd";
/// Maximum time for a cluster to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the tests.
pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    let peers = match args {
        [] => peers::folder(),
        ["--peers", folder] => PathBuf::from(folder),
        _ => bail!("{USAGE}"),
    };
    let etcd = peers::find(&peers, "etcd")?;
    let folder = peers::target().join("etcd");
    for members in [1, 3] {
        println!("\nthe suite of stores, with {members} of etcd");
        let cluster = Cluster::start(&etcd, &folder.join(members.to_string()), members)?;
        test(STORE, "etcd", "", &[("ETCD_SERVERS", &cluster.servers())])?;
        println!("\nthree API servers, with {members} of etcd");
        test("windlass-cli", "replicas", "", &[("ETCD_SERVERS", &cluster.servers())])?;
        println!("\nmigrations, with {members} of etcd");
        test("windlass-cli", "it", "store::", &[("ETCD_SERVERS", &cluster.servers())])?;
    }
    let program = [("ETCD_PROGRAM", &*etcd.to_string_lossy())];
    println!("\ncertificates");
    test(STORE, "tls", "", &program)?;
    println!("\nalarms and limits");
    test("windlass-cli", "alarms", "", &program)?;
    println!("\nmembers that are killed or paused");
    test(STORE, "faults", "", &program)
}

/// Runs the ignored tests of a target whose names contain `filter`.
fn test(package: &str, name: &str, filter: &str, variables: &[(&str, &str)]) -> anyhow::Result<()> {
    let mut command = Command::new(cargo::program());
    command.args([
        "test",
        "--quiet",
        "--package",
        package,
        "--test",
        name,
        "--",
        filter,
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).envs(variables.iter().copied());
    ensure!(cargo::forget(&mut command).status().context("cannot run cargo")?.success(), "the tests in {name} failed");
    Ok(())
}

/// Members of a cluster on the loopback address, which end with this.
struct Cluster {
    members: Vec<(Child, u16)>,
}

impl Cluster {
    fn start(etcd: &Path, folder: &Path, count: usize) -> anyhow::Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let ports = free_ports(2 * count)?;
        let (client_ports, peer_ports) = ports.split_at(count);
        let peer = |number: usize| format!("m{number}=http://127.0.0.1:{}", peer_ports[number]);
        let all = (0..count).map(peer).collect::<Vec<_>>().join(",");
        let mut cluster = Self { members: Vec::new() };
        for (number, port) in client_ports.iter().enumerate() {
            let (client, name) = (format!("http://127.0.0.1:{port}"), format!("m{number}"));
            let peer = format!("http://127.0.0.1:{}", peer_ports[number]);
            let log = File::create(folder.join(format!("{name}.log")))?;
            let mut command = Command::new(etcd);
            command.args(["--name", &name, "--initial-cluster", &all, "--log-level", "warn"]).arg("--data-dir");
            command.arg(folder.join(&name)).args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            let child = command.stdout(log.try_clone()?).stderr(log).spawn().context("cannot run etcd")?;
            cluster.members.push((child, *port));
        }
        cluster.wait(folder)?;
        Ok(cluster)
    }

    fn wait(&mut self, folder: &Path) -> anyhow::Result<()> {
        let deadline = Instant::now() + LISTEN_TIMEOUT;
        for (child, port) in &mut self.members {
            while TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_err() {
                let ended = child.try_wait()?.is_some();
                ensure!(
                    !ended && Instant::now() < deadline,
                    "etcd does not start; see the logs in {}",
                    folder.display()
                );
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    fn servers(&self) -> String {
        self.members.iter().map(|(_, port)| format!("http://127.0.0.1:{port}")).collect::<Vec<_>>().join(",")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (child, _) in &mut self.members {
            // It has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns ports that are free now.
fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    let listeners: Result<Vec<_>, _> = (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect();
    let ports: Result<Vec<u16>, _> = listeners?.iter().map(|listener| Ok(listener.local_addr()?.port())).collect();
    ports
}
