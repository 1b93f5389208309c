//! The number of replicas that a metric proposes. Values are in thousandths.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};
use windlass_schema::quantity::Quantity;

use crate::pods::{is_ready, is_terminating, phase, ready_condition};

/// After the start of a pod, its CPU usage is ignored for this long.
const WARM_UP: SignedDuration = SignedDuration::from_secs(5 * 60);
/// During this time, an unready pod may never have been ready.
const FIRST_READY: SignedDuration = SignedDuration::from_secs(30);

/// A measurement of a pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) value: i64,
    pub(super) time: Timestamp,
    /// The time window before it.
    pub(super) window: Duration,
}

/// Measurements by pod name.
pub(super) type Samples = BTreeMap<String, Sample>;

/// The allowed deviation of the usage ratio from one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerances {
    pub(super) down: f64,
    pub(super) up: f64,
}

impl Tolerances {
    fn hold(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// Inputs of all calculations.
pub(super) struct Situation<'a> {
    /// The current desired replicas.
    pub(super) current: i32,
    /// The pods of the target.
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) tolerances: Tolerances,
    pub(super) now: Timestamp,
}

/// Pods, grouped by the usability of their samples.
#[derive(Debug, Default, PartialEq)]
struct Groups {
    ready: usize,
    unready: BTreeSet<String>,
    missing: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

impl Situation<'_> {
    /// Returns the replicas that bring the average to a target, and the current average.
    pub(super) fn by_average(&self, samples: Samples, target: i64, is_cpu: bool) -> Result<(i32, i64), String> {
        let (groups, mut samples) = self.sorted_out(samples, is_cpu)?;
        let average = average(&samples);
        let ratio = |samples: &Samples| Ok(float(self::average(samples)) / float(target));
        let replicas = self.settled(&groups, &mut samples, ratio, |_| target)?;
        Ok((replicas, average))
    }

    /// Returns the replicas that bring the utilization of requests to a target in percent, the utilization, and the
    /// average.
    pub(super) fn by_utilization(
        &self,
        samples: Samples,
        target: i32,
        resource: &str,
        container: Option<&str>,
    ) -> Result<(i32, i32, i64), String> {
        let (groups, mut samples) = self.sorted_out(samples, resource == "cpu")?;
        let requests = self.requests(resource, container)?;
        let (percent, average) = utilization(&samples, &requests)?;
        let ratio = |samples: &Samples| Ok(f64::from(utilization(samples, &requests)?.0) / f64::from(target));
        // A pod without a sample may use everything that it requested.
        let fallback = |pod: &str| requests.get(pod).copied().unwrap_or_default() * i64::from(target.max(100)) / 100;
        let replicas = self.settled(&groups, &mut samples, ratio, fallback)?;
        Ok((replicas, percent, average))
    }

    /// Returns the replicas that bring a ratio to one, if it falls as replicas are added.
    pub(super) fn by_ratio(&self, ratio: f64) -> Result<i32, String> {
        if self.current == 0 {
            return Ok(ceiling(ratio));
        }
        if self.tolerances.hold(ratio) {
            return Ok(self.current);
        }
        if self.pods.is_empty() {
            return Err(format!("unable to calculate ready pods: {NO_PODS}"));
        }
        let ready = self.pods.iter().filter(|pod| phase(pod) == "Running" && is_ready(pod)).count();
        Ok(ceiling(ratio * size(ready)))
    }

    /// Returns the replicas for sharing a total usage with a target per replica, and the current share.
    pub(super) fn shared(&self, replicas: i32, usage: i64, target: i64) -> (i32, i64) {
        let ratio = float(usage) / (float(target) * f64::from(replicas));
        let wanted = if self.tolerances.hold(ratio) { replicas } else { ceiling(float(usage) / float(target)) };
        let each = if replicas == 0 { usage } else { whole((float(usage) / f64::from(replicas)).ceil()) };
        (wanted, each)
    }

    fn sorted_out(&self, mut samples: Samples, is_cpu: bool) -> Result<(Groups, Samples), String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let groups = self.groups(&samples, is_cpu);
        samples.retain(|pod, _| !groups.ignored.contains(pod) && !groups.unready.contains(pod));
        if samples.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        Ok((groups, samples))
    }

    fn groups(&self, samples: &Samples, is_cpu: bool) -> Groups {
        let mut groups = Groups::default();
        for pod in self.pods {
            let name = pod.metadata.name.clone().unwrap_or_default();
            let sample = samples.get(&name);
            if is_terminating(pod) || phase(pod) == "Failed" {
                groups.ignored.insert(name);
            } else if phase(pod) == "Pending" {
                groups.unready.insert(name);
            } else if let Some(sample) = sample {
                if is_cpu && self.is_unready(pod, sample) {
                    groups.unready.insert(name);
                } else {
                    groups.ready += 1;
                }
            } else {
                groups.missing.insert(name);
            }
        }
        groups
    }

    fn is_unready(&self, pod: &Pod, sample: &Sample) -> bool {
        let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
        let (Some(ready), Some(started)) = (ready_condition(pod), started) else { return true };
        let since = ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let after = |time: Timestamp, span: SignedDuration| time.checked_add(span).unwrap_or(Timestamp::MAX);
        let is_false = ready.status == "False";
        if after(started.0, WARM_UP) > self.now {
            let window = SignedDuration::try_from(sample.window).unwrap_or_default();
            is_false || sample.time < after(since, window)
        } else {
            is_false && after(started.0, FIRST_READY) > since
        }
    }

    /// Computes the replicas with conservative assumptions about pods without samples: these can reduce a change, but
    /// never reverse it.
    fn settled(
        &self,
        groups: &Groups,
        samples: &mut Samples,
        ratio: impl Fn(&Samples) -> Result<f64, String>,
        fallback: impl Fn(&str) -> i64,
    ) -> Result<i32, String> {
        let before = ratio(samples)?;
        let grows_with_unready = !groups.unready.is_empty() && before > 1.0;
        if !grows_with_unready && groups.missing.is_empty() {
            let enough = self.tolerances.hold(before);
            return Ok(if enough { self.current } else { ceiling(before * size(groups.ready)) });
        }
        let guess = |value| Sample { value, time: self.now, window: Duration::ZERO };
        for pod in &groups.missing {
            if before < 1.0 {
                samples.insert(pod.clone(), guess(fallback(pod)));
            } else if before > 1.0 {
                samples.insert(pod.clone(), guess(0));
            }
        }
        if grows_with_unready {
            samples.extend(groups.unready.iter().map(|pod| (pod.clone(), guess(0))));
        }
        let after = ratio(samples)?;
        if self.tolerances.hold(after) || (before < 1.0 && after > 1.0) || (before > 1.0 && after < 1.0) {
            return Ok(self.current);
        }
        let replicas = ceiling(after * size(samples.len()));
        let turned = (after < 1.0 && replicas > self.current) || (after > 1.0 && replicas < self.current);
        Ok(if turned { self.current } else { replicas })
    }

    /// The request of each pod for a resource: of one container, of the pod as a whole, or of all containers.
    fn requests(&self, resource: &str, container: Option<&str>) -> Result<BTreeMap<String, i64>, String> {
        let request =
            |pod: &Arc<Pod>| Ok((pod.metadata.name.clone().unwrap_or_default(), requested(pod, resource, container)?));
        self.pods.iter().map(request).collect()
    }
}

const NO_PODS: &str = "no pods returned by selector while calculating replica count";

fn requested(pod: &Pod, resource: &str, container: Option<&str>) -> Result<i64, String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let Some(spec) = &pod.spec else { return Ok(0) };
    let whole = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    if container.is_none()
        && let Some(requests) = whole
    {
        let request = requests.get(resource).and_then(|quantity| milli(&quantity.0));
        return request.ok_or_else(|| format!("missing pod-level request for {resource} in Pod {name}"));
    }
    let beside = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten().filter(beside));
    let mut total = None;
    for one in containers.filter(|one| container.is_none_or(|container| *container == one.name)) {
        let requests = one.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let request = requests.and_then(|requests| milli(&requests.get(resource)?.0));
        let request =
            request.ok_or_else(|| format!("missing request for {resource} in container {} of Pod {name}", one.name))?;
        *total.get_or_insert(0) += request;
    }
    match (total, container) {
        (None, Some(container)) => Err(format!("container {container} not found in Pod {name}")),
        (total, _) => Ok(total.unwrap_or_default()),
    }
}

/// Parses a quantity in thousandths.
pub(super) fn milli(quantity: &str) -> Option<i64> {
    Quantity::parse(quantity).ok().map(|quantity| quantity.milli_value())
}

fn average(samples: &Samples) -> i64 {
    let total = samples.values().fold(0_i64, |total, sample| total.saturating_add(sample.value));
    i64::try_from(samples.len()).ok().and_then(|count| total.checked_div(count)).unwrap_or_default()
}

/// The utilization of requests in percent, and the average.
fn utilization(samples: &Samples, requests: &BTreeMap<String, i64>) -> Result<(i32, i64), String> {
    let (mut used, mut asked, mut count) = (0_i64, 0_i64, 0_i64);
    for (pod, sample) in samples {
        let Some(request) = requests.get(pod) else { continue };
        used = used.saturating_add(sample.value);
        asked = asked.saturating_add(*request);
        count += 1;
    }
    if asked == 0 {
        return Err("no metrics returned matched known pods".to_owned());
    }
    let percent = used.saturating_mul(100) / asked;
    Ok((i32::try_from(percent).unwrap_or(i32::MAX), used / count.max(1)))
}

/// Rounds replicas up.
fn ceiling(replicas: f64) -> i32 {
    // Float casts saturate at the limits.
    replicas.ceil() as i32
}

fn whole(number: f64) -> i64 {
    number as i64
}

fn float(number: i64) -> f64 {
    number as f64
}

fn size(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;
