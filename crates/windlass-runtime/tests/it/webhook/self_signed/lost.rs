//! A replica that is lost while it renews certificates: the remaining one continues from there.

use http::Method;

use super::*;
use crate::faults::{Fault, Faults, Seen};

/// Where a replica stops and is lost: before or after a write.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// It has issued certificates, but not stored them.
    BeforeTheSecret,
    /// The Secret has them, and it does not know.
    AfterTheSecret,
    /// The Secret has them; the bundle does not contain the new CA.
    BeforeTheBundle,
    /// The bundle is written; it still uses the old certificate.
    AfterTheBundle,
}

impl Moment {
    fn request(self) -> fn(&Seen) -> bool {
        match self {
            Self::BeforeTheSecret | Self::AfterTheSecret => {
                |seen| seen.method == Method::PUT && seen.path.contains("/secrets/")
            }
            Self::BeforeTheBundle | Self::AfterTheBundle => {
                |seen| seen.method == Method::PATCH && seen.path.contains("/validatingwebhookconfigurations/")
            }
        }
    }

    fn fault(self) -> Fault {
        match self {
            Self::BeforeTheSecret | Self::BeforeTheBundle => Fault::Hang,
            Self::AfterTheSecret | Self::AfterTheBundle => Fault::Swallow,
        }
    }

    /// Returns whether it has been reached.
    fn has_come(self, faults: &Faults, before: usize) -> bool {
        match self.fault() {
            Fault::Swallow => faults.swallowed() > 0,
            _ => faults.count(self.request()) > before,
        }
    }
}

async fn authorities(cluster: &TestCluster) -> String {
    let secret =
        Api::<Secret>::namespaced(cluster.client(), cluster.namespace()).get("web-certificates").await.unwrap();
    String::from_utf8(secret.data.unwrap()["ca.crt"].0.clone()).unwrap()
}

/// The lost replica renews the CA, too, which takes all four steps.
async fn is_survived(moment: Moment) {
    let cluster = TestCluster::start().await;
    let configuration = Arc::new(Configuration::create(&cluster).await);
    let faults = Faults::around(cluster.client());
    let (clock, lost_clock) = (Clock::default(), Clock::default());
    let lost = certificates_with(faults.client(), &cluster, &configuration, &lost_clock);
    let lost = Served::start(webhooks(), WebhookOptions::new(lost)).await;
    let slow = Faults::around(cluster.client());
    let left = certificates_with(slow.client(), &cluster, &configuration, &clock);
    let left = Served::start(webhooks(), WebhookOptions::new(left)).await;
    let first = authorities(&cluster).await;

    let stop = Arc::new(AtomicBool::new(false));
    let mut load = JoinSet::new();
    let (asked, stopped, address) = (configuration.clone(), stop.clone(), left.address);
    load.spawn(async move {
        let mut shown = HashSet::new();
        while !stopped.load(Ordering::Relaxed) {
            shown.insert(ask(&asked, address).await);
        }
        shown
    });

    let before = faults.count(moment.request());
    faults.inject(moment.request(), 1, moment.fault());
    // The other replica must not be faster.
    slow.inject(|seen| seen.method == Method::PATCH, usize::MAX, Fault::Refuse);
    // Two thirds of the CA's lifetime are over, for the replica whose clock is ahead.
    lost_clock.ahead.store(31 * 60, Ordering::SeqCst);
    eventually("the fault has occurred", async || moment.has_come(&faults, before).then_some(())).await;
    lost.kill().await;
    if matches!(moment, Moment::AfterTheSecret | Moment::BeforeTheBundle) {
        let rejected = |slow: &Faults| slow.count(|seen| seen.method == Method::PATCH);
        let before = rejected(&slow);
        eventually("the other one has retried", async || (rejected(&slow) > before + 3).then_some(())).await;
    }
    slow.clear();
    let wrote = authorities(&cluster).await != first;
    assert_eq!(wrote, !matches!(moment, Moment::BeforeTheSecret), "{moment:?}");

    // The other replica gets there eventually, and no call of it ever fails.
    for _ in 0..47 {
        clock.advance(60).await;
    }
    stop.store(true, Ordering::Relaxed);
    let shown = load.join_next().await.unwrap().unwrap();
    assert!(shown.len() >= 5, "{} certificates", shown.len());
    let [bundle, _] = configuration.bundles().await;
    assert_eq!(bundle.as_deref(), Some(authorities(&cluster).await.as_str()), "{moment:?}");
    assert!(!bundle.unwrap().contains(&first), "the first CA is removed");
    ask(&configuration, left.address).await;
    left.kill().await;
    configuration.delete().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_lost_before_the_new_certificates_are_kept_takes_nothing_with_it() {
    is_survived(Moment::BeforeTheSecret).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_lost_after_the_new_certificates_are_kept_is_followed() {
    is_survived(Moment::AfterTheSecret).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_lost_before_it_wrote_the_bundle_of_a_new_ca_is_replaced() {
    is_survived(Moment::BeforeTheBundle).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_lost_after_it_wrote_the_bundle_of_a_new_ca_is_followed() {
    is_survived(Moment::AfterTheBundle).await;
}
