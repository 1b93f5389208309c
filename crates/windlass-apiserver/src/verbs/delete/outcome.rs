//! Decides the outcome of a deletion: remove the object at once, or mark it and wait for finalizers or a grace period.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windlass_builtins::{kinds::namespace, strategy::Grace};

use crate::{definitions, endpoint::Endpoint, meta, options::DeleteOptions};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The outcome of a deletion.
pub(super) enum Outcome {
    /// The object is removed at once.
    Remove,
    /// The object is marked and stays until its finalizers are removed or its grace period is over.
    Mark(Value),
    /// The object is marked, so that watchers see that it is being deleted, and then removed.
    MarkAndRemove(Value),
    /// The object is being deleted already; nothing changes.
    Pending,
}

/// Decides the outcome of deleting `object`.
pub(super) fn decide(endpoint: &Endpoint, mut object: Value, options: &DeleteOptions, now: Timestamp) -> Outcome {
    if endpoint.facts.finalizers_in_spec {
        return decide_with_spec_finalizers(endpoint, object, options, now);
    }
    // Marking a CustomResourceDefinition adds the finalizer of the task that deletes its objects.
    if endpoint.is(definitions::GROUP, definitions::PLURAL) && definitions::begin_deletion(&mut object, now) {
        return Outcome::Mark(object);
    }
    let grace = match start_grace_period(endpoint, &mut object, options, now) {
        GracePeriod::Pending => return Outcome::Pending,
        GracePeriod::Started(seconds) => Some(seconds),
        GracePeriod::None => None,
    };
    let finalizers = finalizers_for(endpoint, &object, options);
    meta::set_finalizers(&mut object, finalizers.clone());
    match grace {
        Some(seconds) if seconds > 0 || !finalizers.is_empty() => Outcome::Mark(object),
        None if !finalizers.is_empty() => {
            mark_as_deleting(&mut object, now);
            Outcome::Mark(object)
        }
        Some(_) => Outcome::MarkAndRemove(object),
        None => Outcome::Remove,
    }
}

/// A Namespace has finalizers in its spec too, and stays until the namespace controller has emptied it.
fn decide_with_spec_finalizers(
    endpoint: &Endpoint,
    mut object: Value,
    options: &DeleteOptions,
    now: Timestamp,
) -> Outcome {
    if namespace::begin_deletion(&mut object, now) {
        let finalizers = finalizers_for(endpoint, &object, options);
        meta::set_finalizers(&mut object, finalizers);
    }
    if namespace::may_be_removed(&object) { Outcome::Remove } else { Outcome::Mark(object) }
}

/// The grace period of a deletion.
enum GracePeriod {
    /// There is none, or it is over.
    None,
    /// It was started before and is not shortened.
    Pending,
    /// It was started or shortened to this many seconds.
    Started(i64),
}

/// Starts or shortens a grace period, for kinds that have one.
fn start_grace_period(endpoint: &Endpoint, object: &mut Value, options: &DeleteOptions, now: Timestamp) -> GracePeriod {
    let requested = options.grace_period.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let Grace::Seconds(seconds) = endpoint.strategy.grace(object, requested) else { return GracePeriod::None };
    if !meta::is_terminating(object) {
        let length = SignedDuration::from_secs(seconds.clamp(0, i64::from(i32::MAX)));
        let end = now.checked_add(length).unwrap_or(Timestamp::MAX);
        meta::set(object, "deletionTimestamp", meta::format_time(end));
        meta::set(object, "deletionGracePeriodSeconds", seconds);
        bump_generation(object);
        return GracePeriod::Started(seconds);
    }
    let left = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    if left == 0 {
        return GracePeriod::None;
    }
    match requested {
        Some(period) if period < left => {
            let was: Option<Timestamp> = meta::text(object, "deletionTimestamp").parse().ok();
            let shorter = SignedDuration::from_secs(left.saturating_sub(period));
            let end = was.and_then(|was| was.checked_sub(shorter).ok()).unwrap_or(now);
            let (end, period) = if end < now { (now, period.min(1)) } else { (end, period) };
            meta::set(object, "deletionTimestamp", meta::format_time(end));
            meta::set(object, "deletionGracePeriodSeconds", period);
            GracePeriod::Started(period)
        }
        _ => GracePeriod::Pending,
    }
}

/// Returns the finalizers with those of the garbage collector that the propagation policy demands: the policy of the
/// request, else the one that the object's finalizers express already, else the default of its kind.
fn finalizers_for(endpoint: &Endpoint, object: &Value, options: &DeleteOptions) -> Vec<String> {
    let old = meta::finalizers(object);
    let expressed = || old.iter().find(|name| *name == ORPHAN || *name == FOREGROUND).map(String::as_str);
    let (orphan, foreground) = match (options.orphan_dependents, options.propagation.as_deref()) {
        _ if endpoint.facts.ignores_propagation_policy => (false, false),
        (Some(orphan), _) => (orphan, false),
        (None, Some("Orphan")) => (true, false),
        (None, Some("Foreground")) => (false, true),
        (None, Some(_)) => (false, false),
        (None, None) => match expressed() {
            Some(ORPHAN) => (true, false),
            Some(_) => (false, true),
            None => (endpoint.facts.orphans_by_default, false),
        },
    };
    if old.iter().any(|name| name == ORPHAN) == orphan && old.iter().any(|name| name == FOREGROUND) == foreground {
        return old;
    }
    let mut finalizers = old;
    finalizers.retain(|name| name != ORPHAN && name != FOREGROUND);
    if orphan {
        finalizers.push(ORPHAN.to_owned());
    }
    if foreground {
        finalizers.push(FOREGROUND.to_owned());
    }
    finalizers
}

fn mark_as_deleting(object: &mut Value, now: Timestamp) {
    if !meta::is_terminating(object) {
        bump_generation(object);
    }
    let later = meta::text(object, "deletionTimestamp").parse::<Timestamp>().is_ok_and(|end| end > now);
    if !meta::is_terminating(object) || later {
        meta::set(object, "deletionTimestamp", meta::format_time(now));
    }
    meta::set(object, "deletionGracePeriodSeconds", 0);
}

fn bump_generation(object: &mut Value) {
    let generation = meta::generation(object);
    if generation > 0 {
        meta::set(object, "generation", generation.saturating_add(1));
    }
}
