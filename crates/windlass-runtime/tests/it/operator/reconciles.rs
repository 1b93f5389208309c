//! The last reconciles in `/debug/state`.

use serde_json::{Value, json};

use super::*;

#[tokio::test]
async fn the_last_reconciles_are_shown_with_what_has_caused_them() {
    let cluster = TestCluster::start().await;
    create(&cluster.client(), cluster.namespace(), "good").await;
    create(&cluster.client(), cluster.namespace(), "bad").await;
    let controller = Controller::<ConfigMap>::new("shown", async |config: Arc<ConfigMap>, _| {
        match config.metadata.name.as_deref() {
            Some("bad") => Err(windlass_runtime::Error::terminal("bad")),
            _ => Ok(Action::done()),
        }
    });
    let operator = Operator::new("shown-operator").controller(controller.scope(Scope::namespace(cluster.namespace())));
    let options = Options { debug_state: true, ..Options::default() };
    let running = Running::start(operator, cluster.client(), options).await;
    let shown = async |name: &str| {
        let key = ObjectKey::namespaced(cluster.namespace(), name).to_string();
        let (_, state) = get(running.metrics, "/debug/state").await?;
        let state: Value = serde_json::from_str(&state).unwrap();
        state["controllers"][0]["reconciles"].as_array()?.iter().find(|one| one["object"] == key).cloned()
    };
    for (name, result) in [("good", "success"), ("bad", "error")] {
        let reconcile = eventually("it was reconciled", async || shown(name).await).await;
        assert_eq!((&reconcile["causes"], &reconcile["result"]), (&json!(["initial"]), &json!(result)), "{reconcile}");
    }
    running.stop().await.unwrap();
}
