//! Workload: Services, the Deployment, its PodDisruptionBudget, and a NetworkPolicy.

use serde_json::{Value, json};

use super::{Coordination, Manifest, OperatorManifests, Part, WebhookCertificates, webhooks};

/// Mount path of the certificate.
const CERTIFICATE_DIRECTORY: &str = "/var/run/windlass/webhook";

/// Longer than the operator's own timeouts: 30 seconds for work in flight, and 8 for its last events and its lease.
const TERMINATION_GRACE_SECONDS: u32 = 40;

pub(super) fn manifests(operator: &OperatorManifests) -> Vec<Manifest> {
    let mut manifests = Vec::new();
    if operator.has_webhook_server() {
        let mut webhooks = service(operator, operator.webhook_service(), "webhook", 443);
        // An operator is ready when its caches are synced. To list objects of an older version, the API server calls
        // the conversion webhook: so pods that are not ready must be reachable, or they never become ready.
        webhooks.object.data["spec"]["publishNotReadyAddresses"] = json!(true);
        manifests.push(webhooks);
    }
    if let Some(port) = operator.metrics_port {
        manifests.push(service(operator, metrics_service(operator), "metrics", port));
    }
    manifests.push(deployment(operator));
    if operator.replicas > 1 {
        let spec = json!({ "maxUnavailable": 1, "selector": { "matchLabels": operator.selector() } });
        let resource = ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets");
        manifests.push(own(operator, Part::Deployment, resource, &operator.name, spec));
    }
    if operator.network_policy {
        manifests.push(network_policy(operator));
    }
    manifests
}

fn metrics_service(operator: &OperatorManifests) -> String {
    format!("{}-metrics", operator.name)
}

/// Returns an object in the namespace of the operator, whose content is a `spec`.
fn own(
    operator: &OperatorManifests,
    part: Part,
    resource: (&str, &str, &str, &str),
    name: &str,
    spec: Value,
) -> Manifest {
    operator.manifest(part, resource, Some(&operator.namespace), name, json!({ "spec": spec }))
}

fn service(operator: &OperatorManifests, name: String, port_name: &str, port: u16) -> Manifest {
    let spec = json!({
        "ports": [{ "name": port_name, "port": port, "protocol": "TCP", "targetPort": port_name }],
        "selector": operator.selector(),
    });
    let mut manifest = own(operator, Part::Services, ("", "v1", "Service", "services"), &name, spec);
    // Distinguishes the Service of metrics from that of webhooks.
    let labels = manifest.object.metadata.labels.get_or_insert_default();
    labels.insert("app.kubernetes.io/component".to_owned(), port_name.to_owned());
    manifest
}

fn deployment(operator: &OperatorManifests) -> Manifest {
    let mut pod = json!({
        "containers": [container(operator)],
        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        "serviceAccountName": operator.name,
        "terminationGracePeriodSeconds": TERMINATION_GRACE_SECONDS,
    });
    if mounts_certificate(operator) {
        let secret = json!({ "secretName": webhooks::certificate_secret(operator) });
        pod["volumes"] = json!([{ "name": "webhook-certificate", "secret": secret }]);
    }
    if operator.replicas > 1 {
        pod["topologySpreadConstraints"] = json!([{
            "labelSelector": { "matchLabels": operator.selector() },
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
        }]);
    }
    let spec = json!({
        "replicas": operator.replicas,
        "selector": { "matchLabels": operator.selector() },
        "template": { "metadata": { "labels": operator.labels() }, "spec": pod },
    });
    own(operator, Part::Deployment, ("apps", "v1", "Deployment", "deployments"), &operator.name, spec)
}

fn container(operator: &OperatorManifests) -> Value {
    let downward = |name: &str, path: &str| {
        // The version is a server-side default. It is set here, so that applying this manifest does not differ from the
        // stored object.
        json!({ "name": name, "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": path } } })
    };
    let mut environment = vec![downward("POD_NAME", "metadata.name"), downward("POD_NAMESPACE", "metadata.namespace")];
    environment.extend(operator.environment.iter().map(|(name, value)| json!({ "name": name, "value": value })));
    let probe = |path: &str| json!({ "httpGet": { "path": path, "port": "probes" } });

    let mut container = json!({
        "name": "operator",
        "image": operator.image,
        "args": arguments(operator),
        "env": environment,
        "livenessProbe": probe("/livez"),
        "ports": ports(operator),
        "readinessProbe": probe("/readyz"),
        "resources": operator.resources,
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
    });
    if mounts_certificate(operator) {
        container["volumeMounts"] =
            json!([{ "name": "webhook-certificate", "mountPath": CERTIFICATE_DIRECTORY, "readOnly": true }]);
    }
    container
}

fn ports(operator: &OperatorManifests) -> Vec<Value> {
    let metrics = operator.metrics_port.map(|port| ("metrics", port));
    let webhook = operator.has_webhook_server().then_some(("webhook", operator.webhook_port));
    let ports = metrics.into_iter().chain([("probes", operator.probes_port)]).chain(webhook);
    ports.map(|(name, port)| json!({ "name": name, "containerPort": port, "protocol": "TCP" })).collect()
}

/// Returns the [`Flags`](crate::operator::Flags) that make the program do what its manifests say.
pub(super) fn arguments(operator: &OperatorManifests) -> Vec<String> {
    let metrics = operator.metrics_port.map_or_else(|| "0".to_owned(), |port| format!(":{port}"));
    let mut arguments = vec![
        match operator.coordination {
            Coordination::Single => "--leader-elect=false".to_owned(),
            Coordination::Leader => "--leader-elect".to_owned(),
            Coordination::Shards => "--shards".to_owned(),
        },
        format!("--metrics-bind-address={metrics}"),
    ];
    if operator.serves_secure_metrics() {
        arguments.push("--metrics-secure".to_owned());
    }
    arguments.push(format!("--health-probe-bind-address=:{}", operator.probes_port));
    if operator.has_webhook_server() {
        arguments.push(format!("--webhook-port={}", operator.webhook_port));
    }
    if mounts_certificate(operator) {
        arguments.push(format!("--webhook-cert-dir={CERTIFICATE_DIRECTORY}"));
    }
    arguments.extend(operator.arguments.iter().cloned());
    arguments
}

fn mounts_certificate(operator: &OperatorManifests) -> bool {
    operator.has_webhook_server() && operator.certificates == WebhookCertificates::CertManager
}

/// Allows all clients to scrape metrics and call webhooks, and nothing else. Kubelets can always probe.
fn network_policy(operator: &OperatorManifests) -> Manifest {
    let open = ports(operator).into_iter().map(|port| port["name"].clone()).filter(|name| name != "probes");
    let ports: Vec<_> = open.map(|name| json!({ "port": name, "protocol": "TCP" })).collect();
    let ingress = if ports.is_empty() { json!([]) } else { json!([{ "ports": ports }]) };
    let spec = json!({
        "ingress": ingress,
        "podSelector": { "matchLabels": operator.selector() },
        "policyTypes": ["Ingress"],
    });
    let resource = ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies");
    own(operator, Part::NetworkPolicy, resource, &operator.name, spec)
}
