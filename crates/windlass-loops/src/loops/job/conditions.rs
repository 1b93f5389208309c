//! The conditions of a job.

use jiff::Timestamp;
use k8s_openapi::{
    api::batch::v1::{Job, JobCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};

/// A condition that starts now.
pub(super) fn condition(type_: &str, holds: bool, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    // The API has whole seconds only.
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    JobCondition {
        type_: type_.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        last_probe_time: Some(now.clone()),
        last_transition_time: Some(now),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
    }
}

/// A copy with another type that starts now.
pub(super) fn renamed(from: &JobCondition, type_: &str, now: Timestamp) -> JobCondition {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    condition(type_, true, &text(&from.reason), &text(&from.message), now)
}

/// Returns a condition that is true.
pub(super) fn holding<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Sets a condition, unless it is unchanged. A false condition that never existed is not added. Returns whether
/// anything changed.
pub(super) fn ensure(conditions: &mut Option<Vec<JobCondition>>, new: JobCondition) -> bool {
    let present = conditions.iter_mut().flatten().find(|condition| condition.type_ == new.type_);
    match present {
        Some(present) => {
            let same = present.status == new.status && present.reason == new.reason && present.message == new.message;
            if !same {
                *present = new;
            }
            !same
        }
        None if new.status == "False" => false,
        None => {
            conditions.get_or_insert_default().push(new);
            true
        }
    }
}

/// The final condition of a job: `Complete` or `Failed`.
pub(super) fn end(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_was_never_true_is_not_added_as_false() {
        let now = Timestamp::UNIX_EPOCH;
        let mut conditions = None;
        assert!(!ensure(&mut conditions, condition("Suspended", false, "JobResumed", "Job resumed", now)));
        assert_eq!(conditions, None);
        assert!(ensure(&mut conditions, condition("Suspended", true, "JobSuspended", "Job suspended", now)));
        assert!(!ensure(
            &mut conditions,
            condition("Suspended", true, "JobSuspended", "Job suspended", Timestamp::MAX)
        ));
        assert!(ensure(&mut conditions, condition("Suspended", false, "JobResumed", "Job resumed", now)));
        assert_eq!(conditions.unwrap().len(), 1);
    }
}
