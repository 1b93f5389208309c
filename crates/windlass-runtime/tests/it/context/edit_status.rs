use serde_json::json;
use windlass_runtime::objects::conditions::{Conditions, condition, ready};

use super::*;

#[tokio::test]
async fn what_is_not_changed_is_carried_over() {
    let bench = Bench::with_gadgets().await;
    let ctx = &bench.context;
    let gadget = ctx.create(bench.gadget("one", 1)).await.unwrap();
    bench.writes();
    let written = ctx.edit_status(&gadget, |status| status.phase = Some("Running".into())).await.unwrap();
    assert_eq!(written.status.as_ref().unwrap().observed_generation, gadget.metadata.generation);
    let written = ctx
        .edit_status(&written, |status| {
            status.set_condition(ready(true).reason("Tested"));
        })
        .await
        .unwrap();
    assert_eq!(written.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(bench.writes(), 2);
    ctx.edit_status(&written, |status| status.phase = Some("Running".into())).await.unwrap();
    assert_eq!(bench.writes(), 0, "nothing changes");
    let written = ctx.edit_status(&written, |status| status.phase = None).await.unwrap();
    let status = written.status.clone().unwrap();
    assert_eq!((status.phase.as_deref(), status.is_true("Ready")), (None, true));
}

#[tokio::test]
async fn a_new_generation_is_observed_by_the_status_and_the_conditions_that_are_set() {
    let bench = Bench::with_gadgets().await;
    let ctx = &bench.context;
    let gadget = ctx.create(bench.gadget("one", 1)).await.unwrap();
    let edit = |status: &mut GadgetStatus| {
        status.set_condition(ready(true).reason("Tested"));
    };
    let theirs = |status: &mut GadgetStatus| {
        status.set_condition(condition("Theirs", true));
    };
    ctx.edit_status(&gadget, theirs).await.unwrap();
    let written = ctx.edit_status(&gadget, edit).await.unwrap();
    let mut next = written.as_ref().clone();
    next.spec.size = 2;
    let next = ctx.update(next).await.unwrap();
    let written = ctx.edit_status(&next, edit).await.unwrap();
    let status = written.status.clone().unwrap();
    assert_eq!((status.observed_generation, next.metadata.generation), (Some(2), Some(2)));
    let observed = |type_: &str| status.condition(type_).unwrap().observed_generation;
    assert_eq!((observed("Ready"), observed("Theirs")), (Some(2), Some(1)));
}

#[tokio::test]
async fn changes_of_others_are_not_lost() {
    let bench = Bench::with_gadgets().await;
    let ctx = &bench.context;
    let old = ctx.create(bench.gadget("one", 1)).await.unwrap();
    // Not through the cache: the first attempt is based on an old state.
    let patch = json!({"status": {"phase": "Theirs", "conditions": [Condition::from(condition("Theirs", true))]}});
    bench.api::<Gadget>().patch_status("one", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let edit = |status: &mut GadgetStatus| {
        status.set_condition(ready(true).reason("Tested"));
    };
    let written = ctx.edit_status(&old, edit).await.unwrap();
    let status = written.status.clone().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Theirs"));
    assert!(status.is_true("Theirs") && status.is_true("Ready"), "{status:?}");
}

#[tokio::test]
async fn the_status_of_an_object_that_took_the_name_is_not_edited() {
    let bench = Bench::with_gadgets().await;
    let first = bench.context.create(bench.gadget("one", 1)).await.unwrap();
    bench.api::<Gadget>().delete("one", &Default::default()).await.unwrap();
    bench.api().create(&PostParams::default(), &bench.gadget("one", 2)).await.unwrap();
    bench.context.edit_status(&first, |status| status.phase = Some("Wrong".into())).await.unwrap_err();
    assert_eq!(bench.api::<Gadget>().get("one").await.unwrap().status, None);
}
