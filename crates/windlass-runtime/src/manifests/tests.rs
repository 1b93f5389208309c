//! The generated manifests.

use expect_test::{expect, expect_file};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::Deployment,
        core::v1::{Namespace, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::*;
use crate::webhook::{CallOptions, Description, Endpoint, Rule};

fn definition(version: &str, storage: bool) -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": { "name": "foos.example.com" },
        "spec": {
            "group": "example.com",
            "names": { "kind": "Foo", "plural": "foos" },
            "scope": "Namespaced",
            "versions": [{
                "name": version, "served": true, "storage": storage,
                "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    }))
    .unwrap()
}

fn webhook(endpoint: Endpoint, path: &str) -> Description {
    Description {
        endpoint,
        name: format!("{}.foos.v1.example.com", path.trim_start_matches('/')),
        path: path.to_owned(),
        group: "example.com".to_owned(),
        versions: vec!["v1".to_owned()],
        kind: "Foo".to_owned(),
        rules: vec![Rule::new("example.com", "foos").versions(["v1"])],
        calls: CallOptions::default(),
    }
}

fn small() -> OperatorManifests {
    let mut operator = OperatorManifests::new("foo-operator", "foo-system", "example.com/foo-operator:v1");
    operator.permissions.push(Permission::new("example.com", "foos", ["get", "list", "watch", "patch"]));
    operator.permissions.push(Permission::new("example.com", "foos/status", ["patch"]));
    operator
}

/// An operator with all options.
fn large() -> OperatorManifests {
    let mut operator = small();
    operator.definitions = vec![definition("v1beta1", true), definition("v1", true)];
    let mut mutating = webhook(Endpoint::Mutating, "/mutate");
    mutating.calls = mutating.calls.match_condition("new", "true");
    operator.webhooks = vec![
        mutating,
        webhook(Endpoint::Validating, "/validate"),
        Description {
            versions: vec!["v1beta1".to_owned(), "v1".to_owned()],
            ..webhook(Endpoint::Conversion, "/convert")
        },
    ];
    operator.replicas = 3;
    operator.service_monitor = true;
    operator.network_policy = true;
    operator.certificates = WebhookCertificates::CertManager;
    operator.environment.push(("COLOUR".to_owned(), "yes".to_owned()));
    operator.arguments.push("--log-format=json".to_owned());
    operator
}

fn yaml(operator: &OperatorManifests, parts: &[Part]) -> String {
    let manifests = operator.build().unwrap();
    to_yaml(manifests.iter().filter(|manifest| parts.contains(&manifest.part)))
}

#[test]
fn a_small_operator_gets_an_account_permissions_and_a_deployment() {
    expect_file!["tests/small-operator.yaml"]
        .assert_eq(&yaml(&small(), &[Part::Namespace, Part::Rbac, Part::Services, Part::Deployment]));
}

#[test]
fn webhooks_get_configurations_and_a_certificate() {
    expect_file!["tests/webhooks.yaml"].assert_eq(&yaml(&large(), &[Part::Services, Part::Webhooks]));
}

#[test]
fn versions_of_one_resource_are_merged_into_one_crd_with_conversion() {
    expect![[r#"
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata:
          annotations:
            cert-manager.io/inject-ca-from: foo-system/foo-operator-webhook
          labels:
            app.kubernetes.io/managed-by: windlass
            app.kubernetes.io/name: foo-operator
          name: foos.example.com
        spec:
          conversion:
            strategy: Webhook
            webhook:
              clientConfig:
                service:
                  name: foo-operator-webhook
                  namespace: foo-system
                  path: /convert
                  port: 443
              conversionReviewVersions:
              - v1
          group: example.com
          names:
            kind: Foo
            plural: foos
          scope: Namespaced
          versions:
          - name: v1
            schema:
              openAPIV3Schema:
                type: object
            served: true
            storage: false
          - name: v1beta1
            schema:
              openAPIV3Schema:
                type: object
            served: true
            storage: true
    "#]]
    .assert_eq(&yaml(&large(), &[Part::Crds]));
}

#[test]
fn monitoring_and_network_policies_are_optional() {
    expect![[r#"
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata:
          labels:
            app.kubernetes.io/managed-by: windlass
            app.kubernetes.io/name: foo-operator
          name: foo-operator
          namespace: foo-system
        spec:
          ingress:
          - ports:
            - port: metrics
              protocol: TCP
            - port: webhook
              protocol: TCP
          podSelector:
            matchLabels:
              app.kubernetes.io/name: foo-operator
          policyTypes:
          - Ingress
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: ServiceMonitor
        metadata:
          labels:
            app.kubernetes.io/managed-by: windlass
            app.kubernetes.io/name: foo-operator
          name: foo-operator
          namespace: foo-system
        spec:
          endpoints:
          - bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
            path: /metrics
            port: metrics
            scheme: https
            tlsConfig:
              insecureSkipVerify: true
          selector:
            matchLabels:
              app.kubernetes.io/component: metrics
              app.kubernetes.io/name: foo-operator
    "#]]
    .assert_eq(&yaml(&large(), &[Part::Monitoring, Part::NetworkPolicy]));
    assert_eq!(yaml(&small(), &[Part::Monitoring, Part::NetworkPolicy]), "");
}

#[test]
fn the_deployment_comes_before_the_webhook_configurations() {
    let manifests = large().build().unwrap();
    let order: Vec<_> = manifests.iter().map(|manifest| format!("{} {}", manifest.kind(), manifest.name())).collect();
    expect![[r#"
        Namespace foo-system
        CustomResourceDefinition foos.example.com
        ServiceAccount foo-operator
        ClusterRole foo-operator
        ClusterRoleBinding foo-operator
        Role foo-operator
        RoleBinding foo-operator
        ClusterRole foo-operator-metrics-auth
        ClusterRoleBinding foo-operator-metrics-auth
        ClusterRole foo-operator-metrics-reader
        Service foo-operator-webhook
        Service foo-operator-metrics
        Deployment foo-operator
        PodDisruptionBudget foo-operator
        NetworkPolicy foo-operator
        Issuer foo-operator-webhook
        Certificate foo-operator-webhook
        MutatingWebhookConfiguration foo-operator
        ValidatingWebhookConfiguration foo-operator
        ServiceMonitor foo-operator"#]]
    .assert_eq(&order.join("\n"));
}

#[test]
fn an_operator_of_one_namespace_has_no_permissions_elsewhere() {
    let mut operator = OperatorManifests::new("foo-operator", "foo-system", "image");
    operator.permissions.push(Permission::new("example.com", "foos", ["get", "list", "watch"]).in_namespace("team"));
    operator.coordination = Coordination::Shards;
    operator.metrics_secure = false;
    let text = yaml(&operator, &[Part::Rbac]);
    assert!(!text.contains("ClusterRole"), "{text}");
    let rules =
        |manifest: &Manifest| (manifest.object.metadata.namespace.clone(), manifest.object.data["rules"].clone());
    let manifests = operator.build().unwrap();
    let roles: Vec<_> = manifests.iter().filter(|manifest| manifest.kind() == "Role").map(rules).collect();
    let events = json!({ "apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"] });
    let leases = ["create", "delete", "get", "list", "update"];
    let leases = json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": leases });
    let foos = json!({ "apiGroups": ["example.com"], "resources": ["foos"], "verbs": ["get", "list", "watch"] });
    assert_eq!(
        roles,
        [
            (Some("foo-system".to_owned()), json!([leases, events.clone()])),
            (Some("team".to_owned()), json!([events, foos])),
        ]
    );
}

#[test]
fn secure_metrics_need_reviews_and_a_role_to_read_them() {
    let mut operator = OperatorManifests::new("foo-operator", "foo-system", "image");
    operator.permissions.push(Permission::new("example.com", "foos", ["get"]).in_namespace("team"));
    let of_cluster = |operator: &OperatorManifests| -> Vec<(String, Value)> {
        let manifests = operator.build().unwrap().into_iter();
        let manifests = manifests.filter(|manifest| manifest.kind().starts_with("ClusterRole"));
        manifests.map(|manifest| (manifest.name().to_owned(), manifest.object.data)).collect()
    };
    let review =
        |group: &str, resource: &str| json!({ "apiGroups": [group], "resources": [resource], "verbs": ["create"] });
    let account = json!({ "kind": "ServiceAccount", "name": "foo-operator", "namespace": "foo-system" });
    let auth = "foo-operator-metrics-auth";
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": auth });
    let reviews = json!([
        review("authentication.k8s.io", "tokenreviews"),
        review("authorization.k8s.io", "subjectaccessreviews"),
    ]);
    let reader = json!([{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }]);
    assert_eq!(
        of_cluster(&operator),
        [
            (auth.to_owned(), json!({ "rules": reviews })),
            (auth.to_owned(), json!({ "roleRef": role, "subjects": [account] })),
            ("foo-operator-metrics-reader".to_owned(), json!({ "rules": reader })),
        ]
    );
    let arguments = |operator: &OperatorManifests| workload::arguments(operator).join(" ");
    assert!(arguments(&operator).contains("--metrics-bind-address=:8080 --metrics-secure "));

    let mut plain = operator.clone();
    plain.metrics_secure = false;
    let mut off = operator;
    off.metrics_port = None;
    for operator in [plain, off] {
        assert_eq!(of_cluster(&operator), []);
        assert!(!arguments(&operator).contains("--metrics-secure"));
    }
}

#[test]
fn a_restricted_operator_records_events_only_where_it_watches() {
    let mut operator = OperatorManifests::new("foo-operator", "foo-system", "image");
    operator.permissions.push(Permission::new("", "nodes", ["get"]));
    operator.watched_namespaces.push("team".to_owned());
    let events = operator.all_permissions().into_iter().filter(|permission| permission.resource == "events");
    let places: Vec<Option<String>> = events.map(|permission| permission.namespace).collect();
    assert_eq!(places, ["default", "team", "foo-system"].map(|name| Some(name.to_owned())));
    operator.watched_namespaces.clear();
    assert!(operator.all_permissions().iter().any(|each| each.resource == "events" && each.namespace.is_none()));
}

#[test]
fn inconsistent_versions_are_rejected() {
    let mut operator = small();
    operator.definitions = vec![definition("v1", true), definition("v1", false)];
    let error = operator.build().unwrap_err();
    assert_eq!(error.to_string(), "failed to merge the versions of foos.example.com: v1 is defined twice");

    operator.definitions = vec![definition("v1", true), definition("v1", true)];
    assert!(operator.build().is_ok(), "the same CRD may be given twice");

    let mut other = definition("v2", false);
    other.spec.scope = "Cluster".to_owned();
    operator.definitions.push(other);
    assert!(matches!(operator.build(), Err(ManifestError::Merge { .. })));

    operator.definitions.clear();
    operator.webhooks = vec![webhook(Endpoint::Conversion, "/convert")];
    assert!(matches!(operator.build(), Err(ManifestError::Undefined { .. })));
}

/// A field that the type does not know would be lost.
#[test]
fn every_field_is_one_of_its_type() {
    fn through<K: Serialize + DeserializeOwned>(object: &Value) -> Value {
        serde_json::to_value(serde_json::from_value::<K>(object.clone()).unwrap()).unwrap()
    }
    for manifest in large().build().unwrap().into_iter().chain(small().build().unwrap()) {
        let object = serde_json::to_value(&manifest.object).unwrap();
        let typed = match manifest.kind() {
            "Namespace" => through::<Namespace>(&object),
            "CustomResourceDefinition" => through::<CustomResourceDefinition>(&object),
            "ServiceAccount" => through::<ServiceAccount>(&object),
            "ClusterRole" => through::<ClusterRole>(&object),
            "ClusterRoleBinding" => through::<ClusterRoleBinding>(&object),
            "Role" => through::<Role>(&object),
            "RoleBinding" => through::<RoleBinding>(&object),
            "Service" => through::<Service>(&object),
            "Deployment" => through::<Deployment>(&object),
            "PodDisruptionBudget" => through::<PodDisruptionBudget>(&object),
            "NetworkPolicy" => through::<NetworkPolicy>(&object),
            "MutatingWebhookConfiguration" => through::<MutatingWebhookConfiguration>(&object),
            "ValidatingWebhookConfiguration" => through::<ValidatingWebhookConfiguration>(&object),
            "ServiceMonitor" | "Issuer" | "Certificate" => continue,
            other => panic!("no type for {other}"),
        };
        assert_eq!(typed, object);
    }
}

#[test]
fn the_program_understands_the_arguments_of_its_deployment() {
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        flags: crate::operator::Flags,
    }
    for coordination in [Coordination::Single, Coordination::Leader, Coordination::Shards] {
        for mut operator in [small(), large()] {
            operator.coordination = coordination;
            let arguments = ["program".to_owned()].into_iter().chain(workload::arguments(&operator));
            let flags = <Program as clap::Parser>::try_parse_from(arguments).unwrap().flags;
            assert_eq!(flags.elects_leader(true), coordination == Coordination::Leader);
            assert_eq!(flags.shards, coordination == Coordination::Shards);
            assert!(flags.metrics_secure);
            assert_eq!(flags.webhook_cert_dir.is_some(), operator.certificates == WebhookCertificates::CertManager);
        }
    }
}
