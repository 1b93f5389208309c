use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentSpec},
    core::v1::{Container, ContainerPort, PodSpec, PodTemplateSpec, ResourceRequirements},
};
use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelector};
use serde_json::json;
use windlass_runtime::context::ContextError;

use super::*;
use crate::faults::{Fault, Faults};

fn deployment(bench: &Bench, name: &str) -> Deployment {
    let labels = Some([("app".to_owned(), name.to_owned())].into());
    let mut deployment = Deployment::default();
    deployment.metadata.name = Some(name.into());
    deployment.metadata.namespace = Some(bench.namespace().into());
    let container = Container {
        name: "main".into(),
        image: Some("nginx".into()),
        resources: Some(ResourceRequirements {
            // The server normalizes it to 1.
            requests: Some([("cpu".to_owned(), Quantity("1000m".into()))].into()),
            ..ResourceRequirements::default()
        }),
        ..Container::default()
    };
    deployment.spec = Some(DeploymentSpec {
        replicas: Some(0),
        selector: LabelSelector { match_labels: labels.clone(), ..LabelSelector::default() },
        template: PodTemplateSpec {
            metadata: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta { labels, ..Default::default() }),
            spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
        },
        ..DeploymentSpec::default()
    });
    deployment
}

#[tokio::test]
async fn applying_the_same_again_sends_nothing_despite_server_side_defaults() {
    let bench = Bench::start().await;
    bench.wire::<Deployment>().await;
    let parent = bench.parent("parent").await;
    for _ in 0..3 {
        let live = bench.context.apply_owned(&parent, deployment(&bench, "web")).await.unwrap();
        assert!(live.spec.as_ref().unwrap().strategy.is_some(), "the server has filled in defaults");
        assert!(live.metadata.managed_fields.is_none());
    }
    assert_eq!(bench.writes(), 1);
    // Changes of the object that do not concern us: labels, annotations, defaults that others change.
    let patch = json!({"metadata": {"annotations": {"theirs": "x"}}, "spec": {"revisionHistoryLimit": 3}});
    bench.meddle::<Deployment>("web", patch).await;
    let live = bench.context.apply_owned(&parent, deployment(&bench, "web")).await.unwrap();
    assert_eq!(live.spec.as_ref().unwrap().revision_history_limit, Some(3));
    assert_eq!(bench.writes(), 0);
}

#[tokio::test]
async fn changes_of_others_to_our_fields_are_repaired() {
    let bench = Bench::with_gadgets().await;
    bench.context.apply(bench.gadget("one", 1)).await.unwrap();
    bench.meddle::<Gadget>("one", json!({"spec": {"size": 9, "color": "red"}})).await;
    bench.writes();
    let repaired = bench.context.apply(bench.gadget("one", 1)).await.unwrap();
    assert_eq!((repaired.spec.size, repaired.spec.color.as_deref()), (1, Some("red")), "and theirs stays");
    bench.context.apply(bench.gadget("one", 1)).await.unwrap();
    assert_eq!(bench.writes(), 1);
}

#[tokio::test]
async fn a_field_that_is_no_longer_set_is_removed() {
    let bench = Bench::with_gadgets().await;
    let mut gadget = bench.gadget("one", 1);
    gadget.spec.color = Some("red".into());
    assert_eq!(bench.context.apply(gadget).await.unwrap().spec.color.as_deref(), Some("red"));
    let live = bench.context.apply(bench.gadget("one", 1)).await.unwrap();
    assert_eq!(live.spec.color, None);
    assert_eq!(bench.writes(), 2);
}

#[tokio::test]
async fn an_object_that_was_deleted_or_recreated_is_applied_again() {
    let bench = Bench::start().await;
    let config = || bench.config("one", &[("a", "1")]);
    let first = bench.context.apply(config()).await.unwrap();
    bench.api::<ConfigMap>().delete("one", &Default::default()).await.unwrap();
    eventually("the cache has seen the delete", async || {
        bench.context.get::<ConfigMap>(&bench.key("one")).unwrap().is_none().then_some(())
    })
    .await;
    let second = bench.context.apply(config()).await.unwrap();
    assert_ne!(first.metadata.uid, second.metadata.uid);
    assert_eq!(bench.writes(), 2);
}

#[tokio::test]
async fn an_object_of_another_controller_is_left_alone() {
    let bench = Bench::start().await;
    let (one, two) = (bench.parent("one").await, bench.parent("two").await);
    let stranger = bench.api().create(&PostParams::default(), &bench.config("stranger", &[("a", "0")])).await.unwrap();
    bench.seen("stranger", &stranger).await;
    bench.context.apply_owned(&one, bench.config("of-one", &[("a", "0")])).await.unwrap();
    bench.writes();

    let error = bench.context.apply_owned(&two, bench.config("stranger", &[("a", "1")])).await.unwrap_err();
    assert!(error.is_not_ours(), "{error}");
    assert!(error.to_string().contains("already exists and is not controlled by ConfigMap two"), "{error}");
    let error = bench.context.apply_owned(&two, bench.config("of-one", &[("a", "1")])).await.unwrap_err();
    assert!(matches!(&error, ContextError::NotOurs { controller: Some(other), .. } if other == "ConfigMap one"));
    assert!(bench.context.adopt(&two, bench.config("of-one", &[])).await.unwrap_err().is_not_ours());
    assert_eq!(bench.writes(), 0);

    let adopted = bench.context.adopt(&two, bench.config("stranger", &[("a", "1")])).await.unwrap();
    assert!(windlass_runtime::objects::owner::is_controlled_by(adopted.as_ref(), two.as_ref()));
}

#[tokio::test]
async fn an_unrelated_object_outside_a_narrow_cache_is_left_alone() {
    let bench = Bench::start().await;
    let parent = bench.parent("parent").await;
    bench
        .wire_scope::<k8s_openapi::api::core::v1::Service>(&Scope::namespace(bench.namespace()).labels("ours=yes"))
        .await;
    let service = || {
        let mut service = k8s_openapi::api::core::v1::Service::default();
        service.metadata.name = Some("web".into());
        service.metadata.labels = Some([("ours".to_owned(), "yes".to_owned())].into());
        let port = k8s_openapi::api::core::v1::ServicePort { port: 80, ..Default::default() };
        service.spec = Some(k8s_openapi::api::core::v1::ServiceSpec { ports: Some(vec![port]), ..Default::default() });
        service
    };
    let mut stranger = service();
    stranger.metadata.labels = None;
    bench.api().create(&PostParams::default(), &stranger).await.unwrap();
    assert!(bench.context.apply_owned(&parent, service()).await.unwrap_err().is_not_ours());
    bench.api::<k8s_openapi::api::core::v1::Service>().delete("web", &Default::default()).await.unwrap();
    bench.writes();
    for _ in 0..2 {
        let live = bench.context.apply_owned(&parent, service()).await.unwrap();
        assert_eq!(live.metadata.namespace.as_deref(), Some(bench.namespace()), "the parent's");
    }
    assert_eq!(bench.writes(), 1);
}

#[tokio::test]
async fn nothing_is_owned_across_namespaces_or_unseen() {
    let bench = Bench::start().await;
    let parent = bench.parent("parent").await;
    let mut far = bench.config("far", &[]);
    far.metadata.namespace = Some("default".into());
    let error = bench.context.apply_owned(&parent, far).await.unwrap_err();
    assert!(matches!(error, ContextError::Owner { .. }), "{error}");
    let error = bench.context.apply_owned(&parent, deployment(&bench, "web")).await.unwrap_err();
    assert!(matches!(error, ContextError::NotWatched { .. }), "{error}");
    assert_eq!(bench.writes(), 0);
}

/// Returns a bench for the same objects after a restart of the operator: its caches are new, and nothing is recorded.
async fn restarted(bench: Bench) -> Bench {
    let Bench { cluster, context, .. } = bench;
    drop(context);
    let client = cluster.client();
    let bench = Bench::over(cluster, client).await;
    bench.wire::<Deployment>().await;
    bench
}

#[tokio::test]
async fn the_first_applies_after_a_restart_are_not_sent_if_nothing_differs() {
    const CHILDREN: usize = 40;
    let bench = Bench::start().await;
    bench.wire::<Deployment>().await;
    let parent = bench.parent("parent").await;
    let web = |bench: &Bench| {
        let mut web = deployment(bench, "web");
        let container = &mut web.spec.as_mut().unwrap().template.spec.as_mut().unwrap().containers[0];
        container.resources = None;
        // Items with keys, of which the server fills in one.
        container.ports = Some(vec![ContainerPort { container_port: 80, ..ContainerPort::default() }]);
        web
    };
    let apply = async |bench: &Bench| {
        for number in 0..CHILDREN {
            let child = bench.config(&format!("child-{number}"), &[("a", "1")]);
            bench.context.apply_owned(&parent, child).await.unwrap();
        }
        bench.context.apply_owned(&parent, web(bench)).await.unwrap();
    };
    apply(&bench).await;
    assert_eq!(bench.writes(), CHILDREN + 1);
    let bench = restarted(bench).await;
    apply(&bench).await;
    assert_eq!(bench.writes(), 0, "everything is as it was");
    // Not even a second time, when the managed fields are no longer known.
    apply(&bench).await;
    assert_eq!(bench.writes(), 0);
}

#[tokio::test]
async fn the_first_apply_after_a_restart_removes_fields_that_are_no_longer_set() {
    let bench = Bench::start().await;
    let parent = bench.parent("parent").await;
    bench.context.apply_owned(&parent, bench.config("one", &[("a", "1"), ("old", "1")])).await.unwrap();
    let bench = restarted(bench).await;
    let applied = bench.context.apply_owned(&parent, bench.config("one", &[("a", "1")])).await.unwrap();
    assert_eq!(applied.data.as_ref().unwrap().keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(bench.writes(), 1);
}

#[tokio::test]
async fn the_first_apply_after_a_restart_takes_ownership_of_fields_that_others_have_set() {
    let bench = Bench::start().await;
    let parent = bench.parent("parent").await;
    bench.context.apply_owned(&parent, bench.config("one", &[("a", "1")])).await.unwrap();
    bench.meddle::<ConfigMap>("one", json!({"data": {"b": "1"}})).await;
    let bench = restarted(bench).await;
    bench.context.apply_owned(&parent, bench.config("one", &[("a", "1"), ("b", "1")])).await.unwrap();
    assert_eq!(bench.writes(), 1, "the values are in place, but b is not ours");
    // The other still owns it, so it stays without us.
    let applied = bench.context.apply_owned(&parent, bench.config("one", &[("a", "1")])).await.unwrap();
    assert_eq!(applied.data.as_ref().unwrap().keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[tokio::test]
async fn a_failed_list_of_managed_fields_is_not_repeated_for_each_object() {
    const CHILDREN: usize = 50;
    let bench = Bench::start().await;
    let parent = bench.parent("parent").await;
    let apply = async |bench: &Bench| {
        for number in 0..CHILDREN {
            let child = bench.config(&format!("child-{number}"), &[("a", "1")]);
            bench.context.apply_owned(&parent, child).await.unwrap();
        }
    };
    apply(&bench).await;
    let Bench { cluster, context, .. } = bench;
    drop(context);
    let faults = Faults::around(cluster.client());
    let bench = Bench::over(cluster, faults.client()).await;
    let lists = || faults.count(|seen| seen.is_list("configmaps"));
    let before = lists();
    faults.inject(|seen| seen.is_list("configmaps"), usize::MAX, Fault::status(500));
    apply(&bench).await;
    assert_eq!(lists() - before, 1);
    let writes = bench.writes();
    assert!(writes > CHILDREN / 2 && writes < CHILDREN, "{writes}: the others were looked up one by one");
}
