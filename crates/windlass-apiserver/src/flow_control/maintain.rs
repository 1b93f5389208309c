//! Keeps the objects of flow control: creates and updates the default ones, and writes the conditions of FlowSchemas.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::FutureExt as _;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::warn;
use windlass_schema::go_format::parse_bool;
use windlass_store::Error as StoreError;

use super::{
    FlowControl,
    defaults::{self, API_VERSION, AUTO_UPDATE, MANDATORY},
    level::LevelSpec,
};
use crate::{bootstrap::request, endpoint::Endpoint, server::Inner, status::ApiError};

pub(super) const GROUP: &str = "flowcontrol.apiserver.k8s.io";
pub(super) const SCHEMAS: &str = "flowschemas";
pub(super) const LEVELS: &str = "prioritylevelconfigurations";

/// The stored forms of the default objects with their keys, as a test has written them; see `store_defaults`.
const STORED: &str = include_str!("defaults.jsonl");
/// The field managers of kube-apiserver.
const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";
/// Maximum time that a default object may be missing or changed.
const ENSURE_AFTER: Duration = Duration::from_secs(60);
/// The shortest time between two writes of the status of a FlowSchema.
const STATUS_EVERY: Duration = Duration::from_secs(10);

/// Returns whether an endpoint has objects of flow control.
pub(crate) fn is_configuration(endpoint: &Endpoint) -> bool {
    &*endpoint.resource.group == GROUP
}

/// Creates the default objects.
pub(crate) async fn bootstrap(server: &Arc<Inner>) -> Result<(), ApiError> {
    let control = &server.flow_control;
    if control.schemas.snapshot().len() + control.levels.snapshot().len() == 0 {
        store_defaults(server).await?;
        server.storage.fresh().await?;
    }
    ensure(server).await?;
    server.storage.fresh().await?;
    // Concurrently, so that a durable store syncs only once or twice.
    let outdated = server.flow_control.outdated_conditions();
    let writes = outdated.iter().map(|(schema, condition)| write_condition(server, schema, condition).boxed());
    futures_util::future::try_join_all(writes).await?;
    Ok(())
}

/// Stores the default objects of an empty cluster: exactly what requests to create them and to write their conditions
/// would store, for a fraction of the time, because every test starts a server.
async fn store_defaults(server: &Arc<Inner>) -> Result<(), ApiError> {
    let now = timestamp();
    let writes = STORED.lines().filter_map(|line| line.split_once(' ')).map(|(key, object)| {
        let object = object.replace("$TIME", &now).replace("$UID", &uuid::Uuid::new_v4().to_string());
        let write = async move {
            match server.storage.store().create(&format!("/{GROUP}/{key}"), object.into()).await {
                // Another server was faster.
                Ok(_) | Err(StoreError::Exists { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        };
        write.boxed()
    });
    futures_util::future::try_join_all(writes).await?;
    Ok(())
}

/// Writes conditions and repairs the default objects, until the server is dropped.
pub(crate) async fn run(server: Weak<Inner>) {
    let mut written: HashMap<String, Instant> = HashMap::new();
    let mut ensure_at: Option<Instant> = None;
    let Some((schemas, levels)) =
        server.upgrade().map(|server| (server.flow_control.schemas.clone(), server.flow_control.levels.clone()))
    else {
        return;
    };
    loop {
        let (mut schemas_changed, mut levels_changed) = (pin!(schemas.changed()), pin!(levels.changed()));
        schemas_changed.as_mut().enable();
        levels_changed.as_mut().enable();
        let wake_at = {
            let Some(server) = server.upgrade() else { return };
            let retry_at = write_conditions(&server, &mut written).await;
            let now = Instant::now();
            if ensure_at.is_some_and(|at| at <= now)
                && let Err(error) = ensure(&server).await
            {
                warn!(%error, "failed to restore the default objects of flow control");
            }
            let pending = !server.flow_control.repairs().is_empty();
            ensure_at = pending.then(|| ensure_at.filter(|at| *at > now).unwrap_or(now + ENSURE_AFTER));
            [retry_at, ensure_at].into_iter().flatten().min()
        };
        let sleep = async {
            match wake_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = schemas_changed => {}
            () = levels_changed => {}
            () = sleep => {}
        }
    }
}

/// Writes the conditions that are outdated. Returns when to continue, if some were written too recently.
async fn write_conditions(server: &Arc<Inner>, written: &mut HashMap<String, Instant>) -> Option<Instant> {
    let now = Instant::now();
    written.retain(|_, at| *at + STATUS_EVERY > now);
    let mut retry_at = None;
    for (schema, condition) in server.flow_control.outdated_conditions() {
        if let Some(at) = written.get(&schema) {
            retry_at = Some(*at + STATUS_EVERY).min(retry_at.or(Some(*at + STATUS_EVERY)));
            continue;
        }
        if let Err(error) = write_condition(server, &schema, &condition).await {
            warn!(%error, "failed to update status of flowschema {schema}");
        }
        written.insert(schema, now);
    }
    retry_at
}

async fn write_condition(server: &Arc<Inner>, schema: &str, condition: &Value) -> Result<(), ApiError> {
    let path = format!("/apis/{API_VERSION}/{SCHEMAS}/{schema}/status?fieldManager={CONSUMER}&force=true");
    let object = json!({
        "apiVersion": API_VERSION, "kind": "FlowSchema", "metadata": {"name": schema},
        "status": {"conditions": [condition]},
    });
    accept(request(server, Method::PATCH, &path, &object).await, &[404])
}

/// Creates missing default objects, updates those that follow the defaults, and deletes those that are no longer
/// defaults.
async fn ensure(server: &Arc<Inner>) -> Result<(), ApiError> {
    let repairs = server.flow_control.repairs();
    let results = repairs.into_iter().map(|repair| {
        let Repair { method, path, object } = repair;
        async move { accept(request(server, method, &path, &object).await, &[404, 409]) }.boxed()
    });
    futures_util::future::try_join_all(results).await?;
    Ok(())
}

/// Ignores errors that mean that another client was faster.
fn accept(result: Result<(), ApiError>, ignored: &[u16]) -> Result<(), ApiError> {
    result.or_else(|error| if ignored.contains(&error.code.as_u16()) { Ok(()) } else { Err(error) })
}

/// A request that brings an object closer to the defaults.
struct Repair {
    method: Method,
    path: String,
    object: Value,
}

impl FlowControl {
    /// Returns the names of the FlowSchemas whose condition `Dangling` is outdated, with the new condition.
    fn outdated_conditions(&self) -> Vec<(String, Value)> {
        let levels: Vec<String> = self
            .levels
            .snapshot()
            .objects()
            .map(|object| object.to_value())
            .filter_map(|level| {
                let name = level["metadata"]["name"].as_str()?;
                LevelSpec::compile(name, &level["spec"]).map(|_| name.to_owned())
            })
            .collect();
        let schemas = self.schemas.snapshot();
        let outdated = schemas.objects().filter_map(|object| {
            let object = object.to_value();
            let level = object["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap_or_default();
            let condition = dangling(level, levels.iter().any(|known| known == level));
            let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let same = |known: &Value| ["type", "status", "reason", "message"].iter().all(|f| known[f] == condition[f]);
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            (!conditions.iter().any(same)).then_some((name, condition))
        });
        outdated.collect()
    }

    /// Returns the requests that restore the defaults.
    fn repairs(&self) -> Vec<Repair> {
        let mut repairs = Vec::new();
        let levels: Box<dyn Iterator<Item = Value>> = Box::new(defaults::priority_levels());
        let schemas: Box<dyn Iterator<Item = Value>> = Box::new(defaults::flow_schemas());
        for (plural, cache, defaults) in [(LEVELS, &self.levels, levels), (SCHEMAS, &self.schemas, schemas)] {
            let collection = format!("/apis/{API_VERSION}/{plural}");
            let name_of = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let mut names = Vec::new();
            for default in defaults {
                let name = name_of(&default);
                match cache.get(&name) {
                    None => repairs.push(Repair {
                        method: Method::POST,
                        path: format!("{collection}?fieldManager={PRODUCER}"),
                        object: default,
                    }),
                    Some(current) => repairs.extend(revised(&current.to_value(), &default).map(|object| Repair {
                        method: Method::PUT,
                        path: format!("{collection}/{name}?fieldManager={PRODUCER}"),
                        object,
                    })),
                }
                names.push(name);
            }
            for object in cache.snapshot().objects().map(|object| object.to_value()) {
                let name = name_of(&object);
                if auto_update(&object) == Some(true) && !names.contains(&name) {
                    let path = format!("{collection}/{name}");
                    repairs.push(Repair { method: Method::DELETE, path, object: Value::Null });
                }
            }
        }
        repairs
    }
}

/// Returns the desired object; `None` if it is up to date.
fn revised(current: &Value, default: &Value) -> Option<Value> {
    let metadata = &current["metadata"];
    let mandatory = metadata["name"].as_str().is_some_and(|name| MANDATORY.contains(&name));
    // Without a valid annotation, an object that was never changed follows the defaults.
    let follows = mandatory || auto_update(current).unwrap_or_else(|| metadata["generation"] == 1);
    let changed = follows && current["spec"] != default["spec"];
    if !changed && auto_update(current) == Some(follows) {
        return None;
    }
    let mut revised = current.clone();
    if changed {
        revised["spec"] = default["spec"].clone();
    }
    revised["metadata"]["annotations"][AUTO_UPDATE] = follows.to_string().into();
    Some(revised)
}

/// Returns the value of the annotation, if it is a boolean.
fn auto_update(object: &Value) -> Option<bool> {
    parse_bool(object["metadata"]["annotations"][AUTO_UPDATE].as_str()?)
}

/// Returns the current time as in objects.
fn timestamp() -> String {
    windlass_clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the condition of a FlowSchema.
fn dangling(level: &str, found: bool) -> Value {
    let (status, reason, end) =
        if found { ("False", "Found", "and it exists") } else { ("True", "NotFound", "but there is no such object") };
    json!({
        "type": "Dangling", "status": status, "reason": reason,
        "lastTransitionTime": timestamp(),
        "message": format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {end}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(spec: i32, annotation: Option<&str>, generation: i64) -> Value {
        let mut object = json!({"metadata": {"name": "system", "generation": generation}, "spec": spec});
        if let Some(value) = annotation {
            object["metadata"]["annotations"] = json!({AUTO_UPDATE: value});
        }
        object
    }

    #[test]
    fn objects_follow_the_defaults_unless_they_were_changed() {
        let default = object(1, Some("true"), 1);
        let spec_and_annotation = |current: &Value| {
            revised(current, &default)
                .map(|object| (object["spec"].clone(), object["metadata"]["annotations"][AUTO_UPDATE].clone()))
        };
        for (current, expected) in [
            (object(1, Some("true"), 1), None),
            (object(2, Some("true"), 2), Some((1, "true"))),
            (object(2, Some("false"), 2), None),
            (object(2, None, 1), Some((1, "true"))),
            (object(2, None, 2), Some((2, "false"))),
            (object(1, Some("perhaps"), 1), Some((1, "true"))),
        ] {
            let expected = expected.map(|(spec, annotation)| (json!(spec), json!(annotation)));
            assert_eq!(spec_and_annotation(&current), expected, "{current}");
        }
        let mut mandatory = object(2, Some("false"), 2);
        mandatory["metadata"]["name"] = "exempt".into();
        assert_eq!(spec_and_annotation(&mandatory), Some((json!(1), json!("true"))));
    }
}
