//! The scope of the operator: its install modes, its permissions and its Deployment.

use serde_json::{Map, Value, json};

use super::{Package, definitions, of_kind, remove};
use crate::package::{WATCHED, namespace};

/// Path where OLM mounts certificates.
const CERTIFICATES: &str = "/tmp/k8s-webhook-server/serving-certs";

/// Install modes of the operator in OLM, and its permissions in them.
pub(super) struct Scope<'p, 'a> {
    package: &'p Package<'a>,
    /// Whether it can be restricted to namespaces.
    namespaced: bool,
    /// Whether it can watch all namespaces.
    everywhere: bool,
    converts: bool,
}

impl<'p, 'a> Scope<'p, 'a> {
    /// An operator can be restricted to namespaces unless one of its resources is cluster-scoped or converted: all
    /// namespaces share both. An operator whose code names its namespaces cannot watch all of them.
    pub(super) fn new(package: &'p Package<'a>) -> Self {
        let own = namespace(package);
        let converts = definitions(package).any(|one| one.pointer("/spec/conversion/webhook").is_some());
        let of_cluster = definitions(package).any(|one| one["spec"]["scope"] == "Cluster");
        let namespaced = !converts && !of_cluster && !package.watched_with_cert_manager.is_empty();
        let is_elsewhere =
            |role: &Value| role["metadata"]["namespace"] != own && role["metadata"]["namespace"] != "default";
        let restricted = of_kind(package, "Role").any(is_elsewhere);
        Self { package, namespaced, everywhere: !namespaced || !restricted, converts }
    }

    pub(super) fn install_modes(&self) -> Value {
        let mode = |kind: &str, supported: bool| json!({ "type": kind, "supported": supported });
        json!([
            mode("OwnNamespace", self.namespaced),
            mode("SingleNamespace", self.namespaced),
            mode("MultiNamespace", self.namespaced),
            mode("AllNamespaces", self.everywhere),
        ])
    }

    /// Roles of the operator. OLM creates those of namespaces in each watched namespace, or for the whole cluster.
    fn roles(&self) -> impl Iterator<Item = &'p Value> {
        let roles = match self.namespaced {
            true => self.package.watched_with_cert_manager,
            false => self.package.with_cert_manager,
        };
        let package = self.package;
        roles.iter().filter(move |object| {
            (object["kind"] == "ClusterRole" || object["kind"] == "Role") && !package.is_metrics_reader(object)
        })
    }

    /// All rules.
    pub(super) fn rules(&self) -> Vec<&'p Value> {
        self.roles().filter_map(|role| role["rules"].as_array()).flatten().collect()
    }

    /// The install strategy: the Deployment and the permissions of its service account.
    pub(super) fn strategy(&self, account: &str) -> Value {
        let deployments: Vec<Value> = of_kind(self.package, "Deployment").map(|one| self.deployment(one)).collect();
        let own = namespace(self.package);
        // A namespace that is neither the operator's nor a watched one has no Role in OLM.
        let is_local = |role: &Value| {
            let place = &role["metadata"]["namespace"];
            *place == own || *place == WATCHED
        };
        let permissions = |local: bool| -> Option<Value> {
            let roles = self.roles().filter(|role| is_local(role) == local);
            let mut rules: Vec<&Value> = Vec::new();
            for rule in roles.filter_map(|role| role["rules"].as_array()).flatten() {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
            (!rules.is_empty()).then(|| json!([{ "serviceAccountName": account, "rules": rules }]))
        };
        let mut strategy = Map::new();
        strategy.insert("deployments".to_owned(), deployments.into());
        for (field, local) in [("clusterPermissions", false), ("permissions", true)] {
            strategy.extend(permissions(local).map(|permissions| (field.to_owned(), permissions)));
        }
        strategy.into()
    }

    fn deployment(&self, deployment: &Value) -> Value {
        let mut spec = deployment["spec"].clone();
        mount_nothing(&mut spec);
        let variables = spec.pointer_mut("/template/spec/containers/0/env").and_then(Value::as_array_mut);
        if let Some(variables) = variables.filter(|_| self.namespaced) {
            // Empty if the operator watches all namespaces.
            let field = json!({ "apiVersion": "v1", "fieldPath": "metadata.annotations['olm.targetNamespaces']" });
            variables.push(json!({ "name": "WATCH_NAMESPACE", "valueFrom": { "fieldRef": field } }));
        }
        // OLM's Service has only ready pods. To list objects of an older version for the caches, the API server calls
        // the conversion webhook, so an operator that becomes ready with its caches would never become ready.
        if self.converts
            && let Some(probe) = spec.pointer_mut("/template/spec/containers/0/readinessProbe/httpGet")
        {
            probe["path"] = "/readyz?exclude=informer-sync".into();
        }
        json!({ "name": deployment["metadata"]["name"], "label": deployment["metadata"]["labels"], "spec": spec })
    }
}

/// Removes certificate mounts: OLM adds its own, whose path is passed to the operator.
fn mount_nothing(spec: &mut Value) {
    remove(spec, "/template/spec", "volumes");
    remove(spec, "/template/spec/containers/0", "volumeMounts");
    let arguments = spec.pointer_mut("/template/spec/containers/0/args").and_then(Value::as_array_mut);
    for argument in arguments.into_iter().flatten() {
        if argument.as_str().is_some_and(|argument| argument.starts_with("--webhook-cert-dir=")) {
            *argument = format!("--webhook-cert-dir={CERTIFICATES}").into();
        }
    }
}
