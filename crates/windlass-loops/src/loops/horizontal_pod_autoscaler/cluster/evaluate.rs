//! Evaluating the metrics of an autoscaler: proposals and current values.

use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricStatus, ExternalMetricSource, ExternalMetricStatus, MetricSpec, MetricStatus, MetricTarget,
    MetricValueStatus, ObjectMetricSource, ObjectMetricStatus, PodsMetricSource, PodsMetricStatus,
    ResourceMetricStatus,
};
use windlass::context::Context;
use windlass_schema::quantity::Format;

use super::{
    super::{
        calculate::Situation,
        proposal::{Failure, Proposal, averaging, described, failure, of_type, printed, quantity, valued, wanted},
    },
    metrics,
};

/// The source of metrics.
pub(in super::super) struct Source<'a> {
    pub(in super::super) ctx: &'a Context,
    pub(in super::super) namespace: &'a str,
    /// The label selector of the pods.
    pub(in super::super) selector: &'a str,
    /// The current replicas.
    pub(in super::super) present: i32,
    pub(in super::super) situation: Situation<'a>,
}

impl Source<'_> {
    /// Evaluates a metric.
    pub(in super::super) async fn evaluate(&self, spec: &MetricSpec) -> Result<Proposal, Failure> {
        match (spec.type_.as_str(), &spec.object, &spec.pods, &spec.resource, &spec.container_resource, &spec.external)
        {
            ("Object", Some(object), ..) => self
                .object(object)
                .await
                .map_err(|cause| failure("FailedGetObjectMetric", cause, "failed to get object metric value")),
            ("Pods", _, Some(pods), ..) => self
                .pods(pods)
                .await
                .map_err(|cause| failure("FailedGetPodsMetric", cause, "failed to get pods metric value")),
            ("Resource", _, _, Some(resource), ..) => {
                let found = self.resource(&resource.name, None, &resource.target).await;
                let tried = format!("failed to get {} resource metric value", resource.name);
                let (replicas, name, current) =
                    found.map_err(|cause| failure("FailedGetResourceMetric", cause, &tried))?;
                let status = ResourceMetricStatus { name: resource.name.clone(), current };
                Ok(Proposal { replicas, name, status: MetricStatus { resource: Some(status), ..of_type(spec) } })
            }
            ("ContainerResource", _, _, _, Some(one), _) => {
                let found = self.resource(&one.name, Some(&one.container), &one.target).await;
                let tried = format!("failed to get {} container metric value", one.container);
                let (replicas, name, current) =
                    found.map_err(|cause| failure("FailedGetContainerResourceMetric", cause, &tried))?;
                let (name_of, container) = (one.name.clone(), one.container.clone());
                let status = ContainerResourceMetricStatus { name: name_of, container, current };
                Ok(Proposal {
                    replicas,
                    name,
                    status: MetricStatus { container_resource: Some(status), ..of_type(spec) },
                })
            }
            ("External", _, _, _, _, Some(external)) => self.external(external).await.map_err(|(cause, tried)| {
                let tried = format!("failed to get {} external metric value: {tried}", external.metric.name);
                failure("FailedGetExternalMetric", cause, tried.trim_end_matches(": "))
            }),
            (type_, ..) => {
                let cause = format!("unknown metric source type {type_:?}");
                Err(Failure { reason: "InvalidMetricSourceType", error: cause.clone(), cause })
            }
        }
    }

    async fn resource(
        &self,
        resource: &str,
        container: Option<&str>,
        target: &MetricTarget,
    ) -> Result<(i32, String, MetricValueStatus), String> {
        let of = |error| format!("unable to get metrics for resource {resource}: {error}");
        let samples =
            async || metrics::resource(self.ctx, self.namespace, self.selector, resource, container).await.map_err(of);
        let format = if resource == "memory" { Format::BinarySi } else { Format::DecimalSi };
        if let Some(average) = wanted(target.average_value.as_ref()) {
            let usage = |error| format!("failed to get {resource} usage: {error}");
            let samples = samples().await.map_err(usage)?;
            let (replicas, average) = self.situation.by_average(samples, average, resource == "cpu").map_err(usage)?;
            let status = MetricValueStatus { average_value: Some(quantity(average, format)), ..Default::default() };
            return Ok((replicas, format!("{resource} resource"), status));
        }
        let Some(percent) = target.average_utilization else {
            let message = "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set";
            return Err(message.to_owned());
        };
        let utilization = |error| format!("failed to get {resource} utilization: {error}");
        let samples = samples().await.map_err(utilization)?;
        let found = self.situation.by_utilization(samples, percent, resource, container);
        let (replicas, percent, average) = found.map_err(utilization)?;
        let status = MetricValueStatus {
            average_utilization: Some(percent),
            average_value: Some(quantity(average, format)),
            value: None,
        };
        let kind = if container.is_some() { "container resource" } else { "resource" };
        Ok((replicas, format!("{resource} {kind} utilization (percentage of request)"), status))
    }

    async fn pods(&self, source: &PodsMetricSource) -> Result<Proposal, String> {
        let of = |error| format!("unable to get metric {}: {error}", source.metric.name);
        let samples = metrics::pods(self.ctx, self.namespace, self.selector, &source.metric).await.map_err(of)?;
        let target = wanted(source.target.average_value.as_ref()).unwrap_or_default();
        let (replicas, average) = self.situation.by_average(samples, target, false)?;
        let status = PodsMetricStatus { metric: source.metric.clone(), current: averaging(average) };
        let status = MetricStatus { type_: "Pods".to_owned(), pods: Some(status), ..MetricStatus::default() };
        Ok(Proposal { replicas, name: format!("pods metric {}", source.metric.name), status })
    }

    async fn object(&self, source: &ObjectMetricSource) -> Result<Proposal, String> {
        let (object, metric) = (&source.described_object, &source.metric);
        let value = async || {
            let of = |error| {
                format!(
                    "unable to get metric {}: {} on {} {}/{error}",
                    metric.name, object.kind, self.namespace, object.name
                )
            };
            metrics::object(self.ctx, self.namespace, object, metric).await.map_err(of)
        };
        let target = &source.target;
        let (replicas, name, current) = match (wanted(target.value.as_ref()), wanted(target.average_value.as_ref())) {
            (Some(target_value), _) if target.type_ == "Value" => {
                let usage = value().await?;
                let replicas = self.situation.by_ratio(usage as f64 / target_value as f64)?;
                (replicas, format!("{} metric {}", object.kind, metric.name), valued(usage))
            }
            (_, Some(average)) if target.type_ == "AverageValue" => {
                let usage =
                    value().await.map_err(|error| format!("failed to get {} object metric: {error}", metric.name))?;
                let (replicas, each) = self.situation.shared(self.present, usage, average);
                (replicas, described(metric), averaging(each))
            }
            _ => {
                let message =
                    "invalid object metric source: neither a value target nor an average value target was set";
                return Err(message.to_owned());
            }
        };
        let status = ObjectMetricStatus { described_object: object.clone(), metric: metric.clone(), current };
        let status = MetricStatus { type_: "Object".to_owned(), object: Some(status), ..MetricStatus::default() };
        Ok(Proposal { replicas, name, status })
    }

    /// The error is the cause, and the cause with the attempted operation.
    async fn external(&self, source: &ExternalMetricSource) -> Result<Proposal, (String, String)> {
        let metric = &source.metric;
        let usage = async || {
            let selector = printed(metric.selector.as_ref());
            let of =
                |error| format!("unable to get external metric {}/{}/{selector}: {error}", self.namespace, metric.name);
            let values = metrics::external(self.ctx, self.namespace, metric).await.map_err(of)?;
            Ok(values.into_iter().fold(0_i64, i64::saturating_add))
        };
        let target = &source.target;
        let (replicas, current) = if let Some(average) = wanted(target.average_value.as_ref()) {
            let tried = |cause: String| (cause, format!("failed to get {} external metric", metric.name));
            let (replicas, each) = self.situation.shared(self.present, usage().await.map_err(tried)?, average);
            (replicas, averaging(each))
        } else if let Some(value) = wanted(target.value.as_ref()) {
            let tried = |cause: String| (cause, format!("failed to get external metric {}", metric.name));
            let usage = usage().await.map_err(tried)?;
            (self.situation.by_ratio(usage as f64 / value as f64).map_err(tried)?, valued(usage))
        } else {
            let message = "invalid external metric source: neither a value target nor an average value target was set";
            return Err((message.to_owned(), String::new()));
        };
        let status = ExternalMetricStatus { metric: metric.clone(), current };
        let status = MetricStatus { type_: "External".to_owned(), external: Some(status), ..MetricStatus::default() };
        Ok(Proposal { replicas, name: described(metric), status })
    }
}

#[cfg(test)]
mod tests;
