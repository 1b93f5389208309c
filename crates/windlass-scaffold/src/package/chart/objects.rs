//! Templates of objects that come from the operator: CRDs, RBAC rules and webhook configurations.

use serde_json::{Map, Value, json};
use windlass_schema::sorting::Gather as _;

use super::{header, literal};
use crate::package::{Package, WATCHED, namespace, yaml};

/// Kinds of webhook configurations.
pub(super) const CONFIGURATIONS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

const RIGHTS: [&str; 4] = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

/// Placeholders for values of the release. They are plain words, so that YAML does not quote them.
const FULL_NAME: &str = "windlassXfullname";
const NAMESPACE: &str = "windlassXnamespace";
const ACCOUNT: &str = "windlassXaccount";
const SERVICE: &str = "windlassXservice";
const EACH_NAMESPACE: &str = "windlassXeach";
const LABELS: &str = "windlassXlabels: here";
const SHARDS: &str = "windlassXshards";
const ANNOTATIONS: &str = "windlassXannotations: here";

/// Names and contents of the templates.
pub(super) fn templates(package: &Package<'_>) -> Vec<(String, String)> {
    let text = Texts { package, operator: package.name(), namespace: namespace(package) };
    let mut templates = Vec::new();
    for definition in package.of_kind("CustomResourceDefinition") {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        templates.push((format!("crds/{name}.yaml"), text.definition(definition)));
    }
    templates.push(("rbac.yaml".to_owned(), text.rights()));
    if !package.roles.is_empty() {
        templates.push(("roles.yaml".to_owned(), text.roles()));
    }
    if CONFIGURATIONS.iter().any(|kind| package.of_kind(kind).next().is_some()) {
        templates.push(("webhooks.yaml".to_owned(), text.configurations()));
    }
    templates
}

struct Texts<'p, 'a> {
    package: &'p Package<'a>,
    operator: &'a str,
    namespace: &'a str,
}

impl Texts<'_, '_> {
    fn definition(&self, definition: &Value) -> String {
        let mut object = definition.clone();
        let converted = object.pointer("/spec/conversion/webhook").is_some();
        if let Some(client) = object.pointer_mut("/spec/conversion/webhook/clientConfig") {
            self.through_service(client);
        }
        prepare(&mut object, true);
        let mut annotations = "{{- if .Values.crds.keep }}\nhelm.sh/resource-policy: keep\n{{- end }}\n".to_owned();
        if converted {
            annotations.push_str(&self.authority());
        }
        let text = self.filled(&object, &annotations);
        format!("{}\n{{{{- if .Values.crds.enabled }}}}\n{text}{{{{- end }}}}\n", header())
    }

    /// The operator needs fewer permissions if cert-manager issues the certificates, and other ones if it watches only
    /// some namespaces: then it has a Role in each of them.
    fn rights(&self) -> String {
        let Package { manifests, with_cert_manager, watched, watched_with_cert_manager, .. } = self.package;
        let everywhere = self.by_certificates(manifests, with_cert_manager);
        let watched = self.by_certificates(watched, watched_with_cert_manager);
        format!(
            "{}\n{{{{- if .Values.rbac.create }}}}\n{{{{- if .Values.watchNamespaces }}}}\n{watched}{{{{- else }}}}\n\
             {everywhere}{{{{- end }}}}\n{{{{- end }}}}\n",
            header()
        )
    }

    fn by_certificates(&self, own: &[Value], others: &[Value]) -> String {
        let (own, others) = (self.rights_of(own), self.rights_of(others));
        match own == others {
            true => own,
            false => format!(
                "{{{{- if .Values.webhooks.certManager.enabled }}}}\n{others}{{{{- else }}}}\n{own}{{{{- end }}}}\n"
            ),
        }
    }

    fn rights_of(&self, manifests: &[Value]) -> String {
        let is_watched = |object: &&Value| object["metadata"]["namespace"] == WATCHED;
        // The roles of secure metrics are a template of their own, with a value that switches them off.
        let objects = manifests.iter().filter(|object| {
            RIGHTS.iter().any(|kind| object["kind"] == **kind) && !self.package.is_role_of_metrics(object)
        });
        let (watched, fixed): (Vec<&Value>, Vec<&Value>) = objects.partition(is_watched);
        let fixed: Vec<String> = fixed.into_iter().map(|object| self.right(object)).collect();
        let mut text = fixed.join("---\n");
        if !watched.is_empty() {
            let each = watched.into_iter().map(|object| format!("---\n{}", in_range(&self.right(object))));
            let each: String = each.collect();
            text.push_str(&format!("{{{{- range .Values.watchNamespaces }}}}\n{each}{{{{- end }}}}\n"));
        }
        text
    }

    fn right(&self, object: &Value) -> String {
        let mut object = object.clone();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(self.namespace).to_owned();
        // Namespaces may be the same as that of the release, whose Role has the full name.
        let (name, namespace) = match namespace.as_str() {
            WATCHED => (format!("{FULL_NAME}-watched"), EACH_NAMESPACE.to_owned()),
            namespace if namespace == self.namespace => (FULL_NAME.to_owned(), NAMESPACE.to_owned()),
            namespace => (format!("{FULL_NAME}-{namespace}"), namespace.to_owned()),
        };
        object["metadata"]["name"] = name.clone().into();
        if let Some(there) = object["metadata"].get_mut("namespace") {
            *there = namespace.into();
        }
        if let Some(reference) = object.get_mut("roleRef") {
            reference["name"] = name.into();
        }
        for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            *subject = json!({ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE });
        }
        let service = format!("{}-webhook", self.operator);
        for rule in object.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
            if rule["resources"] == json!(["leases"])
                && let Some(verbs) = rule["verbs"].as_array_mut()
            {
                verbs.push(SHARDS.into());
            }
            let names = rule.get_mut("resourceNames").and_then(Value::as_array_mut);
            for name in names.into_iter().flatten() {
                // The Secret with the certificates is named after the Service.
                let rest = name.as_str().and_then(|name| name.strip_prefix(&service)).map(str::to_owned);
                if let Some(rest) = rest {
                    *name = format!("{SERVICE}{rest}").into();
                }
            }
        }
        prepare(&mut object, false);
        self.filled(&object, "")
    }

    fn roles(&self) -> String {
        let roles = self.package.roles.iter().map(|role| {
            let mut role = role.clone();
            let name = role["metadata"]["name"].as_str().unwrap_or_default();
            let rest = name.strip_prefix(self.operator).filter(|rest| rest.starts_with('-'));
            role["metadata"]["name"] = format!("{FULL_NAME}{}", rest.unwrap_or("-role")).into();
            // Labels that aggregate the role into the cluster's default roles are kept.
            let labels = role["metadata"]["labels"].take();
            prepare(&mut role, false);
            let kept: Map<String, Value> = match labels {
                Value::Object(labels) => {
                    labels.into_iter().filter(|(name, _)| !name.starts_with("app.kubernetes.io/")).gather()
                }
                _ => Map::new(),
            };
            if let Some(labels) = role["metadata"]["labels"].as_object_mut() {
                labels.extend(kept);
            }
            self.filled(&role, "")
        });
        let text = roles.collect::<Vec<_>>().join("---\n");
        format!("{}\n{{{{- if .Values.rbac.aggregate }}}}\n{text}{{{{- end }}}}\n", header())
    }

    fn configurations(&self) -> String {
        let all = CONFIGURATIONS.iter().flat_map(|kind| self.package.of_kind(kind));
        let texts = all.map(|configuration| {
            let mut object = configuration.clone();
            for webhook in object["webhooks"].as_array_mut().into_iter().flatten() {
                self.through_service(&mut webhook["clientConfig"]);
            }
            prepare(&mut object, true);
            self.filled(&object, &self.authority())
        });
        let text = texts.collect::<Vec<_>>().join("---\n");
        format!("{}\n{{{{- if .Values.webhooks.enabled }}}}\n{text}{{{{- end }}}}\n", header())
    }

    fn through_service(&self, client: &mut Value) {
        if let Some(service) = client.get_mut("service") {
            service["name"] = SERVICE.into();
            service["namespace"] = NAMESPACE.into();
        }
    }

    /// The annotation that makes cert-manager inject the CA bundle.
    fn authority(&self) -> String {
        let certificate =
            format!("{{{{ .Release.Namespace }}}}/{{{{ include \"{}.webhookService\" . }}}}", self.operator);
        format!(
            "{{{{- if .Values.webhooks.certManager.enabled }}}}\n\
             cert-manager.io/inject-ca-from: {certificate}\n{{{{- end }}}}\n"
        )
    }

    /// The YAML of an object with the placeholders replaced.
    fn filled(&self, object: &Value, annotations: &str) -> String {
        let name = self.operator;
        let included = |what: &str| format!("{{{{ include \"{name}.{what}\" . }}}}");
        let mut text = literal(&yaml::write(object))
            .replace(FULL_NAME, &included("fullname"))
            .replace(NAMESPACE, "{{ .Release.Namespace }}")
            .replace(EACH_NAMESPACE, "{{ . }}")
            .replace(ACCOUNT, &included("serviceAccountName"))
            .replace(SERVICE, &included("webhookService"));
        // Sharded replicas watch each other's Leases.
        let shards = "{{- if eq .Values.coordination \"shards\" }}\n  - delete\n  - list\n  {{- end }}";
        text = text.replace(&format!("- {SHARDS}"), shards);
        let labels = format!("{{{{- include \"{name}.labels\" . | nindent 4 }}}}");
        text = text.replace(LABELS, &labels);
        let annotations: Vec<&str> = annotations.lines().collect();
        text.replace(ANNOTATIONS, &annotations.join("\n    "))
    }
}

/// Adapts a template to a `range`, where the dot is the item.
fn in_range(text: &str) -> String {
    text.replace("{{ .Release.", "{{ $.Release.").replace("\" . }}", "\" $ }}").replace("\" . |", "\" $ |")
}

/// Replaces the labels of the manifests with those of the chart, and adds a place for annotations.
fn prepare(object: &mut Value, annotated: bool) {
    let place = |mark: &str| mark.split(':').next().unwrap_or_default().to_owned();
    object["metadata"]["labels"] = json!({ place(LABELS): "here" });
    if annotated {
        object["metadata"]["annotations"][place(ANNOTATIONS)] = "here".into();
    }
}
