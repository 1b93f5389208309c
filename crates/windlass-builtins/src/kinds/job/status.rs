//! Validation of status updates. A rule is enforced only if the values it concerns have changed, so that a status that
//! already violates it can still be corrected.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path, show};

use super::policies::invalid_at;
use super::{has_condition, indexes};
use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::kinds::internal_types::{self, Field, OPTIONAL};
use crate::object::{boolean, copy, integer, is_set, items, text};

const UNCOUNTED: &[Field] = &[("Succeeded", "succeeded", OPTIONAL), ("Failed", "failed", OPTIONAL)];

/// The old and the new job, and the path of the status.
struct Change<'a> {
    job: &'a Value,
    old: &'a Value,
    path: Path,
}

/// Validates a changed status.
pub(super) fn validate(job: &Value, old: &Value) -> ErrorList {
    let change = Change { job, old, path: Path::new("status") };
    let mut errors = ErrorList::new();
    change.counts(&mut errors);
    change.conditions(&mut errors);
    change.finish(&mut errors);
    change.indexes(&mut errors);
    change.last_checks(&mut errors);
    change.transitions(&mut errors);
    errors
}

impl Change<'_> {
    fn number(&self, field: &str) -> i64 {
        integer(self.job, &format!("/status/{field}")).unwrap_or_default()
    }

    fn old_number(&self, field: &str) -> i64 {
        integer(self.old, &format!("/status/{field}")).unwrap_or_default()
    }

    fn has(&self, kind: &str) -> bool {
        has_condition(self.job, kind, "True")
    }

    fn had(&self, kind: &str) -> bool {
        has_condition(self.old, kind, "True")
    }

    fn turned(&self, kinds: &[&str]) -> bool {
        kinds.iter().any(|kind| self.has(kind) != self.had(kind))
    }

    fn is_finished(&self) -> bool {
        self.has("Complete") || self.has("Failed")
    }

    fn finish_turned(&self) -> bool {
        self.is_finished() != (self.had("Complete") || self.had("Failed"))
    }

    fn changed(&self, fields: &[&str]) -> bool {
        fields.iter().any(|field| {
            let pointer = format!("/status/{field}");
            !same(&copy(self.job, &pointer), &copy(self.old, &pointer))
        })
    }

    fn time(&self, field: &str) -> Option<Timestamp> {
        text(self.job, &format!("/status/{field}")).parse().ok()
    }

    fn counts(&self, errors: &mut ErrorList) {
        for field in ["active", "succeeded", "failed", "ready", "terminating"] {
            errors.nonnegative(&self.path.child(field), integer(self.job, &format!("/status/{field}")));
        }
        let mut seen = HashSet::new();
        for field in ["succeeded", "failed"] {
            let path = self.path.child("uncountedTerminatedPods").child(field);
            let uids = items(self.job, &format!("/status/uncountedTerminatedPods/{field}"));
            for (index, uid) in uids.iter().enumerate() {
                let uid = uid.as_str().unwrap_or_default();
                if uid.is_empty() {
                    errors.invalid(&path.index(index), uid, "must not be empty");
                } else if !seen.insert(uid) {
                    errors.push(FieldError::duplicate(&path.index(index), &uid.into()));
                }
            }
        }
    }

    fn conditions(&self, errors: &mut ErrorList) {
        let path = self.path.child("conditions");
        let complete = self.has("Complete");
        if self.turned(&["Complete", "Failed"]) && complete && self.has("Failed") {
            invalid_at(&path, "cannot set Complete=True and Failed=true conditions", errors);
        }
        if self.turned(&["Complete", "FailureTarget"]) && complete && self.has("FailureTarget") {
            invalid_at(&path, "cannot set Complete=True and FailureTarget=true conditions", errors);
        }
        let time_path = self.path.child("completionTime");
        let completed = copy(self.job, "/status/completionTime");
        if self.turned(&["Complete"]) || self.changed(&["completionTime"]) {
            if !completed.is_null() && !complete {
                let detail = "cannot set completionTime when there is no Complete=True condition";
                errors.invalid_shown(&time_path, show(&completed), detail);
            }
            if completed.is_null() && complete {
                errors.required_because(&time_path, "completionTime is required for Complete jobs");
            }
        }
        let is_early = matches!((self.time("startTime"), self.time("completionTime")), (Some(a), Some(b)) if b < a);
        if self.changed(&["startTime", "completionTime"]) && is_early {
            errors.invalid_shown(&time_path, show(&completed), "must be equal to or after `startTime`");
        }
        if (self.turned(&["Failed"]) || self.changed(&["failedIndexes"]))
            && self.has("Failed")
            && !self.has("FailureTarget")
        {
            invalid_at(&path, "cannot set Failed=True condition without the FailureTarget=true condition", errors);
        }
        if self.turned(&["Complete", "SuccessCriteriaMet"]) && complete && !self.has("SuccessCriteriaMet") {
            let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
            invalid_at(&path, detail, errors);
        }
    }

    fn finish(&self, errors: &mut ErrorList) {
        if !self.is_finished() {
            return;
        }
        if (self.finish_turned() || self.changed(&["active"])) && self.number("active") > 0 {
            let detail = "active>0 is invalid for finished job";
            errors.invalid(&self.path.child("active"), self.number("active"), detail);
        }
        let nothing_to_do =
            boolean(self.job, "/spec/suspend") == Some(true) && integer(self.job, "/spec/completions") == Some(0);
        if (self.finish_turned() || self.changed(&["startTime"]))
            && !nothing_to_do
            && !is_set(self.job, "/status/startTime")
        {
            errors.required_because(&self.path.child("startTime"), "startTime is required for finished job");
        }
        let pods = copy(self.job, "/status/uncountedTerminatedPods");
        if (self.finish_turned() || self.changed(&["uncountedTerminatedPods"]))
            && items(&pods, "/succeeded").len() + items(&pods, "/failed").len() > 0
        {
            let path = self.path.child("uncountedTerminatedPods");
            errors.invalid_shown(&path, internal_types::show(&pods, UNCOUNTED), "must be empty for finished job");
        }
    }

    fn indexes(&self, errors: &mut ErrorList) {
        let completions = integer(self.job, "/spec/completions");
        let completed = text(self.job, "/status/completedIndexes");
        let failed = self.job.pointer("/status/failedIndexes").and_then(Value::as_str);
        let per_index = is_set(self.job, "/spec/backoffLimitPerIndex");
        let (completed_path, failed_path) = (self.path.child("completedIndexes"), self.path.child("failedIndexes"));
        let (completed_changed, failed_changed) =
            (self.changed(&["completedIndexes"]), self.changed(&["failedIndexes"]));
        let problem = |text: &str| completions.and_then(|completions| indexes::count(text, completions).err());
        if let Some(error) = problem(completed).filter(|_| completed_changed) {
            errors.invalid(&completed_path, completed, format!("error parsing completedIndexes: {error}"));
        }
        if let Some(text) = failed.filter(|_| failed_changed && per_index)
            && let Some(error) = problem(text)
        {
            errors.invalid(&failed_path, text, format!("error parsing failedIndexes: {error}"));
        }
        if completed_changed && !completed.is_empty() && text(self.job, "/spec/completionMode") != "Indexed" {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.invalid(&completed_path, completed, detail);
        }
        let Some(failed) = failed else { return };
        if failed_changed && !per_index {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.invalid(&failed_path, failed, detail);
        }
        let overlap = completions.and_then(|completions| indexes::overlap(completed, failed, completions));
        if let Some(index) = overlap.filter(|_| failed_changed || completed_changed) {
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errors.invalid(&failed_path, failed, detail);
        }
    }

    fn last_checks(&self, errors: &mut ErrorList) {
        let terminating = self.number("terminating");
        if (self.finish_turned() || self.changed(&["terminating"])) && self.is_finished() && terminating > 0 {
            let detail = "terminating>0 is invalid for finished job";
            errors.invalid(&self.path.child("terminating"), terminating, detail);
        }
        let ready = self.number("ready");
        if self.changed(&["ready", "active"]) && is_set(self.job, "/status/ready") && ready > self.number("active") {
            errors.invalid(&self.path.child("ready"), ready, "cannot set more ready pods than active");
        }
        let path = self.path.child("conditions");
        if self.has("SuccessCriteriaMet") && self.has("Failed") {
            invalid_at(&path, "cannot set SuccessCriteriaMet=True and Failed=true conditions", errors);
        }
        if self.has("SuccessCriteriaMet") && self.has("FailureTarget") {
            invalid_at(&path, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions", errors);
        }
        if is_set(self.job, "/spec/successPolicy") && !self.has("SuccessCriteriaMet") && self.has("Complete") {
            let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            invalid_at(&path, detail, errors);
        }
    }

    fn transitions(&self, errors: &mut ErrorList) {
        let path = self.path.child("conditions");
        for kind in ["Failed", "Complete", "FailureTarget"] {
            if self.had(kind) && !self.has(kind) {
                invalid_at(&path, &format!("cannot disable the terminal {kind}=True condition"), errors);
            }
        }
        let indexed = text(self.job, "/spec/completionMode") == "Indexed";
        let scales = indexed && copy(self.job, "/spec/completions") == copy(self.job, "/spec/parallelism");
        for field in ["failed", "succeeded"] {
            let may_fall = field == "succeeded" && scales;
            if self.number(field) < self.old_number(field) && !may_fall {
                let detail = format!("cannot decrease the {field} counter");
                errors.invalid(&self.path.child(field), self.number(field), detail);
            }
        }
        let completed = copy(self.job, "/status/completionTime");
        if !completed.is_null()
            && is_set(self.old, "/status/completionTime")
            && completed != copy(self.old, "/status/completionTime")
        {
            errors.invalid_shown(&self.path.child("completionTime"), show(&completed), "field is immutable");
        }
        let resumes = self.had("Suspended") && has_condition(self.job, "Suspended", "False");
        if is_set(self.old, "/status/startTime")
            && self.changed(&["startTime"])
            && !resumes
            && boolean(self.job, "/spec/suspend") != Some(true)
        {
            let shown = show(&copy(self.job, "/status/startTime"));
            let detail = "field is immutable for unsuspended job once set";
            errors.invalid_shown(&self.path.child("startTime"), shown, detail);
        }
        if self.had("SuccessCriteriaMet") && !self.has("SuccessCriteriaMet") {
            invalid_at(&path, "cannot disable the SuccessCriteriaMet=True condition", errors);
        }
        if self.had("Complete") && !self.had("SuccessCriteriaMet") && self.has("SuccessCriteriaMet") {
            let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            invalid_at(&path, detail, errors);
        }
    }
}
