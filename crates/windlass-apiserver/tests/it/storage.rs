//! Requests while the store cannot write, or has compacted its history.

use std::sync::Arc;

use windlass_store::{Error, Store as _, memory::MemoryStore, snapshot::Decoder};

use crate::{
    client::{CONFIG_MAPS, Client, config_map, names},
    test_store::TestStore,
};

#[tokio::test]
async fn a_full_disk_fails_writes_with_a_status_and_leaves_reads_alone() {
    let store = Arc::new(TestStore::default());
    let client = Client::over(store.clone()).await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    store.reject(|_| true);
    for answer in [
        client.post(CONFIG_MAPS, &config_map("b")).await,
        client.merge(&format!("{CONFIG_MAPS}/a"), &serde_json::json!({"data": {"a": "2"}})).await,
        client.delete(&format!("{CONFIG_MAPS}/a")).await,
    ] {
        assert_eq!((answer.code, answer.json()["reason"].as_str()), (500, Some("InternalError")));
        assert!(answer.message().contains("no space left on device"), "{}", answer.message());
    }
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/a")).await.expect(200)["data"]["a"], "1");
}

#[tokio::test]
async fn health_endpoints_fail_while_the_store_cannot_write_and_recover_with_it() {
    let store = Arc::new(TestStore::default());
    let client = Client::over(store.clone()).await;
    let text = async |path: &str| {
        let answer = client.get(path).await;
        (answer.code, String::from_utf8(answer.raw.to_vec()).unwrap())
    };
    let (code, ready) = text("/readyz?verbose").await;
    assert!(code == 200 && ready.starts_with("[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n"), "{ready}");
    assert!(ready.ends_with("[+]shutdown ok\nreadyz check passed\n"), "{ready}");
    let (code, live) = text("/livez?verbose").await;
    assert!(code == 200 && live.starts_with("[+]ping ok\n[+]log ok\n[+]loopback-serving-certificate ok\n"), "{live}");
    assert_eq!(text("/healthz/etcd").await, (200, "ok".to_owned()));
    assert_eq!(text("/healthz/etcd-readiness").await.0, 404);

    store.reject(|_| true);
    let failed = |text: &str, checks: &[&str]| {
        let text = text.replace("check passed", "check failed");
        checks.iter().fold(text, |text, check| {
            text.replace(&format!("[+]{check} ok"), &format!("[-]{check} failed: reason withheld"))
        })
    };
    assert_eq!(text("/healthz").await, (500, failed(&live, &["etcd"]).replace("livez", "healthz")));
    assert_eq!(text("/livez?verbose").await, (500, failed(&live, &["etcd"])));
    assert_eq!(text("/readyz").await, (500, failed(&ready, &["etcd", "etcd-readiness"])));
    assert_eq!(text("/livez?exclude=etcd").await, (200, "ok".to_owned()));
    let (code, why) = text("/readyz/etcd-readiness").await;
    assert!(code == 500 && why.contains("no space left on device"), "{code} {why}");

    store.accept();
    assert_eq!(text("/readyz?verbose").await, (200, ready.clone()));
}

#[tokio::test]
async fn metrics_have_the_sizes_of_the_store() {
    let store = Arc::new(TestStore::default());
    let metrics = Client::over(store).await.get("/metrics").await;
    let metrics = String::from_utf8(metrics.raw.to_vec()).unwrap();
    for line in [
        "apiserver_storage_size_bytes{storage_cluster_id=\"etcd-0\"} 4096\n",
        "etcd_mvcc_db_total_size_in_use_in_bytes 1000\n",
        "etcd_server_quota_backend_bytes 2000\n",
        "windlass_store_available_bytes 77\n",
    ] {
        assert!(metrics.contains(line), "{line} is missing from {metrics}");
    }
}

#[tokio::test]
async fn a_used_quota_is_reported_with_the_message_of_etcd() {
    let status = windlass_apiserver::status::ApiError::from(Error::NoSpace).to_status();
    assert_eq!((&status["code"], &status["reason"]), (&500.into(), &serde_json::Value::Null));
    assert_eq!(status["message"], "etcdserver: mvcc: database space exceeded");
}

#[tokio::test]
async fn the_administrator_can_save_a_snapshot() {
    let client = Client::new().await;
    for name in ["a", "b"] {
        client.post(CONFIG_MAPS, &config_map(name)).await.expect(201);
    }
    let answer = client.get("/windlass/snapshot").await;
    assert_eq!((answer.code, answer.headers["content-type"].to_str().unwrap()), (200, "application/octet-stream"));
    let mut decoder = Decoder::new(&answer.raw[..]).unwrap();
    let mut keys = Vec::new();
    while let Some(entry) = decoder.next_entry().unwrap() {
        keys.push(entry.key.to_string());
    }
    assert!(keys.contains(&"/core/configmaps/default/b".to_owned()), "{keys:?}");
    let denied = client.ask_as("eve", "/windlass/snapshot").await;
    assert_eq!(denied.code, 403);
    assert_eq!(denied.message(), "forbidden: User \"eve\" cannot get path \"/windlass/snapshot\"");
}

#[tokio::test]
async fn a_page_of_a_compacted_revision_says_how_to_continue() {
    let store = Arc::new(MemoryStore::new());
    let client = Client::over(store.clone()).await;
    for name in ["a", "b", "c"] {
        client.post(CONFIG_MAPS, &config_map(name)).await.expect(201);
    }
    let first = client.get(&format!("{CONFIG_MAPS}?limit=1")).await.expect(200);
    client.post(CONFIG_MAPS, &config_map("d")).await.expect(201);
    store.compact(store.revision().await.unwrap()).await.unwrap();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let gone = client.get(&format!("{CONFIG_MAPS}?limit=1&continue={token}")).await;
    assert_eq!((gone.code, gone.json()["reason"].as_str()), (410, Some("Expired")));
    let token = gone.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = client.get(&format!("{CONFIG_MAPS}?continue={token}")).await.expect(200);
    assert_eq!(names(&rest), ["b", "c", "d"]);
}

#[tokio::test]
async fn a_watch_on_the_store_that_is_cut_off_is_resumed_without_a_client_noticing() {
    let store = Arc::new(TestStore::default());
    let client = Client::over(store.clone()).await;
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    let is_of_everything = |options: &&windlass_store::ListOptions| options.prefix.is_empty();
    let lists = || store.lists.lock().iter().filter(is_of_everything).count();
    let before = lists();
    for name in ["a", "b", "c"] {
        store.interrupt_watches();
        client.post(CONFIG_MAPS, &config_map(name)).await.expect(201);
        assert_eq!(client.get(&format!("{CONFIG_MAPS}/{name}")).await.expect(200)["metadata"]["name"], name);
        assert_eq!(events.brief().await, format!("ADDED {name}"));
    }
    assert_eq!((before, lists()), (1, 1), "the store must be listed only at the start");
}

#[tokio::test]
async fn errors_of_etcd_reach_the_client_as_they_are() {
    let errors: [fn() -> Error; 4] = [
        || Error::Unavailable { cause: "etcdserver: no leader".to_owned() },
        || Error::Unknown { cause: "etcdserver: request timed out".to_owned() },
        || Error::TooLarge { cause: "etcdserver: request is too large".to_owned() },
        || Error::NoSpace,
    ];
    let expected = ["no leader", "request timed out", "request is too large", "mvcc: database space exceeded"];
    let store = Arc::new(TestStore::default());
    let client = Client::over(store.clone()).await;
    for (error, expected) in errors.into_iter().zip(expected) {
        store.fail_writes(error);
        let answer = client.post(CONFIG_MAPS, &config_map("a")).await;
        assert_eq!((answer.code, answer.message()), (500, format!("etcdserver: {expected}")));
        assert_eq!(answer.json().get("reason"), None);
    }
}
