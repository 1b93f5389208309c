use kube::api::DeleteParams;
use serde_json::json;
use windlass_runtime::objects::conditions::{Conditions, condition, ready};

use super::*;

/// The status of a reconcile: a new one each time.
fn status(holds: bool, message: &str) -> GadgetStatus {
    let mut status = GadgetStatus { phase: Some("Running".into()), ..GadgetStatus::default() };
    status.set_condition(ready(holds).reason("Tested").message(message));
    status
}

#[tokio::test]
async fn a_status_is_written_when_it_says_something_new() {
    let bench = Bench::with_gadgets().await;
    let ctx = &bench.context;
    let gadget = ctx.create(bench.gadget("one", 1)).await.unwrap();
    bench.writes();
    let written = ctx.set_status(&gadget, status(false, "starting")).await.unwrap();
    let first = written.status.clone().unwrap();
    assert_eq!(first.observed_generation, gadget.metadata.generation);
    assert_eq!(first.condition("Ready").unwrap().observed_generation, gadget.metadata.generation);
    ctx.set_status(&gadget, status(false, "starting")).await.unwrap();
    assert_eq!(bench.writes(), 1);

    // Another message is not a transition; another status is.
    let old = json!({"status": {"conditions": [{
        "type": "Ready", "status": "False", "reason": "Tested", "message": "starting", "observedGeneration": 1,
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }]}});
    let old = bench.api::<Gadget>().patch_status("one", &PatchParams::default(), &Patch::Merge(old)).await.unwrap();
    let gadget = bench.seen("one", &old).await;
    let time = |gadget: &Gadget| {
        gadget.status.as_ref().unwrap().condition("Ready").unwrap().last_transition_time.0.to_string()
    };
    let written = ctx.set_status(&gadget, status(false, "pulling")).await.unwrap();
    assert_eq!(time(&written), "2020-01-01T00:00:00Z");
    let written = ctx.set_status(&written, status(true, "running")).await.unwrap();
    assert_ne!(time(&written), "2020-01-01T00:00:00Z");

    // A new generation is a change.
    let mut next = written.as_ref().clone();
    next.spec.size = 2;
    let next = ctx.update(next).await.unwrap();
    bench.writes();
    let written = ctx.set_status(&next, status(true, "running")).await.unwrap();
    assert_eq!(written.status.as_ref().unwrap().observed_generation, next.metadata.generation);
    assert_eq!(bench.writes(), 1);
}

#[tokio::test]
async fn conditions_of_others_stay_and_cost_no_write() {
    let bench = Bench::with_gadgets().await;
    let ctx = &bench.context;
    let gadget = ctx.create(bench.gadget("one", 1)).await.unwrap();
    ctx.set_status(&gadget, status(true, "")).await.unwrap();
    let theirs = json!({
        "apiVersion": "context.windlass.dev/v1", "kind": "Gadget", "metadata": {"name": "one"},
        "status": {"conditions": [Condition::from(condition("Theirs", true))]}
    });
    let params = PatchParams::apply("another-manager");
    let theirs = bench.api::<Gadget>().patch_status("one", &params, &Patch::Apply(theirs)).await.unwrap();
    let gadget = bench.seen("one", &theirs).await;
    bench.writes();
    ctx.set_status(&gadget, status(true, "")).await.unwrap();
    ctx.set_status(&gadget, status(true, "")).await.unwrap();
    assert!(bench.writes() <= 1, "at most one read for the changed list");
    let written = ctx.set_status(&gadget, GadgetStatus::default()).await.unwrap();
    let left = written.status.as_ref().unwrap();
    let types: Vec<&str> = left.conditions.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!((types, left.phase.as_deref()), (vec!["Theirs"], None), "only ours are removed");
}

#[tokio::test]
async fn the_status_of_an_object_that_took_the_name_is_not_written() {
    let bench = Bench::with_gadgets().await;
    let first = bench.context.create(bench.gadget("one", 1)).await.unwrap();
    bench.api::<Gadget>().delete("one", &DeleteParams::default()).await.unwrap();
    assert!(bench.context.set_status(&first, status(true, "")).await.is_err());
    bench.api().create(&PostParams::default(), &bench.gadget("one", 2)).await.unwrap();
    bench.context.set_status(&first, status(true, "")).await.unwrap_err();
    assert_eq!(bench.api::<Gadget>().get("one").await.unwrap().status, None);
}
