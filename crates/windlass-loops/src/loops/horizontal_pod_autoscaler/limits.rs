//! Limits on the range and rate of scaling.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::{
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior, HorizontalPodAutoscalerSpec,
};

/// Default stabilization window for scaling down, in seconds.
const CALM: i32 = 300;

/// Past recommendations and changes of an autoscaler. Kept in memory only: lost on restart.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    recommendations: Vec<(Timestamp, i32)>,
    ups: Vec<(Timestamp, i32)>,
    downs: Vec<(Timestamp, i32)>,
}

/// Limited replicas, and what to report about them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limited {
    pub(super) replicas: i32,
    /// Reason and message of the condition `AbleToScale`.
    pub(super) able: (&'static str, &'static str),
    /// Status, reason and message of the condition `ScalingLimited`.
    pub(super) limited: (bool, &'static str, &'static str),
}

/// The current and proposed replicas, and the allowed range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) current: i32,
    pub(super) desired: i32,
    pub(super) least: i32,
    pub(super) most: i32,
}

const WITHIN: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");
const READY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const DOWN_STABILIZED: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const UP_STABILIZED: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const TOO_MANY: (&str, &str) = ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) = ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const TOO_FAST_UP: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const TOO_FAST_DOWN: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");

impl History {
    /// Starts with the current replicas.
    pub(super) fn begin(&mut self, current: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push((now, current));
        }
    }

    /// Returns the replicas that an autoscaler may set now.
    pub(super) fn limit(&mut self, spec: &HorizontalPodAutoscalerSpec, range: Range, now: Timestamp) -> Limited {
        match &spec.behavior {
            None => self.limit_as_ever(range, now),
            Some(behavior) => self.limit_by(behavior, range, now),
        }
    }

    fn limit_as_ever(&mut self, range: Range, now: Timestamp) -> Limited {
        let calm = since(now, CALM);
        let recent = self.recommendations.iter().filter(|(time, _)| *time >= calm).map(|(_, replicas)| *replicas);
        let stabilized = recent.max().unwrap_or(range.desired).max(range.desired);
        self.recommend(range.desired, calm, now);
        let able = if stabilized == range.desired { READY } else { DOWN_STABILIZED };
        let fastest = range.current.saturating_mul(2).max(4);
        let (most, why) = if range.most > fastest { (fastest, TOO_FAST_UP) } else { (range.most, TOO_MANY) };
        let (replicas, (reason, message)) = if stabilized < range.least {
            (range.least, TOO_FEW)
        } else if stabilized > most {
            (most, why)
        } else {
            (stabilized, WITHIN)
        };
        Limited { replicas, able, limited: (replicas != stabilized, reason, message) }
    }

    fn limit_by(&mut self, behavior: &HorizontalPodAutoscalerBehavior, range: Range, now: Timestamp) -> Limited {
        let (up, down) = (Rules::up(behavior.scale_up.as_ref()), Rules::down(behavior.scale_down.as_ref()));
        let stabilized = self.stabilized(&up, &down, range, now);
        let able = match () {
            () if stabilized == range.desired => READY,
            () if range.desired >= range.current => UP_STABILIZED,
            () => DOWN_STABILIZED,
        };
        let (replicas, (reason, message)) = self.within_rate(&up, &down, Range { desired: stabilized, ..range }, now);
        Limited { replicas, able, limited: (replicas != stabilized, reason, message) }
    }

    fn stabilized(&mut self, up: &Rules, down: &Rules, range: Range, now: Timestamp) -> i32 {
        let (up_since, down_since) = (since(now, up.window), since(now, down.window));
        let recent = |since: Timestamp| {
            self.recommendations.iter().filter(move |(time, _)| *time > since).map(|(_, replicas)| *replicas)
        };
        let lowest = recent(up_since).min().unwrap_or(range.desired).min(range.desired);
        let highest = recent(down_since).max().unwrap_or(range.desired).max(range.desired);
        self.recommend(range.desired, up_since.min(down_since), now);
        range.current.max(lowest).min(highest)
    }

    fn within_rate(
        &self,
        up: &Rules,
        down: &Rules,
        range: Range,
        now: Timestamp,
    ) -> (i32, (&'static str, &'static str)) {
        let Range { current, desired, least, most } = range;
        if desired > current {
            let fastest = self.fastest_up(up, current, now).max(current);
            let (most, why) = if most > fastest { (fastest, TOO_FAST_UP) } else { (most, TOO_MANY) };
            if desired > most {
                return (most, why);
            }
        } else if desired < current {
            let fastest = self.fastest_down(down, current, now).min(current);
            let (least, why) = if least < fastest { (fastest, TOO_FAST_DOWN) } else { (least, TOO_FEW) };
            if desired < least {
                return (least, why);
            }
        }
        (desired, WITHIN)
    }

    fn fastest_up(&self, rules: &Rules, current: i32, now: Timestamp) -> i32 {
        let proposals = rules.policies.iter().map(|policy| {
            let start = self.at_start_of(policy, current, now);
            match policy.type_.as_str() {
                "Pods" => start.saturating_add(policy.value),
                // Rounded up, because it might never grow otherwise.
                _ => (f64::from(start) * (1.0 + f64::from(policy.value) / 100.0)).ceil() as i32,
            }
        });
        match rules.select {
            Select::Disabled => current,
            Select::Least => proposals.min().unwrap_or(i32::MAX),
            Select::Most => proposals.max().unwrap_or(i32::MIN),
        }
    }

    fn fastest_down(&self, rules: &Rules, current: i32, now: Timestamp) -> i32 {
        let proposals = rules.policies.iter().map(|policy| {
            let start = self.at_start_of(policy, current, now);
            match policy.type_.as_str() {
                "Pods" => start.saturating_sub(policy.value),
                _ => (f64::from(start) * (1.0 - f64::from(policy.value) / 100.0)) as i32,
            }
        });
        match rules.select {
            Select::Disabled => current,
            Select::Least => proposals.max().unwrap_or(i32::MIN),
            Select::Most => proposals.min().unwrap_or(i32::MAX),
        }
    }

    /// The replicas when the period of a policy started.
    fn at_start_of(&self, policy: &HPAScalingPolicy, current: i32, now: Timestamp) -> i32 {
        let start = since(now, policy.period_seconds);
        let sum = |changes: &[(Timestamp, i32)]| {
            changes.iter().filter(|(time, _)| *time > start).fold(0_i32, |sum, (_, change)| sum.saturating_add(*change))
        };
        current.saturating_sub(sum(&self.ups)).saturating_add(sum(&self.downs))
    }

    fn recommend(&mut self, replicas: i32, needed_since: Timestamp, now: Timestamp) {
        self.recommendations.retain(|(time, _)| *time >= needed_since);
        self.recommendations.push((now, replicas));
    }

    /// Records a change of the target.
    pub(super) fn changed(&mut self, spec: &HorizontalPodAutoscalerSpec, from: i32, to: i32, now: Timestamp) {
        let Some(behavior) = &spec.behavior else { return };
        let (rules, changes) = if to > from {
            (Rules::up(behavior.scale_up.as_ref()), &mut self.ups)
        } else {
            (Rules::down(behavior.scale_down.as_ref()), &mut self.downs)
        };
        let longest = rules.policies.iter().map(|policy| policy.period_seconds).max().unwrap_or_default();
        changes.retain(|(time, _)| *time >= since(now, longest));
        changes.push((now, to.saturating_sub(from).saturating_abs()));
    }
}

/// The rules of one direction, with defaults.
struct Rules {
    window: i32,
    select: Select,
    policies: Vec<HPAScalingPolicy>,
}

#[derive(Clone, Copy)]
enum Select {
    Most,
    Least,
    Disabled,
}

impl Rules {
    fn up(rules: Option<&HPAScalingRules>) -> Self {
        Self::with(rules, 0, &[("Pods", 4), ("Percent", 100)])
    }

    fn down(rules: Option<&HPAScalingRules>) -> Self {
        Self::with(rules, CALM, &[("Percent", 100)])
    }

    fn with(rules: Option<&HPAScalingRules>, window: i32, policies: &[(&str, i32)]) -> Self {
        let policy = |(type_, value): &(&str, i32)| HPAScalingPolicy {
            type_: (*type_).to_owned(),
            value: *value,
            period_seconds: 15,
        };
        let said = rules.and_then(|rules| rules.policies.clone());
        Self {
            window: rules.and_then(|rules| rules.stabilization_window_seconds).unwrap_or(window),
            select: match rules.and_then(|rules| rules.select_policy.as_deref()) {
                Some("Disabled") => Select::Disabled,
                Some("Min") => Select::Least,
                _ => Select::Most,
            },
            policies: said.unwrap_or_else(|| policies.iter().map(policy).collect()),
        }
    }
}

fn since(now: Timestamp, seconds: i32) -> Timestamp {
    now.checked_sub(SignedDuration::from_secs(seconds.into())).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests;
