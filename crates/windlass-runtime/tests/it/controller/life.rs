//! The end of a controller.

use kube::Api;
use tokio::sync::Semaphore;
use windlass_runtime::{controller::Action, scope::Scope};

use super::*;
use crate::cluster::TestCluster;

/// A controller whose reconciles end when they are released, and record how.
fn waiting(
    cluster: &TestCluster,
    begun: &Journal<String>,
    ended: &Journal<String>,
    gate: &Arc<Semaphore>,
) -> Controller<ConfigMap> {
    let (begun, ended, gate) = (begun.clone(), ended.clone(), gate.clone());
    Controller::<ConfigMap>::new("waiting", move |config: Arc<ConfigMap>, _ctx| {
        let (begun, ended, gate) = (begun.clone(), ended.clone(), gate.clone());
        async move {
            begun.write(name_of(&*config));
            gate.acquire().await.unwrap().forget();
            ended.write(name_of(&*config));
            Ok(Action::done())
        }
    })
    .scope(Scope::namespace(cluster.namespace()).fields("metadata.name!=kube-root-ca.crt"))
}

#[tokio::test]
async fn draining_finishes_running_reconciles_and_starts_none() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, config("a")).await;
    create(&api, config("b")).await;
    let (begun, ended, gate) = (Journal::new(), Journal::new(), Arc::new(Semaphore::new(0)));
    let running = Running::start(cluster.client(), waiting(&cluster, &begun, &ended, &gate));
    begun.has(1).await;
    running.shutdown.drain();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!running.task.is_finished());
    gate.add_permits(9);
    running.stop().await;
    assert_eq!((begun.read().len(), ended.read().len()), (1, 1));
}

#[tokio::test]
async fn aborting_drops_what_runs() {
    let cluster = TestCluster::start().await;
    create(&Api::namespaced(cluster.client(), cluster.namespace()), config("a")).await;
    let (begun, ended, gate) = (Journal::new(), Journal::new(), Arc::new(Semaphore::new(0)));
    let running = Running::start(cluster.client(), waiting(&cluster, &begun, &ended, &gate));
    begun.has(1).await;
    running.shutdown.abort();
    running.stop().await;
    assert_eq!(ended.read().len(), 0);
}
