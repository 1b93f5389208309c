//! The custom resource that all subjects watch: 1.8 KB each, as in the server benchmark.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Annotation with the time a write was sent, in microseconds since 1970.
pub(crate) const SENT_AT: &str = "bench.example.com/at";
/// Namespace of all objects.
pub(crate) const NAMESPACE: &str = "bench";
const TEXT: usize = 1000;

/// Desired state of a Widget.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "bench.example.com", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
#[serde(rename_all = "camelCase")]
pub(crate) struct WidgetSpec {
    replicas: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(default)]
    blob: String,
    #[serde(default)]
    ports: Vec<Port>,
}

/// Observed state of a Widget.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(crate) struct WidgetStatus {
    #[serde(default)]
    ready: i32,
}

/// A port of a widget.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Port {
    name: String,
    port: i32,
}

/// Returns the widget with the given number.
pub(crate) fn widget(number: usize) -> Widget {
    let port = |name: &str, port| Port { name: name.to_owned(), port };
    let spec = WidgetSpec {
        replicas: i32::try_from(number % 50).expect("a remainder must be small"),
        mode: Some("fast".to_owned()),
        blob: "x".repeat(TEXT),
        ports: vec![port("http", 80), port("admin", 8080)],
    };
    let mut widget = Widget::new(&name(number), spec);
    widget.metadata.namespace = Some(NAMESPACE.to_owned());
    let labels = [("app", "bench".to_owned()), ("shard", (number % 16).to_string())];
    widget.metadata.labels = Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
    widget
}

/// Returns the name of the widget with the given number.
pub(crate) fn name(number: usize) -> String {
    format!("widget-{number:06}")
}
