//! Manifests applied to an API server.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    CustomResource, CustomResourceExt,
    api::{Patch, PatchParams, ValidationDirective},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_runtime::{
    cache::parse_selector,
    manifests::{Coordination, OperatorManifests, Permission, WebhookCertificates},
    webhook::{
        CallOptions, Description, Endpoint, FailurePolicy, MatchPolicy, Operation, ReinvocationPolicy, Rule, RuleScope,
        SelfSigned, SideEffects,
    },
};

use crate::cluster::TestCluster;

/// Desired state of a Gadget.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Gadget", namespaced, status = "GadgetStatus")]
struct GadgetSpec {
    /// Size in metres.
    size: u32,
    colour: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct GadgetStatus {
    ready: bool,
}

mod old {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1beta1", kind = "Gadget", namespaced)]
    pub(super) struct GadgetSpec {
        pub(super) metres: u32,
    }
}

/// Returns the CRD in a group that no other test uses.
fn within(group: &str, mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    definition.metadata.name = Some(format!("gadgets.{group}"));
    definition.spec.group = group.to_owned();
    definition
}

fn webhook(endpoint: Endpoint, group: &str) -> Description {
    let path = format!("/{endpoint:?}").to_lowercase();
    Description {
        endpoint,
        name: format!("{}.gadgets.{group}", &path[1..]),
        path,
        group: group.to_owned(),
        versions: vec!["v1".to_owned(), "v1beta1".to_owned()],
        kind: "Gadget".to_owned(),
        rules: vec![
            Rule::new(group, "gadgets")
                .resource("gadgets/status")
                .versions(["v1", "v1beta1"])
                .operations([Operation::Create, Operation::Update, Operation::Delete])
                .scope(RuleScope::Namespaced),
        ],
        calls: CallOptions::default()
            .failure_policy(FailurePolicy::Ignore)
            .side_effects(SideEffects::NoneOnDryRun)
            .timeout_seconds(5)
            .match_condition("not-system", "request.namespace != 'kube-system'")
            .match_policy(MatchPolicy::Exact)
            .reinvocation_policy(ReinvocationPolicy::IfNeeded)
            .object_selector(parse_selector("team in (a, b)").unwrap())
            .namespace_selector(parse_selector("!system").unwrap()),
    }
}

fn operator(cluster: &TestCluster) -> OperatorManifests {
    let name = TestCluster::unique("gadgets");
    let group = format!("{name}.example.com");
    let mut operator = OperatorManifests::new(&name, cluster.namespace(), "example.com/gadget-operator:v1");
    operator.definitions = vec![within(&group, Gadget::crd()), within(&group, old::Gadget::crd())];
    operator.permissions = vec![
        Permission::new(&group, "gadgets", ["get", "list", "watch", "patch"]),
        Permission::new(&group, "gadgets/status", ["patch"]),
        Permission::new("apps", "deployments", ["get", "list", "watch"]).in_namespace(cluster.namespace()),
    ];
    operator.webhooks =
        [Endpoint::Mutating, Endpoint::Validating, Endpoint::Conversion].map(|one| webhook(one, &group)).into();
    operator.replicas = 2;
    operator.network_policy = true;
    operator.coordination = Coordination::Shards;
    operator
}

#[tokio::test]
async fn an_api_server_takes_every_manifest_and_knows_every_field() {
    let cluster = TestCluster::start().await;
    let strictly = PatchParams {
        dry_run: true,
        force: true,
        field_manager: Some("manifests".to_owned()),
        field_validation: Some(ValidationDirective::Strict),
    };
    let manifests = operator(&cluster).build().unwrap();
    assert_eq!(manifests.len(), 17, "every kind but those of Prometheus and cert-manager");
    for manifest in manifests {
        let patch = Patch::Apply(&manifest.object);
        let applied = manifest.api(cluster.client()).patch(manifest.name(), &strictly, &patch).await;
        let applied = applied.unwrap_or_else(|error| panic!("{}: {error}", manifest.kind()));
        for (field, value) in manifest.object.data.as_object().unwrap() {
            assert!(!applied.data[field].is_null(), "{}.{field} is lost: {value}", manifest.kind());
        }
    }
}

#[tokio::test]
async fn permissions_include_those_of_self_signed_certificates() {
    let cluster = TestCluster::start().await;
    let operator = operator(&cluster);
    assert_eq!(operator.certificates, WebhookCertificates::SelfSigned);
    let needed = SelfSigned::new(cluster.client(), cluster.namespace(), format!("{}-webhook", operator.name))
        .mutating(&operator.name)
        .validating(&operator.name)
        .definition(operator.definitions[0].metadata.name.clone().unwrap())
        .permissions();
    assert!(!needed.is_empty());
    let mut explicit = operator.clone();
    explicit.permissions.extend(needed);
    assert_eq!(operator.build().unwrap(), explicit.build().unwrap());
}
