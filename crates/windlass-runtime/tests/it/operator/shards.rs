//! Replicas of one program that share its keys: `--shards`.

use std::collections::{BTreeMap, BTreeSet};

use clap::Parser;
use kube::Config;
use windlass_runtime::operator::Flags;

use super::*;

const OBJECTS: usize = 60;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    flags: Flags,
}

/// Options of a replica. A machine that is merely slow does not lose a lease of a minute.
fn options(cluster: &TestCluster, lease: [&str; 2]) -> Options {
    let namespace = cluster.namespace();
    let arguments = [
        "operator",
        "--shards",
        &format!("--pod-namespace={namespace}"),
        &format!("--namespace={namespace}"),
        &format!("--leader-election-lease-duration={}", lease[0]),
        &format!("--leader-election-renew-deadline={}", lease[1]),
        "--leader-election-retry-period=100ms",
    ];
    let config = Config::new("http://localhost".parse().unwrap());
    Options::from_flags(&Arguments::parse_from(arguments).flags, "sharing-operator", &config).unwrap()
}

/// What all replicas have done.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    /// Which replica reconciled which object in which round, in order.
    done: Vec<(usize, String, u64)>,
    /// Which replica is working on an object.
    working: BTreeMap<String, usize>,
    /// Objects that two replicas worked on at once.
    shared: Vec<String>,
}

/// A replica working on an object.
struct AtWork {
    diary: Diary,
    name: String,
}

impl Diary {
    fn begin(&self, replica: usize, name: &str) -> AtWork {
        let mut pages = self.0.lock().unwrap();
        if let Some(other) = pages.working.insert(name.to_owned(), replica) {
            pages.shared.push(format!("{name} by {other} and {replica}"));
        }
        drop(pages);
        AtWork { diary: self.clone(), name: name.to_owned() }
    }

    fn done(&self, replica: usize, name: &str, round: u64) {
        self.0.lock().unwrap().done.push((replica, name.to_owned(), round));
    }

    /// Returns the number of entries.
    fn place(&self) -> usize {
        self.0.lock().unwrap().done.len()
    }

    /// Returns which replicas have reconciled which object in a round, since then.
    fn of_round(&self, since: usize, round: u64) -> BTreeMap<String, BTreeSet<usize>> {
        let mut owners: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for (replica, name, at) in &self.0.lock().unwrap().done[since..] {
            if *at == round {
                owners.entry(name.clone()).or_default().insert(*replica);
            }
        }
        owners
    }

    fn assert_nothing_was_shared(&self) {
        assert_eq!(self.0.lock().unwrap().shared, Vec::<String>::new());
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.diary.0.lock().unwrap().working.remove(&self.name);
    }
}

fn replica(number: usize, diary: &Diary) -> Operator {
    let diary = diary.clone();
    let reconcile = move |map: Arc<ConfigMap>, ctx: Context| {
        let diary = diary.clone();
        async move {
            let name = map.metadata.name.clone().unwrap_or_default();
            let round = map.data.as_ref().and_then(|data| data.get("round")?.parse().ok()).unwrap_or_default();
            let _at_work = diary.begin(number, &name);
            // Another could begin before the server answers.
            let _ = ctx.live().get::<ConfigMap>(&ObjectKey::of(&*map)).await;
            diary.done(number, &name, round);
            Ok(Action::done())
        }
    };
    Operator::new("sharing-operator").controller(Controller::<ConfigMap>::new("shared", reconcile).concurrency(4))
}

async fn start(cluster: &TestCluster, number: usize, diary: &Diary, lease: [&str; 2]) -> Running {
    Running::start(replica(number, diary), cluster.client(), options(cluster, lease)).await
}

/// Changes all objects, and waits until each of them has been reconciled. Returns the replicas that did it.
async fn next_round(cluster: &TestCluster, diary: &Diary, round: u64) -> BTreeMap<String, BTreeSet<usize>> {
    let since = diary.place();
    let maps: Api<ConfigMap> = cluster.api();
    for number in 0..OBJECTS {
        let patch = serde_json::json!({"data": {"round": round.to_string()}});
        maps.patch(&format!("map-{number}"), &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
    eventually("all have been reconciled", async || {
        let owners = diary.of_round(since, round);
        (owners.len() == OBJECTS).then_some(owners)
    })
    .await
}

/// Runs rounds until each object has one owner, and these are all of the replicas.
async fn settled(cluster: &TestCluster, diary: &Diary, round: &mut u64, replicas: &[usize]) -> BTreeMap<String, usize> {
    for _ in 0..100 {
        *round += 1;
        let owners = next_round(cluster, diary, *round).await;
        let all: BTreeSet<usize> = owners.values().flatten().copied().collect();
        if owners.values().all(|of_one| of_one.len() == 1) && all.iter().eq(replicas) {
            return owners.into_iter().map(|(name, of_one)| (name, of_one.into_iter().next().unwrap())).collect();
        }
    }
    panic!("{replicas:?} do not share the objects");
}

async fn create_all(cluster: &TestCluster) {
    for number in 0..OBJECTS {
        create(&cluster.client(), cluster.namespace(), &format!("map-{number}")).await;
    }
}

#[tokio::test]
async fn every_object_is_reconciled_by_one_replica_while_others_join_and_leave() {
    const LEASE: [&str; 2] = ["60s", "40s"];
    let cluster = TestCluster::start().await;
    create_all(&cluster).await;
    let diary = Diary::default();
    let mut running = Vec::new();
    for number in 0..3 {
        running.push(start(&cluster, number, &diary, LEASE).await);
    }
    let mut round = 0;
    let before = settled(&cluster, &diary, &mut round, &[0, 1, 2]).await;
    // While the group does not change, nothing moves.
    for _ in 0..5 {
        round += 1;
        let owners = next_round(&cluster, &diary, round).await;
        let expected: BTreeMap<_, _> = before.iter().map(|(name, owner)| (name.clone(), [*owner].into())).collect();
        assert_eq!(owners, expected);
    }

    let since = diary.place();
    running.remove(1).stop().await.unwrap();
    // New owners reconcile objects that move, although nothing has changed.
    let orphans: BTreeSet<&String> = before.iter().filter(|(_, owner)| **owner == 1).map(|(name, _)| name).collect();
    assert!(!orphans.is_empty());
    eventually("the orphaned keys are reconciled", async || {
        let looked = diary.of_round(since, round);
        let by_others = |name: &&String| looked.get(*name).is_some_and(|owners| owners.iter().any(|one| *one != 1));
        orphans.iter().all(by_others).then_some(())
    })
    .await;
    let after = settled(&cluster, &diary, &mut round, &[0, 2]).await;
    for (name, owner) in &after {
        assert!(before[name] == 1 || before[name] == *owner, "{name} moved from {} to {owner}", before[name]);
    }

    running.push(start(&cluster, 3, &diary, LEASE).await);
    let last = settled(&cluster, &diary, &mut round, &[0, 2, 3]).await;
    for (name, owner) in &last {
        assert!(*owner == 3 || after[name] == *owner, "{name} moved from {} to {owner}", after[name]);
    }
    for replica in running {
        replica.stop().await.unwrap();
    }
    diary.assert_nothing_was_shared();
    let leases =
        Api::<Lease>::namespaced(cluster.client(), cluster.namespace()).list(&Default::default()).await.unwrap();
    let holders: Vec<_> = leases.items.into_iter().filter_map(|lease| lease.spec?.holder_identity).collect();
    assert!(holders.iter().all(String::is_empty), "those who left hold nothing: {holders:?}");
}

#[tokio::test]
async fn the_objects_of_a_replica_that_was_lost_are_taken_over() {
    const LEASE: [&str; 2] = ["3s", "2s"];
    let cluster = TestCluster::start().await;
    create_all(&cluster).await;
    let diary = Diary::default();
    let lost = start(&cluster, 0, &diary, LEASE).await;
    let left = start(&cluster, 1, &diary, LEASE).await;
    let mut round = 0;
    let before = settled(&cluster, &diary, &mut round, &[0, 1]).await;
    lost.result.abort();
    assert!(lost.result.await.unwrap_err().is_cancelled());
    let after = settled(&cluster, &diary, &mut round, &[1]).await;
    assert_eq!(after.len(), before.len());
    left.stop().await.unwrap();
    diary.assert_nothing_was_shared();
}
