//! Clients of the metrics APIs.
//!
//! These APIs are not part of the server: without a service behind them, requests fail with the messages of the real
//! autoscaler.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::autoscaling::v2::{CrossVersionObjectReference, MetricIdentifier},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::core::Selector;
use serde_json::Value;
use windlass::context::Context;
use windlass_schema::sorting::Gather as _;

use super::{
    super::calculate::{Sample, Samples, milli},
    target::{self, encoded, fetch},
};

/// Default time window of a sample.
const WINDOW: Duration = Duration::from_secs(60);

/// Usage of a resource by the selected pods, in all containers or in one.
pub(super) async fn resource(
    ctx: &Context,
    namespace: &str,
    selector: &str,
    resource: &str,
    container: Option<&str>,
) -> Result<Samples, String> {
    let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods?labelSelector={}", encoded(selector));
    let list = fetch(ctx, &path, "pods.metrics.k8s.io").await;
    let list = list.map_err(|error| format!("unable to fetch metrics from resource metrics API: {error}"))?;
    let items = items(&list, "resource")?;
    Ok(items.iter().filter_map(|item| usage(item, resource, container)).gather())
}

fn usage(item: &Value, resource: &str, container: Option<&str>) -> Option<(String, Sample)> {
    let containers = item["containers"].as_array().filter(|containers| !containers.is_empty())?;
    let mut value = 0_i64;
    let mut found = false;
    for one in containers.iter().filter(|one| container.is_none_or(|name| one["name"] == name)) {
        value = value.saturating_add(quantity(&one["usage"][resource])?);
        found = true;
    }
    let window = item["window"].as_str().and_then(|text| windlass_schema::time::parse_duration(text).ok());
    let window = window.and_then(|nanos| u64::try_from(nanos).ok()).map_or(Duration::ZERO, Duration::from_nanos);
    let name = item["metadata"]["name"].as_str()?.to_owned();
    found.then(|| (name, Sample { value, time: time(item), window }))
}

/// A custom metric of the selected pods.
pub(super) async fn pods(
    ctx: &Context,
    namespace: &str,
    selector: &str,
    metric: &MetricIdentifier,
) -> Result<Samples, String> {
    let path = format!("namespaces/{namespace}/pods/*/{}?labelSelector={}", metric.name, encoded(selector));
    let list = custom(ctx, &path, metric).await?;
    let items = items(&list, "custom")?;
    let sample = |item: &Value| {
        let window = item["windowSeconds"].as_u64().map_or(WINDOW, Duration::from_secs);
        let sample = Sample { value: quantity(&item["value"])?, time: time(item), window };
        Some((item["describedObject"]["name"].as_str()?.to_owned(), sample))
    };
    Ok(items.iter().filter_map(sample).gather())
}

/// A custom metric of an object.
pub(super) async fn object(
    ctx: &Context,
    namespace: &str,
    object: &CrossVersionObjectReference,
    metric: &MetricIdentifier,
) -> Result<i64, String> {
    let api_version = object.api_version.as_deref().unwrap_or_default();
    let path = if object.kind == "Namespace" && !api_version.contains('/') {
        format!("namespaces/{namespace}/metrics/{}?", metric.name)
    } else {
        let resource = target::resource(ctx, api_version, &object.kind).await;
        let resource = resource.map_err(|error| format!("unable to fetch metrics from custom metrics API: {error}"))?;
        format!("namespaces/{namespace}/{}/{}/{}?", resource.name_and_group(), object.name, metric.name)
    };
    let list = custom(ctx, &path, metric).await?;
    let value = items(&list, "custom")?.first().and_then(|item| quantity(&item["value"]));
    value.ok_or_else(|| "unable to fetch metrics from custom metrics API: the value is not a quantity".to_owned())
}

/// Fetches a path from the latest served version of custom metrics.
async fn custom(ctx: &Context, path: &str, metric: &MetricIdentifier) -> Result<Value, String> {
    const GROUP: &str = "custom.metrics.k8s.io";
    let fail = |error: String| format!("unable to fetch metrics from custom metrics API: {error}");
    let group = fetch(ctx, &format!("/apis/{GROUP}"), GROUP).await;
    let versions = group.as_ref().ok().and_then(|group| group["versions"].as_array());
    let version = |wanted: &str| versions.into_iter().flatten().any(|version| version["version"] == wanted);
    let known = ["v1beta2", "v1beta1"].into_iter().find(|known| version(known));
    let known = known.ok_or_else(|| fail(format!("no custom metrics API ({GROUP}) registered")))?;
    let mut path = format!("/apis/{GROUP}/{known}/{path}");
    if let Some(selector) = metric.selector.as_ref() {
        path.push_str(&format!("&metricLabelSelector={}", encoded(&text_of(selector)?)));
    }
    fetch(ctx, &path, &format!("{}.{GROUP}", metric.name)).await.map_err(fail)
}

/// The values of an external metric.
pub(super) async fn external(ctx: &Context, namespace: &str, metric: &MetricIdentifier) -> Result<Vec<i64>, String> {
    let selector = metric.selector.as_ref().map(text_of).transpose()?.unwrap_or_default();
    let name = &metric.name;
    let path = format!(
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{name}?labelSelector={}",
        encoded(&selector)
    );
    let list = fetch(ctx, &path, &format!("{name}.external.metrics.k8s.io")).await;
    let list = list.map_err(|error| format!("unable to fetch metrics from external metrics API: {error}"))?;
    Ok(items(&list, "external")?.iter().filter_map(|item| quantity(&item["value"])).collect())
}

fn items<'a>(list: &'a Value, api: &str) -> Result<&'a Vec<Value>, String> {
    let items = list["items"].as_array().filter(|items| !items.is_empty());
    items.ok_or_else(|| format!("no metrics returned from {api} metrics API"))
}

fn quantity(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => milli(text),
        Value::Number(number) => milli(&number.to_string()),
        _ => None,
    }
}

fn time(item: &Value) -> Timestamp {
    item["timestamp"].as_str().and_then(|text| text.parse().ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn text_of(selector: &LabelSelector) -> Result<String, String> {
    let selector: Selector = selector.clone().try_into().map_err(|error| format!("{error}"))?;
    Ok(selector.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn usage_is_that_of_all_containers_or_of_one() {
        let item = json!({"metadata": {"name": "p"}, "timestamp": "2026-01-01T00:00:00Z", "window": "30s", "containers": [
            {"name": "a", "usage": {"cpu": "250m", "memory": "1Mi"}}, {"name": "b", "usage": {"cpu": "1"}}]});
        let value = |resource: &str, container| usage(&item, resource, container).map(|(_, sample)| sample.value);
        assert_eq!(value("cpu", None), Some(1250));
        assert_eq!(value("cpu", Some("b")), Some(1000));
        assert_eq!(value("cpu", Some("c")), None);
        assert_eq!(value("memory", None), None);
        assert_eq!(usage(&item, "cpu", None).unwrap().1.window, Duration::from_secs(30));
    }
}
