use windlass_runtime::context::{ContextError, Desired, SET_LABEL, SetOutcome};

use super::*;

fn secret(name: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.into());
    secret
}

async fn there(bench: &Bench) -> Vec<String> {
    let configs = bench.api::<ConfigMap>().list(&Default::default()).await.unwrap();
    let secrets = bench.api::<Secret>().list(&Default::default()).await.unwrap();
    let mut names: Vec<String> = configs.iter().filter_map(|config| config.metadata.name.clone()).collect();
    names
        .extend(secrets.iter().filter_map(|secret| secret.metadata.name.as_ref().map(|name| format!("secret {name}"))));
    names.retain(|name| name != "kube-root-ca.crt");
    names.sort();
    names
}

#[tokio::test]
async fn a_set_contains_only_desired_objects() {
    let bench = Bench::start().await;
    let ctx = &bench.context;
    let parent = bench.parent("parent").await;
    let desired = Desired::new().with(bench.config("a", &[])).with(bench.config("b", &[])).with(secret("s"));
    let outcome = ctx.apply_set(&parent, "web", &desired).await.unwrap();
    assert_eq!(outcome, SetOutcome { applied: 3, pruned: vec![] });
    // Objects of another set, of no set, or of another owner are not touched.
    ctx.apply_set(&parent, "db", &Desired::new().with(bench.config("of-db", &[]))).await.unwrap();
    ctx.apply_owned(&parent, bench.config("single", &[])).await.unwrap();
    let mut stranger = bench.config("stranger", &[]);
    stranger.metadata.labels = Some([(SET_LABEL.to_owned(), "web".to_owned())].into());
    ctx.create(stranger).await.unwrap();

    bench.writes();
    assert_eq!(ctx.apply_set(&parent, "web", &desired).await.unwrap().applied, 3);
    assert_eq!(bench.writes(), 0, "all is in place");

    let outcome = ctx.apply_set(&parent, "web", &Desired::new().with(bench.config("b", &[]))).await.unwrap();
    let mut pruned: Vec<String> = outcome.pruned.iter().map(|(kind, key)| format!("{kind} {}", key.name())).collect();
    pruned.sort();
    assert_eq!((outcome.applied, pruned), (1, vec!["ConfigMap a".to_owned(), "Secret s".to_owned()]));
    assert_eq!(there(&bench).await, ["b", "of-db", "parent", "single", "stranger"]);
    ctx.apply_set(&parent, "web", &Desired::new()).await.unwrap();
    assert_eq!(there(&bench).await, ["of-db", "parent", "single", "stranger"]);
}

#[tokio::test]
async fn any_text_names_a_set() {
    let bench = Bench::start().await;
    let parent = bench.parent("parent").await;
    let set = "Meine Übersicht";
    bench.context.apply_set(&parent, set, &Desired::new().with(bench.config("a", &[]))).await.unwrap();
    assert_eq!(there(&bench).await, ["a", "parent"]);
    bench.context.apply_set(&parent, set, &Desired::new()).await.unwrap();
    assert_eq!(there(&bench).await, ["parent"]);
}

#[tokio::test]
async fn nothing_is_pruned_if_something_could_not_be_applied() {
    let bench = Bench::start().await;
    let ctx = &bench.context;
    let parent = bench.parent("parent").await;
    ctx.apply_set(&parent, "web", &Desired::new().with(bench.config("old", &[]))).await.unwrap();
    ctx.create(bench.config("stranger", &[])).await.unwrap();
    let desired = Desired::new()
        .with(bench.config("stranger", &[]))
        .with(bench.config("Not A Name", &[]))
        .with(bench.config("new", &[]));
    let error = ctx.apply_set(&parent, "web", &desired).await.unwrap_err();
    assert!(error.is_not_ours(), "{error}");
    let ContextError::Set { total, failures, .. } = &error else { panic!("{error}") };
    assert_eq!((*total, failures.len()), (3, 2), "{error}");
    assert_eq!(there(&bench).await, ["new", "old", "parent", "stranger"], "the good one is applied, the old one kept");
}
