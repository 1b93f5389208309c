//! What surrounds the processes of a pod: the proxy, ephemeral containers, volumes in memory, and its own root.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_reached_through_the_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    machine.create(shell("p", SLEEP)).await;
    let status = machine.phase("p", "Running").await;
    let address: std::net::Ipv4Addr = status["podIP"].as_str().unwrap().parse().unwrap();
    let listener = tokio::net::TcpListener::bind((address, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let response = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 17\r\n\r\n<a href=\"/next\">n";
        stream.write_all(response.as_bytes()).await.unwrap();
        String::from_utf8(head).unwrap()
    });
    let proxy = format!("/api/v1/namespaces/default/pods/p:{port}/proxy");
    let get = |path: &str| http::Request::get(format!("{proxy}{path}")).body(Vec::new()).unwrap();
    let page = machine.client.request_text(get("/a?b=c")).await.unwrap();
    assert_eq!(page, format!("<a href=\"{proxy}/next\">n"));
    let head = server.await.unwrap();
    assert!(head.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("x-forwarded-uri: {proxy}/a\r\n")), "{head}");
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ephemeral_container_runs_beside_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    machine.create(shell("p", SLEEP)).await;
    machine.phase("p", "Running").await;
    let container =
        |name: &str, script: &str| json!({"name": name, "image": "busybox", "command": ["sh", "-c", script]});
    let added = json!({"spec": {"ephemeralContainers": [
        container("debug", &format!("echo hello; {SLEEP}")), container("short", "exit 3")]}});
    let pods = machine.pods();
    pods.patch_ephemeral_containers("p", &PatchParams::default(), &Patch::Strategic(added)).await.unwrap();
    let state = |status: &Value, index: usize| status["ephemeralContainerStatuses"][index]["state"].clone();
    let status = machine.when("p", "runs them", |status| {
        state(status, 0).get("running").is_some() && state(status, 1).get("terminated").is_some()
    });
    let status = status.await;
    assert_eq!((&status["phase"], &state(&status, 1)["terminated"]["exitCode"]), (&json!("Running"), &json!(3)));
    assert_eq!(status["containerStatuses"].as_array().unwrap().len(), 1);
    let of_debug = || LogParams { container: Some("debug".to_owned()), ..LogParams::default() };
    let log = eventually("the log", async || {
        let log = pods.logs("p", &of_debug()).await.unwrap();
        (!log.is_empty()).then_some(log)
    });
    assert_eq!(log.await, "hello\n");
    let params = AttachParams::default().container("debug").stdout(true).stderr(false);
    let mut process = pods.exec("p", ["echo", "there"], &params).await.unwrap();
    let mut output = String::new();
    process.stdout().unwrap().read_to_string(&mut output).await.unwrap();
    assert_eq!(output, "there\n");
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    eventually("the pod is gone", async || pods.get_opt("p").await.unwrap().is_none().then_some(())).await;
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_in_memory_is_removed_with_its_pod() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    let container = |name: &str, script: &str| {
        json!({"name": name, "image": "busybox", "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]})
    };
    let wait = "until [ -e /cache/a ]; do sleep 0.02; done; echo $WINDLASS_VOLUME_CACHE";
    let mut both = shell("p", "");
    both["spec"]["containers"] = json!([container("main", "echo 1 > /cache/a"), container("other", wait)]);
    both["spec"]["volumes"] = json!([{"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]);
    machine.create(both).await;
    machine.phase("p", "Succeeded").await;
    let params = LogParams { container: Some("other".to_owned()), ..LogParams::default() };
    let log = machine.pods().logs("p", &params).await.unwrap();
    let volume = Path::new(log.trim());
    assert!(volume.join("a").exists(), "{log}");
    machine.pods().delete("p", &DeleteParams::default()).await.unwrap();
    eventually("the volume is gone", async || (!volume.exists()).then_some(())).await;
    machine.stop().await;
}

/// Copies a program with its libraries into a root directory.
fn install(program: &str, root: &Path) {
    let target = root.join(program.trim_start_matches('/'));
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    std::fs::copy(program, target).unwrap();
    let libraries = std::process::Command::new("ldd").arg(program).output().unwrap();
    let libraries = String::from_utf8(libraries.stdout).unwrap();
    for library in libraries.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/'))) {
        let target = root.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(library, target).unwrap();
    }
}

/// Returns whether this machine has what roots need.
fn has_namespaces() -> bool {
    let arguments = ["--map-root-user", "--mount", "--uts", "true"];
    std::process::Command::new("unshare").args(arguments).status().is_ok_and(|status| status.success())
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_of_an_image_do_not_see_changes_of_each_other() {
    if !has_namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    for program in ["/bin/sh", "/bin/cat", "/bin/sleep", "/bin/mkdir"] {
        install(program, &image);
    }
    let entry = format!(
        "images:\n- image: tools\n  root: {}\n  env: {{PATH: '/bin:/usr/bin:/sbin:/usr/sbin'}}\n",
        image.display()
    );
    std::fs::write(folder.path().join("images.yaml"), entry).unwrap();
    let machine = Machine::start(folder.path()).await;
    let run = |script: &str, more: Value| {
        let mut container = json!({"image": "tools", "command": ["/bin/sh", "-c", script]});
        container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        container
    };
    let once = json!({"restartPolicy": "Never", "hostAliases": [{"ip": "10.0.0.7", "hostnames": ["a.example"]}]});
    let script = "mkdir -p /path && echo 1 > /path/file && cat /proc/sys/kernel/hostname /etc/hosts";
    machine.create(pod("first", run(script, json!({})), once.clone())).await;
    machine.phase("first", "Succeeded").await;
    let log = machine.log("first").await;
    assert!(log.starts_with("first\n") && log.ends_with("10.0.0.7\ta.example\n"), "{log}");
    assert!(!image.join("path").exists() && !image.join("etc/hosts").exists());
    let wait = format!("echo 2 > /path && {SLEEP}");
    machine.create(pod("second", run(&wait, json!({})), once.clone())).await;
    machine.phase("second", "Running").await;
    let shown = eventually("its file", async || {
        let (output, code) = machine.exec("second", &["cat", "/path"], None).await;
        (code == 0).then_some(output)
    });
    assert_eq!(shown.await, "2\n");
    let read_only = json!({"securityContext": {"readOnlyRootFilesystem": true}});
    machine.create(pod("third", run("echo 3 > /file", read_only), once)).await;
    machine.phase("third", "Failed").await;
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecars_end_in_the_reverse_order_of_their_start() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    let order = folder.path().join("order");
    let sidecar = |name: &str, last: &str| {
        let script =
            format!("trap '{last}echo {name} >> {}; exit 0' TERM; while :; do sleep 0.02; done", order.display());
        json!({"name": name, "image": "busybox", "command": ["sh", "-c", script], "restartPolicy": "Always"})
    };
    let spec = json!({
        "restartPolicy": "Never",
        // The second one takes longer, and still ends first.
        "initContainers": [sidecar("first", ""), sidecar("second", "sleep 0.3; ")],
        "containers": [{"name": "main", "image": "busybox", "command": ["true"]}],
    });
    machine.create(json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let ended = async || std::fs::read_to_string(&order).ok().filter(|text| text.lines().count() == 2);
    assert_eq!(eventually("both have ended", ended).await, "second\nfirst\n");
    machine.stop().await;
}
