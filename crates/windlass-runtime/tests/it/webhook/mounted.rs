use std::{
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::StatusCode;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use windlass_runtime::{
    metrics::Metrics,
    webhook::{CertificateFiles, Certificates, Denied, Request, ServeError, Webhook, WebhookOptions, Webhooks},
};

use super::{
    Authority, Caller, Served,
    foo::{Foo, admission, foo},
};
use crate::cluster::eventually;

const VALIDATE: &str = "/validate-webhook-windlass-example-v1-foo";

fn webhooks() -> Webhooks {
    Webhooks::new().add(Webhook::<Foo>::new().validate(|_: &Request<Foo>| Ok::<_, Denied>(())))
}

fn options(folder: &TempDir) -> WebhookOptions {
    let mut files = CertificateFiles::in_directory(folder.path());
    files.every = Duration::from_millis(5);
    WebhookOptions::new(Certificates::Files(files))
}

/// Writes a volume as a kubelet does: files in a separate directory, and a link to it that is swapped at once.
fn mount(folder: &Path, generation: usize, certificate: &str, key: &str) {
    let data = folder.join(format!("..{generation}"));
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("tls.crt"), certificate).unwrap();
    std::fs::write(data.join("tls.key"), key).unwrap();
    symlink(format!("..{generation}"), folder.join("..data_tmp")).unwrap();
    std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    for file in ["tls.crt", "tls.key"] {
        let _ = symlink(format!("..data/{file}"), folder.join(file));
    }
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

async fn shown(caller: &Caller) -> CertificateDer<'static> {
    caller.connect().await.unwrap().1
}

fn count(metrics: &Metrics, name: &str) -> u64 {
    let text = metrics.encode();
    let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_replaced_under_load_without_a_failed_request() {
    let authority = Authority::new();
    let folder = TempDir::new().unwrap();
    let (certificate, key) = authority.issue("127.0.0.1");
    mount(folder.path(), 0, &certificate, &key);
    let served = Served::start(webhooks(), options(&folder)).await;
    let caller = Caller::new(served.address, &authority.pem());

    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let review = admission("CREATE", foo(json!({})), Value::Null);
    let mut load = JoinSet::new();
    for lasting in [true, true, false, false] {
        let (caller, review, stop, answered) = (caller.clone(), review.clone(), stop.clone(), answered.clone());
        load.spawn(async move {
            let (mut connection, _) = caller.connect().await.unwrap();
            while !stop.load(Ordering::Relaxed) {
                if !lasting {
                    (connection, _) = caller.connect().await.unwrap();
                }
                let (status, _) = connection.post(VALIDATE, &review).await.unwrap();
                assert_eq!(status, StatusCode::OK);
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    for generation in 1..6 {
        let (certificate, key) = authority.issue("127.0.0.1");
        mount(folder.path(), generation, &certificate, &key);
        let seen = eventually("new connections see the new certificate", async || {
            (shown(&caller).await == der(&certificate)).then(|| answered.load(Ordering::Relaxed))
        });
        let seen = seen.await;
        eventually("requests continue", async || (answered.load(Ordering::Relaxed) > seen + 20).then_some(())).await;
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = load.join_next().await {
        ended.unwrap();
    }
    assert_eq!(count(&served.metrics, "certwatcher_read_certificate_errors_total"), 0);
}

#[tokio::test]
async fn broken_files_leave_the_old_certificate() {
    let authority = Authority::new();
    let folder = TempDir::new().unwrap();
    let (good, good_key) = authority.issue("127.0.0.1");
    mount(folder.path(), 0, &good, &good_key);
    let served = Served::start(webhooks(), options(&folder)).await;
    let caller = Caller::new(served.address, &authority.pem());
    let (other, other_key) = authority.issue("127.0.0.1");

    let broken = [(other.as_str(), good_key.as_str()), ("", ""), ("junk", other_key.as_str()), (&other, "junk")];
    for (generation, (certificate, key)) in broken.into_iter().enumerate() {
        let errors = count(&served.metrics, "certwatcher_read_certificate_errors_total");
        mount(folder.path(), generation + 1, certificate, key);
        eventually("the files were rejected", async || {
            (count(&served.metrics, "certwatcher_read_certificate_errors_total") > errors).then_some(())
        })
        .await;
        assert_eq!(shown(&caller).await, der(&good));
    }
    std::fs::remove_file(folder.path().join("..data")).unwrap();
    let reads = count(&served.metrics, "certwatcher_read_certificate_total");
    eventually("missing files are looked for", async || {
        (count(&served.metrics, "certwatcher_read_certificate_total") > reads + 1).then_some(())
    })
    .await;
    assert_eq!(shown(&caller).await, der(&good));

    mount(folder.path(), 9, &other, &other_key);
    eventually("good files are shown again", async || (shown(&caller).await == der(&other)).then_some(())).await;
}

#[tokio::test]
async fn without_a_first_certificate_there_is_no_server() {
    let folder = TempDir::new().unwrap();
    let mut options = options(&folder);
    options.address.set_port(0);
    let failed = webhooks().bind(options, &Metrics::new()).await;
    assert!(matches!(failed, Err(ServeError::Files(_))));
}
