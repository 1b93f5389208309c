//! Jobs.

mod indexes;
mod policies;
mod prepare;
mod status;
mod update;
pub(super) mod validation;

use jiff::Timestamp;
use serde_json::{Map, Value};
use windlass_schema::field::{ErrorList, Path};

use super::{pod, pod_template};
use crate::columns::{self, Column, Printer, column, wide};
use crate::object::{integer, is_set, items, text};
use crate::strategy::{Strategy, WriteContext};

pub(super) use prepare::default_pod_conditions;

/// Strategy of Jobs.
#[derive(Debug, Clone, Copy)]
pub struct Job;

/// The selector column of Jobs and CronJobs.
pub(super) const SELECTOR: Column = wide(
    "Selector",
    "string",
    "A label query over pods that should match the pod count. Normally, the system sets this field for you. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
);

const COLUMNS: &[Column] = &[
    columns::NAME,
    column("Status", "string", "Status of the job."),
    column(
        "Completions",
        "string",
        "The number of pods which reached phase Succeeded. The value increases monotonically for a given spec. However, it may decrease in reaction to scale down of elastic indexed jobs.",
    ),
    column("Duration", "string", "Time required to complete the job."),
    columns::AGE,
    columns::CONTAINERS,
    columns::IMAGES,
    SELECTOR,
];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for Job {
    fn default(&self, object: &mut Value) {
        prepare::default(object);
    }

    fn shared_labels(&self, object: &Value) -> Option<Map<String, Value>> {
        prepare::shared_labels(object)
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        prepare::create(object);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::validate(object, true)
    }

    fn prepare_for_update(&self, object: &mut Value, _old: &Value, _context: &WriteContext<'_>) {
        pod_template::drop_disabled(object);
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        update::validate(object, old)
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, old: &Value) -> ErrorList {
        if subresource == "status" { status::validate(object, old) } else { ErrorList::new() }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        match old {
            None => warnings.extend(pod_template::name_warning(object)),
            Some(old) if pod_template::same_generation(object, old) => return warnings,
            Some(_) => {}
        }
        let spec = object.get("spec").unwrap_or(&Value::Null);
        warnings.extend(spec_warnings(spec, &Path::new("spec")));
        warnings
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("status.successful", integer(object, "/status/succeeded").unwrap_or_default().to_string())]
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = columns::containers(object, "/spec/template/spec/containers");
    let succeeded = integer(object, "/status/succeeded").unwrap_or_default();
    let completions = match (integer(object, "/spec/completions"), integer(object, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, Some(parallel)) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        _ => format!("{succeeded}/1"),
    };
    let time = |pointer| text(object, pointer).parse::<Timestamp>().ok();
    let duration = match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => columns::human_duration(end.unwrap_or(now).duration_since(start)),
    };
    vec![
        columns::name(object),
        summary(object).into(),
        completions.into(),
        duration.into(),
        columns::age(object, now),
        names.into(),
        images.into(),
        columns::selector(object, "/spec/selector").into(),
    ]
}

/// Returns warnings about the spec of a job.
pub(super) fn spec_warnings(spec: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let number = |pointer| integer(spec, pointer).unwrap_or_default();
    let is_indexed = text(spec, "/completionMode") == "Indexed";
    if is_indexed && number("/completions") > 100_000 && number("/parallelism") > 10_000 {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    warnings.extend(pod::template_warnings(template, &path.child("template")));
    warnings
}

/// Returns whether a job has a condition with this status.
fn has_condition(job: &Value, kind: &str, status: &str) -> bool {
    let conditions = items(job, "/status/conditions").iter();
    conditions.into_iter().any(|have| text(have, "/type") == kind && text(have, "/status") == status)
}

fn summary(job: &Value) -> &'static str {
    let is_true = |kind| has_condition(job, kind, "True");
    match () {
        () if is_true("Complete") => "Complete",
        () if is_true("Failed") => "Failed",
        () if is_set(job, "/metadata/deletionTimestamp") => "Terminating",
        () if is_true("Suspended") => "Suspended",
        () if is_true("FailureTarget") => "FailureTarget",
        () if is_true("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

#[cfg(test)]
mod tests;
