//! The operator against an API server.

use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use network_operator::{
    api::network::{Network, NetworkSpec},
    backend::{Backend, memory::Memory},
    controller::network::FINALIZER,
    operator::operator,
};
use serde_json::json;
use windlass::prelude::ObjectKey;
use windlass_testing::{RunningOperator, TestCluster, eventually};

pub(crate) struct Setup {
    cluster: TestCluster,
    networks: Api<Network>,
    _operator: RunningOperator,
}

impl Setup {
    pub(crate) async fn start(backend: impl Backend) -> Self {
        let cluster = TestCluster::start().await;
        cluster.define::<Network>().await;
        let _operator = cluster.run(operator(backend));
        Self { networks: cluster.api(), cluster, _operator }
    }

    pub(crate) async fn create(&self, name: &str, cidr: &str, gateway: &str) {
        let network = Network::new(name, NetworkSpec { cidr: cidr.to_owned(), gateway: gateway.to_owned() });
        self.networks.create(&PostParams::default(), &network).await.unwrap();
    }

    pub(crate) async fn change(&self, name: &str, cidr: &str, gateway: &str) {
        let patch = json!({"spec": {"cidr": cidr, "gateway": gateway}});
        self.networks.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.networks.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until the status is current, and returns the reason and the message of Ready.
    pub(crate) async fn reason(&self, name: &str, reason: &str) -> String {
        eventually(&format!("{name}: {reason}"), async || {
            let network = self.networks.get(name).await.unwrap();
            let status = network.status?;
            let condition = status.conditions.into_iter().next()?;
            let current = status.observed_generation == network.metadata.generation;
            (current && condition.reason == reason).then_some(condition.message)
        })
        .await
    }

    pub(crate) async fn gone(&self, name: &str) {
        eventually("it is deleted", async || self.networks.get_opt(name).await.unwrap().is_none().then_some(())).await;
    }

    pub(crate) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(self.cluster.namespace(), name)
    }
}

#[tokio::test]
async fn a_network_is_created_changed_and_released() {
    let backend = Memory::default();
    let setup = Setup::start(backend.clone()).await;
    setup.create("blue", "192.168.0.0/16", "192.168.0.1").await;
    setup.reason("blue", "Synced").await;
    assert_eq!(backend.get(&setup.key("blue")).unwrap().gateway.to_string(), "192.168.0.1");
    setup.change("blue", "192.168.0.0/24", "192.168.0.254").await;
    eventually("it has changed", async || {
        backend.get(&setup.key("blue")).filter(|plan| plan.gateway.to_string() == "192.168.0.254")
    })
    .await;
    setup.delete("blue").await;
    setup.gone("blue").await;
    assert_eq!(backend.get(&setup.key("blue")), None);
    let events: Api<Event> = setup.cluster.api();
    let synced = eventually("an event is reported", async || {
        let list = events.list(&ListParams::default()).await.unwrap();
        list.items.into_iter().find(|event| event.reason.as_deref() == Some("Synced"))
    })
    .await;
    assert_eq!(synced.note.as_deref(), Some("Network synced successfully"));
}

#[tokio::test]
async fn invalid_addresses_are_reported_and_nothing_is_created() {
    let backend = Memory::default();
    let setup = Setup::start(backend.clone()).await;
    setup.create("bad", "10.0.0.0/24", "10.0.1.1").await;
    assert_eq!(setup.reason("bad", "Invalid").await, "spec.gateway: 10.0.1.1 is not in 10.0.0.0/24");
    assert_eq!(backend.get(&setup.key("bad")), None);
    setup.change("bad", "10.0.0.0/24", "10.0.0.1").await;
    setup.reason("bad", "Synced").await;
    // A network that becomes invalid is deleted.
    setup.change("bad", "10.0.0.0/24", "nonsense").await;
    setup.reason("bad", "Invalid").await;
    assert_eq!(backend.get(&setup.key("bad")), None);
}

#[tokio::test]
async fn the_older_of_two_overlapping_networks_wins_until_it_is_deleted() {
    let backend = Memory::default();
    let setup = Setup::start(backend.clone()).await;
    setup.create("a", "10.0.0.0/8", "10.0.0.1").await;
    setup.reason("a", "Synced").await;
    setup.create("b", "10.1.0.0/16", "10.1.0.1").await;
    assert_eq!(setup.reason("b", "Overlap").await, "10.1.0.0/16 overlaps with the network a");
    setup.create("c", "11.0.0.0/8", "11.0.0.1").await;
    setup.reason("c", "Synced").await;
    setup.delete("a").await;
    setup.reason("b", "Synced").await;
    assert!(backend.get(&setup.key("a")).is_none() && backend.get(&setup.key("b")).is_some());
}

#[tokio::test]
async fn a_network_is_kept_until_the_backend_has_released_it() {
    let backend = Memory::default();
    let setup = Setup::start(backend.clone()).await;
    setup.create("blue", "192.168.0.0/16", "192.168.0.1").await;
    setup.reason("blue", "Synced").await;
    backend.fail_with(Some("the switch is off"));
    setup.delete("blue").await;
    let network = setup.networks.get("blue").await.unwrap();
    assert_eq!(network.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    assert!(backend.get(&setup.key("blue")).is_some());
    backend.fail_with(None);
    setup.gone("blue").await;
    assert_eq!(backend.get(&setup.key("blue")), None);
}

#[tokio::test]
async fn a_failed_backend_operation_is_retried() {
    let backend = Memory::default();
    backend.fail_with(Some("the switch is off"));
    let setup = Setup::start(backend.clone()).await;
    setup.create("blue", "192.168.0.0/16", "192.168.0.1").await;
    eventually("the finalizer is set", async || setup.networks.get("blue").await.unwrap().metadata.finalizers).await;
    backend.fail_with(None);
    setup.reason("blue", "Synced").await;
}
