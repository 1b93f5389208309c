//! Field ownership: managed fields after every kind of write, and server-side apply, on a custom resource with every
//! kind of field.

use serde_json::{Value, json};
use windlass_merge::apply::field_manager::ApplyError;
use windlass_schema::time::Time;

use kinds::{Definition, GROUP, KIND};

mod applying;
mod built_in;
mod hostile;
mod kinds;
mod properties;
mod recorded;
mod scaling;
mod updating;

/// An object and its history, one write per second.
struct Story {
    definition: Definition,
    live: Option<Value>,
    seconds: i64,
}

impl Story {
    fn new() -> Self {
        Self { definition: Definition::new(), live: None, seconds: 0 }
    }

    fn now(&mut self) -> Time {
        self.seconds += 1;
        Time::from_unix(1_700_000_000 + self.seconds, 0)
    }

    /// Replaces the object like a PUT that sends back the managed fields it read.
    fn put(&mut self, manager: &str, content: Value) -> &Value {
        self.write(manager, "", |object, managed_fields| {
            *object = content.clone();
            if let Some(managed_fields) = managed_fields {
                object["metadata"]["managedFields"] = managed_fields;
            }
        })
    }

    /// Changes the object through an endpoint.
    fn write(&mut self, manager: &str, subresource: &str, change: impl Fn(&mut Value, Option<Value>)) -> &Value {
        let now = self.now();
        let mut object = self.live.clone().unwrap_or_else(|| json!({}));
        let managed_fields = object.pointer("/metadata/managedFields").cloned();
        change(&mut object, managed_fields);
        fill(&mut object);
        self.definition.manager("v1", subresource).update(self.live.as_ref(), &mut object, manager, now);
        self.store(object)
    }

    fn apply(&mut self, manager: &str, content: Value) -> Result<&Value, ApplyError> {
        self.apply_with(manager, false, content)
    }

    fn force(&mut self, manager: &str, content: Value) -> &Value {
        self.apply_with(manager, true, content).expect("a forced apply must succeed")
    }

    fn apply_with(&mut self, manager: &str, force: bool, mut content: Value) -> Result<&Value, ApplyError> {
        let now = self.now();
        fill(&mut content);
        let object = self.definition.manager("v1", "").apply(self.live.as_ref(), &content, manager, force, now)?;
        Ok(self.store(object))
    }

    fn store(&mut self, mut object: Value) -> &Value {
        object["metadata"]["uid"] = "some-uid".into();
        self.live.insert(object)
    }

    fn live(&self) -> &Value {
        self.live.as_ref().expect("the object must exist")
    }

    /// Formats the managed fields, one line per entry: operation, manager, time and fields.
    fn managed_fields(&self) -> String {
        format_managed_fields(self.live())
    }
}

/// Completes an object or configuration with the fields common to all.
fn fill(object: &mut Value) {
    object["apiVersion"] = format!("{GROUP}/v1").into();
    object["kind"] = KIND.into();
    object["metadata"]["name"] = "x".into();
}

fn format_managed_fields(object: &Value) -> String {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let line = |entry: &Value| {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
        let time = text("time").replace("2023-11-14T22:", "");
        let subresource = entry.get("subresource").and_then(Value::as_str);
        let subresource = subresource.map(|name| format!("/{name}")).unwrap_or_default();
        format!("{} {}{subresource} {time} {}\n", text("operation"), text("manager"), entry["fieldsV1"])
    };
    entries.into_iter().flatten().map(line).collect()
}
