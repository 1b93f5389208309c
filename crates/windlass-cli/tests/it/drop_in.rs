//! The programs of `windlass assets`, as envtest starts them.

mod flags;
mod pair;

use std::{fs, net::TcpListener, path::Path, process::Command, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};

use self::pair::{Etcd, KubeApiserver, Pair, assets, entry};
use crate::process::{output, windlass};

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let output = output(command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

#[test]
fn assets_are_links_to_this_program_and_foreign_files_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (tools, directory) = (folder.path().join("tools"), folder.path().join("assets"));
    fs::create_dir(&tools).unwrap();
    let call = |arguments: &[&str]| run(windlass().env("PATH", &tools).arg("assets").arg(&directory).args(arguments));
    let (code, stdout, stderr) = call(&["--dry-run"]);
    assert_eq!((code, directory.exists()), (Some(0), false), "{stderr}");
    assert_eq!(stdout, format!("export KUBEBUILDER_ASSETS={}\n", directory.display()));
    let (code, _, stderr) = call(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("there is no kubectl in the PATH"), "{stderr}");
    for name in ["kube-apiserver", "etcd"] {
        let target = fs::read_link(directory.join(name)).unwrap();
        assert_eq!(target, Path::new(env!("CARGO_BIN_EXE_windlass")).canonicalize().unwrap(), "{name}");
    }
    // A kubectl that is found later is added; nothing else is written again.
    let kubectl = tools.join("kubectl");
    fs::copy("/bin/true", &kubectl).unwrap();
    let (code, _, stderr) = call(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stderr, format!("{}: linked to {}\n", directory.join("kubectl").display(), kubectl.display()));

    let real = directory.join("etcd");
    fs::remove_file(&real).unwrap();
    fs::write(&real, "the real one").unwrap();
    let (code, _, stderr) = call(&[]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("already exists") && stderr.contains("--force"), "{stderr}");
    assert_eq!(fs::read_to_string(&real).unwrap(), "the real one");
    let (code, _, stderr) = call(&["--force"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(fs::read_link(&real).is_ok());
}

#[test]
fn the_programs_are_asked_for_their_flags_as_envtest_does() {
    let assets = assets();
    let has = |text: &str, flag: &str| text.lines().any(|line| line.trim_start().starts_with(flag));
    let (code, stdout, _) = run(entry(&assets, "kube-apiserver").arg("--help"));
    assert_eq!(code, Some(0));
    assert!(has(&stdout, "--secure-port") && !has(&stdout, "--insecure-port"), "{stdout}");
    let (code, stdout, _) = run(entry(&assets, "etcd").arg("--help"));
    assert_eq!(code, Some(0));
    assert!(has(&stdout, "--unsafe-no-fsync"), "{stdout}");
    let (code, stdout, _) = run(entry(&assets, "kube-apiserver").arg("--version"));
    assert_eq!((code, stdout.as_str()), (Some(0), "Kubernetes v1.36.4\n"));
}

#[test]
fn unknown_flags_end_the_programs_as_in_kubernetes() {
    let assets = assets();
    let (code, _, stderr) = run(entry(&assets, "kube-apiserver").arg("--foo"));
    assert_eq!((code, stderr.as_str()), (Some(1), "Error: unknown flag: --foo\n"));
    let (code, _, stderr) = run(entry(&assets, "etcd").arg("--foo"));
    assert_eq!(code, Some(2));
    assert!(stderr.starts_with("flag provided but not defined: -foo\n"), "{stderr}");
}

#[tokio::test]
async fn objects_survive_the_api_server_as_long_as_etcd_keeps_its_data() {
    let mut pair = Pair::start(&assets());
    let maps: Api<ConfigMap> = Api::default_namespaced(pair.admin().await);
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    let (exit, took) = pair.server.stop("TERM");
    assert_eq!(exit.code(), Some(0));
    assert!(took < Duration::from_secs(5), "{took:?}");
    pair.restart_server();
    let maps: Api<ConfigMap> = Api::default_namespaced(pair.admin().await);
    maps.get("a").await.unwrap();
    maps.create(&PostParams::default(), &map("b")).await.unwrap();
    // Without a warning, as the Java frameworks stop it.
    let (exit, _) = pair.server.stop("KILL");
    assert_eq!(exit.code(), None);
    pair.restart_server();
    let maps: Api<ConfigMap> = Api::default_namespaced(pair.admin().await);
    maps.get("b").await.unwrap();
    // An etcd that is started again with the same data has the same objects, one with other data has none.
    let (exit, _) = pair.server.stop("TERM");
    assert_eq!(exit.code(), Some(0));
    let (exit, _) = pair.etcd.stop("TERM");
    assert_eq!(exit.code(), Some(0));
    pair.restart_etcd();
    pair.restart_server();
    let maps: Api<ConfigMap> = Api::default_namespaced(pair.admin().await);
    assert_eq!(maps.list(&Default::default()).await.unwrap().items.len(), 2);
}

#[tokio::test]
async fn concurrent_control_planes_have_their_own_objects() {
    let assets = assets();
    let pairs: Vec<Pair> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..3).map(|_| scope.spawn(|| Pair::start(&assets))).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    for (number, pair) in pairs.iter().enumerate() {
        let maps: Api<ConfigMap> = Api::default_namespaced(pair.admin().await);
        maps.create(&PostParams::default(), &map(&format!("of-{number}"))).await.unwrap();
    }
    for (number, pair) in pairs.iter().enumerate() {
        let maps: Api<ConfigMap> = Api::default_namespaced(pair.admin().await);
        let names: Vec<_> = maps.list(&Default::default()).await.unwrap().items;
        let names: Vec<_> = names.into_iter().filter_map(|map| map.metadata.name).collect();
        assert_eq!(names, [format!("of-{number}")]);
    }
}

#[tokio::test]
async fn an_api_server_waits_for_an_etcd_that_starts_after_it() {
    let assets = assets();
    let files = pair::files();
    let port = pair::free_port();
    let mut server = KubeApiserver::spawn(&assets, files.path(), port, &[]);
    assert!(!server.has_ended());
    let etcd = Etcd::start(&assets, files.path(), port);
    server.wait_until_serving();
    drop(etcd);
}

#[test]
fn a_port_in_use_is_an_error_of_kubernetes() {
    let assets = assets();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap();
    let problem = format!("listen tcp {address}: bind: address already in use");
    let files = pair::files();
    let etcd = Etcd::start(&assets, files.path(), 0);
    let server = KubeApiserver::spawn_at(&assets, files.path(), address.port(), etcd.port(), &[]);
    let (exit, log) = server.ended();
    assert_eq!(exit.code(), Some(1));
    assert!(log.contains(&format!("failed to listen on {address}: {problem}")), "{log}");
    let urls = format!("--listen-client-urls=http://{address}");
    let (code, _, stderr) = run(entry(&assets, "etcd")
        .args(["--listen-peer-urls=http://127.0.0.1:0", &urls, "--data-dir"])
        .arg(files.path().join("other")));
    assert_eq!(code, Some(1));
    assert!(stderr.contains(&problem), "{stderr}");
}

#[test]
fn the_etcd_of_another_program_is_an_error_with_a_hint() {
    use std::io::{Read as _, Write as _};
    let other = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = other.local_addr().unwrap().port();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).unwrap();
        stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
    });
    let files = pair::files();
    let (exit, log) = KubeApiserver::spawn(&assets(), files.path(), port, &[]).ended();
    answering.join().unwrap();
    assert_eq!(exit.code(), Some(1));
    assert!(log.contains("is not that of windlass") && log.contains("hint: start both programs"), "{log}");
}

#[tokio::test]
async fn flags_without_an_effect_are_named_in_one_line_and_loops_are_switched_on_by_a_variable() {
    let mut pair = Pair::start_with(
        &assets(),
        &["--event-ttl=2h", "--cors-allowed-origins=a"],
        &[("WINDLASS_CONTROLLERS", "serviceaccount-controller")],
    );
    let client = pair.admin().await;
    // A loop creates it.
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::default_namespaced(client);
    while accounts.get_opt("default").await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (exit, _) = pair.server.stop("TERM");
    assert_eq!(exit.code(), Some(0));
    let log = pair.server.log();
    let warnings: Vec<&str> = log.lines().filter(|line| line.starts_with('W')).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(
        warnings[0].ends_with("these flags have no effect in windlass: --cors-allowed-origins, --event-ttl"),
        "{log}"
    );
}
