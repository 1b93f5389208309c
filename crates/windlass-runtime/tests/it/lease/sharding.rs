//! Keys shared by several processes, here several loops.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_runtime::{
    key::ObjectKey,
    lease::{Shard, Sharding},
};

use super::*;

struct Member {
    shard: Shard,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

fn member(cluster: &TestCluster) -> Member {
    let sharding = Sharding::new(cluster.client(), cluster.namespace(), "operator").timing(QUICK).unwrap();
    let shard = sharding.shard();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { sharding.run(stopped.cancelled()).await });
    Member { shard, stop, running }
}

fn keys() -> Vec<ObjectKey> {
    (0..300).map(|number| ObjectKey::namespaced("default", &format!("object-{number}"))).collect()
}

/// Returns the owner of each key, if each is owned. Two owners are a failure at any time. Nothing else runs in the
/// meantime.
fn owners(members: &[Member]) -> Option<BTreeMap<String, usize>> {
    let mut owners = BTreeMap::new();
    for key in keys() {
        let of_key: Vec<_> = (0..members.len()).filter(|member| members[*member].shard.owns(&key)).collect();
        assert!(of_key.len() < 2, "{key} is owned by {of_key:?}");
        owners.extend(of_key.first().map(|owner| (key.to_string(), *owner)));
    }
    (owners.len() == keys().len()).then_some(owners)
}

/// Waits until exactly these members own all keys.
async fn shared_by(members: &[Member], expected: &[usize]) -> BTreeMap<String, usize> {
    eventually("all keys are shared", async || {
        let owners = owners(members)?;
        let mut found: Vec<_> = owners.values().copied().collect();
        found.sort_unstable();
        found.dedup();
        (found == expected).then_some(owners)
    })
    .await
}

#[tokio::test]
async fn every_key_has_one_owner_while_members_join_leave_and_crash() {
    let cluster = TestCluster::start().await;
    let mut members = vec![member(&cluster)];
    members[0].shard.changed().await;
    shared_by(&members, &[0]).await;

    members.extend([member(&cluster), member(&cluster)]);
    let of_three = shared_by(&members, &[0, 1, 2]).await;
    for number in 0..3 {
        let share = of_three.values().filter(|owner| **owner == number).count();
        assert!((50..=150).contains(&share), "{share} of 300");
    }

    members[1].stop.cancel();
    let of_two = shared_by(&members, &[0, 2]).await;
    for (key, owner) in &of_two {
        let before = of_three[key];
        assert!(before == 1 || before == *owner, "{key} moved from {before} to {owner}");
    }

    members[0].running.abort();
    shared_by(&members, &[2]).await;
}

#[tokio::test]
async fn a_long_expired_lease_is_deleted() {
    let cluster = TestCluster::start().await;
    let leases: Api<Lease> = Api::namespaced(cluster.client(), cluster.namespace());
    let gone: Lease = serde_json::from_value(serde_json::json!({
        "metadata": { "name": "operator-gone", "labels": { "sharding.windlass.dev/group": "operator" } },
        "spec": { "holderIdentity": "gone", "leaseDurationSeconds": 1 },
    }))
    .unwrap();
    leases.create(&PostParams::default(), &gone).await.unwrap();
    let quick = Timing {
        lease_duration: Duration::from_millis(900),
        renew_deadline: Duration::from_millis(800),
        retry_period: Duration::from_millis(50),
    };
    let sharding = Sharding::new(cluster.client(), cluster.namespace(), "operator").timing(quick).unwrap();
    let shard = sharding.shard();
    let running = tokio::spawn(sharding.run(std::future::pending()));
    assert!(!shard.owns(&keys()[0]), "the other may still exist");
    eventually("the old lease is deleted", async || {
        let left = leases.list(&ListParams::default()).await.unwrap().items;
        (left.len() == 1 && left[0].metadata.name.as_deref() != Some("operator-gone")).then_some(())
    })
    .await;
    running.abort();
}
