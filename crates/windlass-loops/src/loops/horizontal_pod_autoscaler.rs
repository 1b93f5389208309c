//! Scales targets by metrics.
//!
//! Every autoscaler is reconciled every 15 seconds, the first time 15 seconds after it was seen, and not earlier when it
//! changes: the metrics propose a number of replicas ([`calculate`]), which is limited by range and rate
//! ([`limits`]) and written to the scale of the target. The conditions have the same messages as on a cluster.

mod calculate;
mod cluster;
mod limits;
mod proposal;
mod status;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::{
    autoscaling::v2::{
        HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricSpec, MetricStatus, MetricTarget,
        ResourceMetricSource,
    },
    core::v1::Pod,
};
use kube::core::{Expression, Selector};
use parking_lot::Mutex;
use windlass::{
    Result,
    cache::parse_selector,
    context::Context,
    controller::{Action, Reconciler, filter::Filter},
    key::ObjectKey,
    operator::Operator,
};
use windlass_schema::sorting::Gather as _;

use self::{
    calculate::{Situation, Tolerances},
    cluster::{Scale, Source},
    limits::{History, Range},
};
use crate::{loops::ClusterCertificates, pods::selects};

/// Interval at which metrics are evaluated.
const PERIOD: Duration = Duration::from_secs(15);
/// Default tolerance of a metric around its target.
const TOLERANCE: f64 = 0.1;

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let autoscalers = Autoscalers::default();
    let memory = autoscalers.memory.clone();
    let forget = move |key, _ctx| {
        memory.lock().remove(&key);
        std::future::ready(Ok(()))
    };
    // Changes of its own status are ignored; the resource has no generation to tell.
    let specified = Filter::<HorizontalPodAutoscaler>::new(|change| match (change.old, change.new) {
        (Some(old), Some(new)) => old.spec != new.spec || old.metadata.uid != new.metadata.uid,
        _ => true,
    });
    let controller = super::controller("horizontal-pod-autoscaler-controller", autoscalers);
    operator
        .controller(controller.filter(specified).watches::<Pod>(|_, _| Vec::new()).on_deleted(forget).concurrency(5))
}

/// The reconciler and its memory.
#[derive(Default)]
struct Autoscalers {
    memory: Arc<Mutex<HashMap<ObjectKey, Memory>>>,
}

impl Autoscalers {
    /// Returns the time until an autoscaler is due; `None` if it is, and then for the last time in this period.
    fn wait(&self, key: &ObjectKey, now: Timestamp) -> Option<Duration> {
        let mut memory = self.memory.lock();
        let due = memory.entry(key.clone()).or_default().due.get_or_insert(now + PERIOD);
        let wait = Duration::try_from(due.duration_since(now)).ok().filter(|wait| !wait.is_zero());
        if wait.is_none() {
            *due = now + PERIOD;
        }
        wait
    }
}

/// The memory of an autoscaler.
#[derive(Clone, Default)]
struct Memory {
    /// The time of the next evaluation.
    due: Option<Timestamp>,
    history: History,
    /// The selector of its pods.
    selector: Option<Selector>,
}

impl Reconciler<HorizontalPodAutoscaler> for Autoscalers {
    async fn reconcile(&self, autoscaler: Arc<HorizontalPodAutoscaler>, ctx: Context) -> Result<Action> {
        if autoscaler.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let (key, now) = (ObjectKey::of(&*autoscaler), windlass_clock::now());
        if let Some(wait) = self.wait(&key, now) {
            return Ok(Action::requeue_after(wait));
        }
        let mut evaluation = Evaluation {
            key,
            autoscaler: HorizontalPodAutoscaler::clone(&autoscaler),
            now,
            memory: &self.memory,
            ctx: &ctx,
        };
        if let Err(error) = evaluation.run().await {
            tracing::debug!(%error, "failed to compute the desired replicas");
        }
        if evaluation.autoscaler.status != autoscaler.status {
            ctx.update_status(evaluation.autoscaler).await?;
        }
        Ok(Action::requeue_after(PERIOD))
    }
}

/// One reconciliation of an autoscaler.
struct Evaluation<'a> {
    key: ObjectKey,
    /// Its status changes on the way.
    autoscaler: HorizontalPodAutoscaler,
    now: Timestamp,
    memory: &'a Mutex<HashMap<ObjectKey, Memory>>,
    ctx: &'a Context,
}

impl Evaluation<'_> {
    fn spec(&self) -> &HorizontalPodAutoscalerSpec {
        &self.autoscaler.spec
    }

    fn namespace(&self) -> &str {
        self.key.namespace().unwrap_or_default()
    }

    fn set_condition(&mut self, type_: &str, holds: bool, reason: &str, message: &str) {
        status::set(self.autoscaler.status.get_or_insert_default(), type_, holds, reason, message, self.now);
    }

    fn warn(&self, reason: &str, message: &str) {
        self.ctx.event(&self.autoscaler).warning(reason, message);
    }

    fn remember<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(self.memory.lock().entry(self.key.clone()).or_default())
    }

    async fn run(&mut self) -> Result<(), String> {
        let scale = match self.scale().await {
            Ok(scale) => scale,
            Err(error) => {
                self.warn("FailedGetScale", &error);
                let message = format!("the HPA controller was unable to get the target's current scale: {error}");
                self.set_condition("AbleToScale", false, "FailedGetScale", &message);
                return Err(error);
            }
        };
        let message = "the HPA controller was able to get the target's current scale";
        self.set_condition("AbleToScale", true, "SucceededGetScale", message);
        let (current, now) = (scale.wanted(), self.now);
        self.remember(|memory| memory.history.begin(current, now));
        let (least, most) = (self.spec().min_replicas.unwrap_or(1), self.spec().max_replicas);
        let mut statuses = None;
        let (desired, why) = if current == 0 {
            let message = "scaling is disabled since the replica count of the target is zero";
            self.set_condition("ScalingActive", false, "ScalingDisabled", message);
            (0, String::new())
        } else if current > most {
            (most, "Current number of replicas above Spec.MaxReplicas".to_owned())
        } else if current < least {
            (least, "Current number of replicas below Spec.MinReplicas".to_owned())
        } else {
            let mut found = Vec::new();
            let asked = self.propose(&scale, &mut found).await;
            statuses = Some(found).filter(|found| !found.is_empty());
            match asked {
                Ok((desired, metric)) => self.limited(Range { current, desired, least, most }, &metric),
                Err(error) => {
                    let before = self.autoscaler.status.as_ref().map_or(0, |status| status.desired_replicas);
                    status::count(self.autoscaler.status.get_or_insert_default(), current, before, statuses);
                    self.warn("FailedComputeMetricsReplicas", &error);
                    return Err(error);
                }
            }
        };
        if desired == current {
            status::count(self.autoscaler.status.get_or_insert_default(), current, current, statuses);
            return Ok(());
        }
        self.rescale(scale, desired, &why, statuses).await
    }

    async fn scale(&self) -> Result<Scale, String> {
        let target = &self.spec().scale_target_ref;
        let api_version = target.api_version.as_deref().unwrap_or_default();
        if api_version.matches('/').count() > 1 {
            return Err(format!("unexpected GroupVersion string: {api_version}"));
        }
        let resource = cluster::resource(self.ctx, api_version, &target.kind).await?;
        Scale::of(self.ctx, &resource, self.namespace(), &target.name).await
    }

    /// Returns the highest number of replicas that a metric proposes, and the name of that metric.
    async fn propose(&mut self, scale: &Scale, statuses: &mut Vec<MetricStatus>) -> Result<(i32, String), String> {
        let selector = self.selector(scale.selector())?;
        let pods = self.pods(&selector)?;
        self.check_unambiguous(scale.selector(), &pods)?;
        let specs = self.spec().metrics.clone().filter(|specs| !specs.is_empty()).unwrap_or_else(|| vec![by_default()]);
        let source = Source {
            ctx: self.ctx,
            namespace: self.key.namespace().unwrap_or_default(),
            selector: scale.selector(),
            present: scale.present(),
            situation: Situation {
                current: scale.wanted(),
                pods: &pods,
                tolerances: tolerances(self.spec()),
                now: self.now,
            },
        };
        let (mut most, mut failures) = (None::<(i32, String)>, Vec::new());
        for spec in &specs {
            match source.evaluate(spec).await {
                Ok(proposal) => {
                    statuses.push(proposal.status);
                    if most.as_ref().is_none_or(|(replicas, _)| *replicas == 0 || proposal.replicas > *replicas) {
                        most = Some((proposal.replicas, proposal.name));
                    }
                }
                Err(failure) => {
                    statuses.push(MetricStatus::default());
                    self.warn(failure.reason, &failure.cause);
                    failures.push(failure);
                }
            }
        }
        // If some metrics are missing, scaling up is allowed but scaling down is not.
        match (most, failures.first()) {
            (Some((replicas, name)), failure) if failure.is_none() || replicas >= scale.wanted() => {
                let message = format!("the HPA was able to successfully calculate a replica count from {name}");
                self.set_condition("ScalingActive", true, "ValidMetricFound", &message);
                Ok((replicas, name))
            }
            (_, Some(first)) => {
                let message = format!("the HPA was unable to compute the replica count: {}", first.cause);
                self.set_condition("ScalingActive", false, first.reason, &message);
                let (count, all) = (failures.len(), specs.len());
                Err(format!("invalid metrics ({count} invalid out of {all}), first error is: {}", first.error))
            }
            (_, None) => Err("there are no metrics".to_owned()),
        }
    }

    /// Parses the selector of the pods.
    fn selector(&mut self, text: &str) -> Result<Selector, String> {
        if text.is_empty() {
            self.warn("SelectorRequired", "selector is required");
            let message = "the HPA target's scale is missing a selector";
            self.set_condition("ScalingActive", false, "InvalidSelector", message);
            return Err("selector is required".to_owned());
        }
        let parsed = parse_selector(text).map_err(|error| {
            let message = format!("couldn't convert selector into a corresponding internal selector object: {error}");
            self.warn("InvalidSelector", &message);
            self.set_condition("ScalingActive", false, "InvalidSelector", &message);
            message
        })?;
        self.remember(|memory| memory.selector = Some(parsed.clone()));
        Ok(parsed)
    }

    /// The selected pods, from an index.
    fn pods(&self, selector: &Selector) -> Result<Vec<Arc<Pod>>, String> {
        let informer = self.ctx.informer::<Pod>().map_err(|error| error.to_string())?;
        let by_label = informer.index("namespace-and-label", |pod: &Pod| {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let labels = pod.metadata.labels.iter().flatten();
            labels.map(|(name, value)| format!("{namespace}/{name}={value}")).collect()
        });
        let label = selector.clone().into_iter().find_map(|expression| match expression {
            Expression::Equal(name, value) => Some(format!("{}/{name}={value}", self.namespace())),
            _ => None,
        });
        let mut pods = match (by_label, label) {
            (Ok(by_label), Some(label)) => by_label.get(&label),
            _ => informer.list_in(self.namespace()),
        };
        pods.retain(|pod| selects(selector, &**pod));
        Ok(pods)
    }

    /// Checks that no pod has two autoscalers.
    fn check_unambiguous(&mut self, selector: &str, pods: &[Arc<Pod>]) -> Result<(), String> {
        let autoscalers: BTreeSet<String> = {
            let memory = self.memory.lock();
            let same = memory.iter().filter(|(key, _)| key.namespace() == self.key.namespace());
            let selecting = same.filter(|(_, memory)| {
                memory.selector.as_ref().is_some_and(|selector| pods.iter().any(|pod| selects(selector, &**pod)))
            });
            selecting.map(|(key, _)| format!("{{{} {}}}", key.namespace().unwrap_or_default(), key.name())).gather()
        };
        if autoscalers.len() < 2 {
            return Ok(());
        }
        let all = autoscalers.into_iter().collect::<Vec<_>>().join(" ");
        let message = format!("pods by selector {selector} are controlled by multiple HPAs: [{all}]");
        self.warn("AmbiguousSelector", &message);
        self.set_condition("ScalingActive", false, "AmbiguousSelector", &message);
        Err(message)
    }

    /// Applies the limits to a proposal. Returns the replicas and the reason.
    fn limited(&mut self, range: Range, metric: &str) -> (i32, String) {
        let why = match range.desired.cmp(&range.current) {
            std::cmp::Ordering::Greater => format!("{metric} above target"),
            std::cmp::Ordering::Less => "All metrics below target".to_owned(),
            std::cmp::Ordering::Equal => String::new(),
        };
        let (spec, now) = (self.spec().clone(), self.now);
        let limited = self.remember(|memory| memory.history.limit(&spec, range, now));
        self.set_condition("AbleToScale", true, limited.able.0, limited.able.1);
        let (is_limited, reason, message) = limited.limited;
        self.set_condition("ScalingLimited", is_limited, reason, message);
        (limited.replicas, why)
    }

    async fn rescale(
        &mut self,
        scale: Scale,
        desired: i32,
        why: &str,
        statuses: Option<Vec<MetricStatus>>,
    ) -> Result<(), String> {
        let current = scale.wanted();
        let before = self.autoscaler.status.as_ref().map_or(0, |status| status.desired_replicas);
        if let Err(error) = scale.set(self.ctx, desired).await {
            self.warn("FailedRescale", &format!("New size: {desired}; reason: {why}; error: {error}"));
            let message = format!("the HPA controller was unable to update the target scale: {error}");
            self.set_condition("AbleToScale", false, "FailedUpdateScale", &message);
            status::count(self.autoscaler.status.get_or_insert_default(), current, before, statuses);
            return Err(error);
        }
        let message = format!("the HPA controller was able to update the target scale to {desired}");
        self.set_condition("AbleToScale", true, "SucceededRescale", &message);
        let message = format!("New size: {desired}; reason: {why}");
        self.ctx.event(&self.autoscaler).normal("SuccessfulRescale", &message);
        let (spec, now) = (self.spec().clone(), self.now);
        self.remember(|memory| memory.history.changed(&spec, current, desired, now));
        let status = self.autoscaler.status.get_or_insert_default();
        status::count(status, current, desired, statuses);
        status.last_scale_time = Some(status::seconds(now));
        Ok(())
    }
}

fn tolerances(spec: &HorizontalPodAutoscalerSpec) -> Tolerances {
    let behavior = spec.behavior.as_ref();
    let said = |rules: Option<&k8s_openapi::api::autoscaling::v2::HPAScalingRules>| {
        let tolerance = rules.and_then(|rules| rules.tolerance.as_ref())?;
        windlass_schema::quantity::Quantity::parse(&tolerance.0).ok().map(|tolerance| tolerance.as_f64())
    };
    Tolerances {
        down: said(behavior.and_then(|behavior| behavior.scale_down.as_ref())).unwrap_or(TOLERANCE),
        up: said(behavior.and_then(|behavior| behavior.scale_up.as_ref())).unwrap_or(TOLERANCE),
    }
}

/// The default metric of an autoscaler without metrics.
fn by_default() -> MetricSpec {
    let target =
        MetricTarget { type_: "Utilization".to_owned(), average_utilization: Some(80), ..MetricTarget::default() };
    MetricSpec {
        type_: "Resource".to_owned(),
        resource: Some(ResourceMetricSource { name: "cpu".to_owned(), target }),
        ..MetricSpec::default()
    }
}
