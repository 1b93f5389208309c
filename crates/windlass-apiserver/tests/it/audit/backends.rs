//! The log: its modes, and what happens if it cannot be written.

use std::{
    fs::{File, OpenOptions},
    path::Path,
    sync::Arc,
    time::Duration,
};

use http::Request;
use rustix::fs::{CWD, FileType, Mode as FileMode, mknodat};
use windlass_apiserver::{
    BuildError, Server,
    audit::{AuditOptions, Batching, LogFormat, LogOptions, Mode, Truncation},
    user::User,
};
use windlass_store::memory::MemoryStore;

use super::{Audited, policy};
use crate::client::{CONFIG_MAPS, Client, config_map};

async fn server(log: LogOptions) -> Client {
    // Not the requests of the server itself, which cannot start if they fail.
    let policy = policy("rules: [{level: RequestResponse, users: [admin]}]");
    let options = AuditOptions { policy, log: Some(log), webhook: None };
    Client::of(Server::builder(Arc::new(MemoryStore::new())).audit(options).build().await.unwrap())
}

/// Returns the value of a metric.
async fn metric(client: &Client, name: &str) -> u64 {
    let text = client.get("/metrics").await.raw;
    let text = String::from_utf8(text.to_vec()).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Creates a pipe that no process reads.
fn stuck_pipe(path: &Path) -> File {
    mknodat(CWD, path, FileType::Fifo, FileMode::RUSR | FileMode::WUSR, 0).unwrap();
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[tokio::test]
async fn requests_do_not_wait_for_a_log_that_hangs_and_lost_events_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let pipe = stuck_pipe(&path);
    let batching = Batching { buffer_bytes: 16 << 10, ..Batching::default() };
    let client = server(LogOptions { batching, ..LogOptions::new(&path) }).await;
    let requests = async {
        for _ in 0..500 {
            client.get(CONFIG_MAPS).await.expect(200);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), requests).await.expect("requests that do not wait");
    let lost = metric(&client, "apiserver_audit_error_total{plugin=\"buffered\"}").await;
    let all = metric(&client, "apiserver_audit_event_total").await;
    assert!(lost > 0 && lost < all, "{lost} of {all}");
    drop(pipe);
}

#[tokio::test]
async fn a_disk_that_is_full_fails_requests_only_in_the_strict_mode() {
    for (mode, code) in [(Mode::Batch, 200), (Mode::Blocking, 200), (Mode::BlockingStrict, 500)] {
        let client = server(LogOptions { mode, ..LogOptions::new("/dev/full") }).await;
        let answer = client.get(CONFIG_MAPS).await;
        assert_eq!(answer.code, code, "{mode:?}");
        if code == 500 {
            let text = format!("Internal Server Error: \"{CONFIG_MAPS}\": failed to store audit event\n");
            assert_eq!(answer.raw, text);
            continue;
        }
        client.server.flush_audit().await;
        assert!(metric(&client, "apiserver_audit_error_total{plugin=\"log\"}").await >= 2, "{mode:?}");
        assert_eq!(metric(&client, "apiserver_audit_requests_rejected_total").await, 0);
    }
}

#[tokio::test]
async fn in_a_blocking_mode_events_are_written_when_the_response_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let client = server(LogOptions { mode: Mode::Blocking, ..LogOptions::new(&path) }).await;
    for count in 1..20 {
        let answer = client.ask(http::Method::GET, CONFIG_MAPS, &[("audit-id", "mine")], "").await;
        assert_eq!(answer.code, 200);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("\"auditID\":\"mine\",\"stage\":\"ResponseComplete\"").count(), count);
    }
}

#[tokio::test]
async fn large_events_lose_their_objects_and_larger_ones_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let truncation = Some(Truncation { max_event_size: 4 << 10, ..Truncation::default() });
    let client = server(LogOptions { truncation, ..LogOptions::new(&path) }).await;
    let mut large = config_map("large");
    large["data"]["a"] = "x".repeat(4 << 10).into();
    client.post(CONFIG_MAPS, &config_map("small")).await.expect(201);
    client.post(CONFIG_MAPS, &large).await.expect(201);
    let query = "x".repeat(4 << 10);
    client.get(&format!("{CONFIG_MAPS}?y={query}")).await.expect(200);
    client.server.flush_audit().await;
    let text = std::fs::read_to_string(&path).unwrap();
    let events: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let created = |name: &str| {
        let event =
            events.iter().find(|event| event["stage"] == "ResponseComplete" && event["objectRef"]["name"] == *name);
        let event = event.unwrap();
        (event["requestObject"].is_object(), event["annotations"]["audit.k8s.io/truncated"] == "true")
    };
    assert_eq!((created("small"), created("large")), ((true, false), (false, true)));
    assert!(!text.contains(&query));
    assert_eq!(metric(&client, "apiserver_audit_error_total{plugin=\"truncate\"}").await, 2);
}

#[tokio::test]
async fn the_legacy_format_is_a_line_of_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let client = server(LogOptions { format: LogFormat::Legacy, ..LogOptions::new(&path) }).await;
    client.ask(http::Method::GET, CONFIG_MAPS, &[("audit-id", "mine"), ("user-agent", "me")], "").await.expect(200);
    client.server.flush_audit().await;
    let text = std::fs::read_to_string(&path).unwrap();
    let line = text.lines().rfind(|line| line.contains("id=\"mine\"")).unwrap();
    let (time, rest) = line.split_once(' ').unwrap();
    time.parse::<jiff::Timestamp>().unwrap();
    assert_eq!(
        rest,
        "AUDIT: id=\"mine\" stage=\"ResponseComplete\" ip=\"<unknown>\" method=\"list\" user=\"admin\" \
         groups=\"\\\"system:masters\\\",\\\"system:authenticated\\\"\" as=\"<self>\" asgroups=\"<lookup>\" \
         user-agent=\"me\" namespace=\"default\" uri=\"/api/v1/namespaces/default/configmaps\" response=\"200\""
    );
}

#[tokio::test]
async fn a_server_does_not_start_without_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = Some(LogOptions::new(folder.path()));
    let options = AuditOptions { policy: policy("rules: [{level: Metadata}]"), log, webhook: None };
    let built = Server::builder(Arc::new(MemoryStore::new())).audit(options).build().await;
    assert!(matches!(built.err(), Some(BuildError::Audit(_))));
}

#[tokio::test]
async fn levels_are_counted_per_request() {
    let audited = Audited::new("rules: [{level: None, verbs: [get]}, {level: Metadata}]").await;
    let before = metric(&audited.client, "apiserver_audit_level_total{level=\"Metadata\"}").await;
    for _ in 0..3 {
        let response = audited.send(Some(User::admin()), Request::get(CONFIG_MAPS), "").await;
        assert_eq!(response.status(), 200);
    }
    assert_eq!(metric(&audited.client, "apiserver_audit_level_total{level=\"Metadata\"}").await, before + 3);
    assert!(metric(&audited.client, "apiserver_audit_level_total{level=\"None\"}").await >= 2);
}
