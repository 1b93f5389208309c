//! The roles and bindings that every cluster has, as kube-apiserver v1.36.4 creates them; `cargo xtask policy` reads
//! them from it.
//!
//! An empty cluster gets them in their stored form: exactly what requests to create them would store, with the rules
//! that the control loop aggregates, for a fraction of the time. At later starts, missing parts of objects are added as
//! in kube-apiserver; nothing is ever removed.

use std::sync::Arc;

use futures_util::FutureExt as _;
use http::{Method, StatusCode};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use uuid::Uuid;
use windlass_schema::sorting::Gather as _;
use windlass_store::Error as StoreError;

use super::{GROUP, PolicyRule, RESOURCES, uncovered};
use crate::{bootstrap::request, meta, server::Inner, status::ApiError};

/// A line per object: its key, the labels that not all of them have, and everything but the metadata.
const DEFAULTS: &str = include_str!("../../../data/bootstrap-policy.txt");
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const BOOTSTRAPPING: &str = "kubernetes.io/bootstrapping";
/// Number of retries for an object that another client changes at the same time.
const ATTEMPTS: usize = 3;

/// An object that every cluster has.
#[derive(Clone, Copy)]
struct Default<'a> {
    plural: &'a str,
    /// `namespace/name`, or `name`.
    key: &'a str,
    /// The labels that not all of them have, as JSON.
    labels: &'a str,
    /// Everything but the metadata, as JSON.
    body: &'a str,
}

/// Returns the objects that every cluster has.
fn defaults() -> impl Iterator<Item = Default<'static>> {
    DEFAULTS.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ' ');
        let (plural, key) = parts.next()?.split_once('/')?;
        Some(Default { plural, key, labels: parts.next()?, body: parts.next()? })
    })
}

impl Default<'_> {
    fn namespace_and_name(&self) -> (&str, &str) {
        self.key.split_once('/').unwrap_or(("", self.key))
    }

    fn kind(&self) -> &'static str {
        match self.plural {
            "clusterroles" => "ClusterRole",
            "roles" => "Role",
            "clusterrolebindings" => "ClusterRoleBinding",
            _ => "RoleBinding",
        }
    }

    /// Returns the object in the form in which it is stored.
    fn encode_for_storage(&self, now: &str, uid: Uuid) -> String {
        let kind = self.kind();
        let (namespace, name) = self.namespace_and_name();
        let namespace = if namespace.is_empty() { String::new() } else { format!(r#","namespace":"{namespace}""#) };
        // `{"a":"true"}`
        let labels = self.labels.trim_matches(['{', '}']);
        let comma = if labels.is_empty() { "" } else { "," };
        let names = labels.split('"').skip(1).step_by(4).map(|name| format!(r#","f:{name}":{{}}"#));
        let names: String = names.collect();
        let has = |field: &str| self.body.contains(&format!(r#""{field}":"#));
        let entry = |fields: &str, manager: &str, operation: &str| {
            format!(
                r#"{{"apiVersion":"{GROUP}/v1","fieldsType":"FieldsV1","fieldsV1":{{{fields}}},"manager":"{manager}","operation":"{operation}","time":"{now}"}}"#
            )
        };
        let metadata = format!(
            r#""f:metadata":{{"f:annotations":{{".":{{}},"f:{AUTO_UPDATE}":{{}}}},"f:labels":{{".":{{}},"f:{BOOTSTRAPPING}":{{}}{names}}}}}"#
        );
        let managers = if has("aggregationRule") {
            let aggregated = r#""f:aggregationRule":{".":{},"f:clusterRoleSelectors":{}},"#;
            entry(r#""f:rules":{}"#, "clusterrole-aggregation-controller", "Apply")
                + ","
                + &entry(&format!("{aggregated}{metadata}"), "kube-apiserver", "Update")
        } else {
            let own = ["roleRef", "rules", "subjects"].into_iter().filter(|field| has(field));
            let own: String = own.map(|field| format!(r#","f:{field}":{{}}"#)).collect();
            entry(&format!("{metadata}{own}"), "kube-apiserver", "Update")
        };
        let body = self.body.strip_prefix('{').unwrap_or_default();
        format!(
            r#"{{"kind":"{kind}","apiVersion":"{GROUP}/v1","metadata":{{"annotations":{{"{AUTO_UPDATE}":"true"}},"creationTimestamp":"{now}","labels":{{"{BOOTSTRAPPING}":"rbac-defaults"{comma}{labels}}},"managedFields":[{managers}],"name":"{name}"{namespace},"uid":"{uid}"}},{body}"#
        )
    }

    /// Returns the object as a request creates it: rules of an aggregated role come from the control loop.
    fn to_value(self) -> Value {
        let parse = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
        let mut object = parse(self.body);
        let (namespace, name) = self.namespace_and_name();
        let mut labels = parse(self.labels);
        labels.insert(BOOTSTRAPPING.to_owned(), "rbac-defaults".into());
        let mut metadata = json!({"name": name, "labels": labels, "annotations": {AUTO_UPDATE: "true"}});
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        if object.contains_key("aggregationRule") {
            object.insert("rules".to_owned(), Value::Null);
        }
        object.insert("apiVersion".to_owned(), format!("{GROUP}/v1").into());
        object.insert("kind".to_owned(), self.kind().into());
        object.insert("metadata".to_owned(), metadata);
        object.into()
    }

    fn collection(&self) -> String {
        match self.namespace_and_name() {
            ("", _) => format!("/apis/{GROUP}/v1/{}", self.plural),
            (namespace, _) => format!("/apis/{GROUP}/v1/namespaces/{namespace}/{}", self.plural),
        }
    }
}

/// Stores the roles and bindings of an empty cluster. Returns false, and changes none, if there are some already.
pub(crate) async fn store_defaults(server: &Arc<Inner>) -> Result<bool, ApiError> {
    if server.rbac.caches.iter().any(|cache| !cache.is_empty()) {
        return Ok(false);
    }
    let now = meta::format_time(server.now());
    let writes = defaults().map(|default| {
        let object = default.encode_for_storage(&now, Uuid::new_v4());
        let write = async move {
            let key = format!("/{GROUP}/{}/{}", default.plural, default.key);
            match server.storage.store().create(&key, object.into()).await {
                Ok(_) => Ok(true),
                // Another server was faster.
                Err(StoreError::Exists { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        };
        write.boxed()
    });
    let stored = futures_util::future::try_join_all(writes).await?;
    server.storage.fresh().await?;
    Ok(stored.into_iter().all(|stored| stored))
}

/// Adds what roles and bindings lack, concurrently, so that a durable store syncs only once or twice.
pub(crate) async fn reconcile(server: &Arc<Inner>) -> Result<(), ApiError> {
    let reconcile = |default| async move {
        for _ in 1..ATTEMPTS {
            match reconcile_one(server, default).await {
                Err(error) if matches!(error.code, StatusCode::CONFLICT | StatusCode::NOT_FOUND) => {
                    server.storage.fresh().await?;
                }
                result => return result,
            }
        }
        reconcile_one(server, default).await
    };
    futures_util::future::try_join_all(defaults().map(|default| reconcile(default).boxed())).await?;
    server.storage.fresh().await?;
    Ok(())
}

async fn reconcile_one(server: &Arc<Inner>, default: Default<'_>) -> Result<(), ApiError> {
    let cache = server.rbac.caches.iter().zip(RESOURCES).find(|(_, (plural, _))| *plural == default.plural);
    let current = cache.and_then(|(cache, _)| cache.get(default.key));
    let wanted = default.to_value();
    let collection = default.collection();
    let path = format!("{collection}/{}", default.namespace_and_name().1);
    match current.map(|current| compare(current.to_value(), &wanted)) {
        Some(Repair::None) => Ok(()),
        Some(Repair::Update(object)) => request(server, Method::PUT, &path, &object).await,
        Some(Repair::Recreate { uid }) => {
            request(server, Method::DELETE, &path, &json!({"preconditions": {"uid": uid}})).await?;
            request(server, Method::POST, &collection, &wanted).await
        }
        None => request(server, Method::POST, &collection, &wanted).await,
    }
}

/// The change after which a stored object contains the whole default.
#[derive(Debug, PartialEq)]
enum Repair {
    None,
    Update(Value),
    /// The role of a binding cannot be changed.
    Recreate {
        uid: Value,
    },
}

fn compare(current: Value, wanted: &Value) -> Repair {
    if current["metadata"]["annotations"][AUTO_UPDATE] == "false" {
        return Repair::None;
    }
    if current.get("roleRef") != wanted.get("roleRef") {
        return Repair::Recreate { uid: current["metadata"]["uid"].clone() };
    }
    let mut updated = current.clone();
    for field in ["annotations", "labels"] {
        for (name, value) in wanted["metadata"][field].as_object().into_iter().flatten() {
            let known = &mut updated["metadata"][field][name];
            if known.is_null() {
                *known = value.clone();
            }
        }
    }
    let rules = |object: &Value| Vec::<PolicyRule>::deserialize(&object["rules"]).unwrap_or_default();
    let missing = uncovered(&rules(&current), &rules(wanted));
    append(&mut updated, "rules", missing.iter().map(to_value));
    append(&mut updated, "subjects", lacking(&current["subjects"], &wanted["subjects"]));
    match (current.get("aggregationRule"), wanted.get("aggregationRule")) {
        (Some(_), None) => drop(updated.as_object_mut().map(|object| object.remove("aggregationRule"))),
        (known, Some(rule)) => {
            let selectors = |rule: &Value| rule["clusterRoleSelectors"].clone();
            let lacking = lacking(&known.map(selectors).unwrap_or_default(), &selectors(rule));
            if !lacking.is_empty() {
                append(&mut updated["aggregationRule"], "clusterRoleSelectors", lacking);
            }
        }
        (None, None) => {}
    }
    if updated == current { Repair::None } else { Repair::Update(updated) }
}

/// Returns the entries of `wanted` that are not in `known`.
fn lacking(known: &Value, wanted: &Value) -> Vec<Value> {
    let entries = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let known = entries(known);
    entries(wanted).into_iter().filter(|entry| !known.contains(entry)).collect()
}

fn append(object: &mut Value, field: &str, entries: impl IntoIterator<Item = Value>) {
    for entry in entries {
        match object[field].as_array_mut() {
            Some(list) => list.push(entry),
            None => object[field] = vec![entry].into(),
        }
    }
}

fn to_value(rule: &PolicyRule) -> Value {
    let fields = rule.fields().into_iter().filter(|(_, list)| !list.is_empty());
    let fields = fields.map(|(name, list)| (name.to_owned(), list.iter().map(|text| &**text).collect()));
    fields.gather::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default(key: &str) -> Value {
        let (plural, key) = key.split_once('/').unwrap();
        defaults().find(|default| default.plural == plural && default.key == key).unwrap().to_value()
    }

    #[test]
    fn the_stored_form_has_everything_of_the_default() {
        assert_eq!(defaults().count(), 133);
        for default in defaults() {
            let stored: Value = serde_json::from_str(&default.encode_for_storage("now", Uuid::nil())).unwrap();
            assert_eq!(compare(stored.clone(), &default.to_value()), Repair::None, "{stored}");
            assert_eq!(stored["metadata"]["uid"], Uuid::nil().to_string());
        }
    }

    #[test]
    fn missing_parts_are_added_and_additions_are_kept() {
        let wanted = default("clusterroles/system:discovery");
        let mut current = wanted.clone();
        current["metadata"]["labels"] = json!({"own": "label"});
        current["metadata"]["annotations"]["own"] = "annotation".into();
        let urls = current["rules"][0]["nonResourceURLs"].as_array_mut().unwrap();
        let removed = urls.remove(1);
        current["rules"].as_array_mut().unwrap().push(json!({"verbs": ["head"], "nonResourceURLs": ["/"]}));
        let mut expected = current.clone();
        expected["metadata"]["labels"][BOOTSTRAPPING] = "rbac-defaults".into();
        expected["rules"].as_array_mut().unwrap().push(json!({"verbs": ["get"], "nonResourceURLs": [removed]}));
        assert_eq!(compare(current.clone(), &wanted), Repair::Update(expected));
        current["metadata"]["annotations"][AUTO_UPDATE] = "false".into();
        assert_eq!(compare(current, &wanted), Repair::None);
    }

    #[test]
    fn bindings_keep_their_subjects_and_lose_another_role() {
        let wanted = default("clusterrolebindings/system:basic-user");
        let mut current = wanted.clone();
        let own = json!({"kind": "User", "apiGroup": GROUP, "name": "own"});
        current["subjects"] = json!([own]);
        let mut expected = current.clone();
        expected["subjects"] = json!([own, wanted["subjects"][0]]);
        assert_eq!(compare(current.clone(), &wanted), Repair::Update(expected));
        current["roleRef"]["name"] = "view".into();
        current["metadata"]["uid"] = "u".into();
        assert_eq!(compare(current, &wanted), Repair::Recreate { uid: "u".into() });
    }

    #[test]
    fn aggregation_is_restored_and_aggregated_rules_are_left_to_the_loop() {
        let wanted = default("clusterroles/view");
        assert_eq!(wanted["rules"], Value::Null);
        let mut current = wanted.clone();
        current["aggregationRule"]["clusterRoleSelectors"] = json!([{"matchLabels": {"own": "true"}}]);
        current["rules"] = json!([{"verbs": ["get"], "nonResourceURLs": ["/"]}]);
        let mut expected = current.clone();
        let selectors = expected["aggregationRule"]["clusterRoleSelectors"].as_array_mut().unwrap();
        selectors.push(wanted["aggregationRule"]["clusterRoleSelectors"][0].clone());
        assert_eq!(compare(current, &wanted), Repair::Update(expected));
        let wanted = default("clusterroles/system:basic-user");
        let mut current = wanted.clone();
        current["aggregationRule"] = json!({"clusterRoleSelectors": []});
        assert_eq!(compare(current, &wanted), Repair::Update(wanted));
    }
}
