//! CronJobs.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::cron::{Schedule, time_zone};
use windlass_schema::field::{ErrorList, Path};

use super::{job, pod_template};
use crate::columns::{self, Column, Printer, column};
use crate::field_errors::FieldErrors;
use crate::object::{boolean, integer, is_set, items, set_default, set_default_text, text};
use crate::strategy::{Strategy, WriteContext};

/// Strategy of CronJobs.
#[derive(Debug, Clone, Copy)]
pub struct CronJob;

const TEMPLATE: &str = "/spec/jobTemplate/spec/template";
/// Maximum length of the name: a job's name appends eleven characters for its scheduled time.
const MAX_NAME: usize = 52;

const COLUMNS: &[Column] = &[
    columns::NAME,
    column("Schedule", "string", "The schedule in Cron format, see https://en.wikipedia.org/wiki/Cron."),
    column(
        "Timezone",
        "string",
        "The time zone name for the given schedule, see https://en.wikipedia.org/wiki/List_of_tz_database_time_zones. If not specified, this will default to the time zone of the kube-controller-manager process. The set of valid time zone names and the time zone offset is loaded from the system-wide time zone database by the API server during CronJob validation and the controller manager during execution. If no system-wide time zone database can be found a bundled version of the database is used instead. If the time zone name becomes invalid during the lifetime of a CronJob or due to a change in host configuration, the controller will stop creating new new Jobs and will create a system event with the reason UnknownTimeZone. More information can be found in https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#time-zones",
    ),
    column(
        "Suspend",
        "boolean",
        "This flag tells the controller to suspend subsequent executions, it does not apply to already started executions.  Defaults to false.",
    ),
    column("Active", "integer", "A list of pointers to currently running jobs."),
    column("Last Schedule", "string", "Information when was the last time the job was successfully scheduled."),
    columns::AGE,
    columns::CONTAINERS,
    columns::IMAGES,
    job::SELECTOR,
];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for CronJob {
    fn default(&self, object: &mut Value) {
        set_default_text(object, "/spec/concurrencyPolicy", "Allow");
        set_default(object, "/spec/suspend", false);
        set_default(object, "/spec/successfulJobsHistoryLimit", 3);
        set_default(object, "/spec/failedJobsHistoryLimit", 1);
        if let Some(spec) = object.pointer_mut("/spec/jobTemplate/spec") {
            job::default_pod_conditions(spec);
        }
        pod_template::default_at(object, TEMPLATE);
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        pod_template::drop_disabled_at(object, TEMPLATE);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = validate_spec(object, None);
        let name = text(object, "/metadata/name");
        if name.len() > MAX_NAME {
            errors.invalid(&Path::new("metadata").child("name"), name, "must be no more than 52 characters");
        }
        errors
    }

    fn prepare_for_update(&self, object: &mut Value, _old: &Value, _context: &WriteContext<'_>) {
        pod_template::drop_disabled_at(object, TEMPLATE);
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validate_spec(object, Some(old))
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() {
            warnings.extend(pod_template::name_warning(object));
        }
        if old.is_none_or(|old| !pod_template::same_generation(object, old)) {
            let path = Path::new("spec").child("jobTemplate").child("spec");
            let spec = object.pointer("/spec/jobTemplate/spec").unwrap_or(&Value::Null);
            warnings.extend(job::spec_warnings(spec, &path));
        }
        if old.is_some() && text(object, "/spec/schedule").contains("TZ") {
            // kube-apiserver uses this field name.
            warnings.push(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
        warnings
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = columns::containers(object, &format!("{TEMPLATE}/spec/containers"));
    let last = match is_set(object, "/status/lastScheduleTime") {
        true => columns::since(object, "/status/lastScheduleTime", now),
        false => "<none>".to_owned(),
    };
    let zone = object.pointer("/spec/timeZone").and_then(Value::as_str).unwrap_or("<none>");
    let suspended = match boolean(object, "/spec/suspend") {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    vec![
        columns::name(object),
        text(object, "/spec/schedule").into(),
        zone.into(),
        suspended.into(),
        items(object, "/status/active").len().into(),
        last.into(),
        columns::age(object, now),
        names.into(),
        images.into(),
        columns::selector(object, "/spec/jobTemplate/spec/selector").into(),
    ]
}

fn validate_spec(object: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let had_zone = old.is_some_and(|old| text(old, "/spec/schedule").contains("TZ"));
    validate_schedule(spec, had_zone, &path.child("schedule"), &mut errors);
    errors.nonnegative(&path.child("startingDeadlineSeconds"), integer(spec, "/startingDeadlineSeconds"));
    let zone = spec.get("timeZone").and_then(Value::as_str);
    let old_zone = old.map(|old| old.pointer("/spec/timeZone").and_then(Value::as_str));
    if let Some(zone) = zone.filter(|_| old_zone.is_none_or(|old| old != zone)) {
        validate_time_zone(zone, &path.child("timeZone"), &mut errors);
    }
    let policies = ["Allow", "Forbid", "Replace"];
    errors.one_of(&path.child("concurrencyPolicy"), text(spec, "/concurrencyPolicy"), &policies);
    let job_path = path.child("jobTemplate").child("spec");
    let job = spec.pointer("/jobTemplate/spec").unwrap_or(&Value::Null);
    job::validation::validate_any_spec(job, &job_path, &mut errors);
    if let Some(selector) = job.get("selector").filter(|selector| !selector.is_null()) {
        let shown = pod_template::show_selector(selector);
        errors.invalid_shown(&job_path.child("selector"), shown, "`selector` will be auto-generated");
    }
    if boolean(job, "/manualSelector") == Some(true) {
        let error = windlass_schema::field::FieldError::not_supported(
            &job_path.child("manualSelector"),
            &true.into(),
            &["nil", "false"],
        );
        errors.push(error);
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        errors.nonnegative(&path.child(field), spec.get(field).and_then(Value::as_i64));
    }
    errors
}

fn validate_schedule(spec: &Value, had_zone: bool, path: &Path, errors: &mut ErrorList) {
    let schedule = text(spec, "/schedule");
    if schedule.is_empty() {
        return errors.required(path);
    }
    if let Err(error) = Schedule::parse(schedule) {
        errors.invalid(path, schedule, error.to_string());
    }
    if !schedule.contains("TZ") {
        return;
    }
    if !had_zone {
        errors.invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    } else if is_set(spec, "/timeZone") {
        errors.invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
    }
}

fn validate_time_zone(zone: &str, path: &Path, errors: &mut ErrorList) {
    if zone.is_empty() {
        return errors.invalid(path, zone, "timeZone must be nil or non-empty string");
    }
    let is_name = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
        part != "."
            && part != ".."
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part.bytes().all(allowed)
    };
    if !zone.split('/').all(is_name) {
        return errors.invalid(path, zone, format!("unknown time zone {zone}"));
    }
    if zone.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(path, zone, detail);
    }
    // kube-apiserver's time zone library accepts this name, but only in this case.
    if zone != "Local"
        && let Err(error) = time_zone(zone)
    {
        errors.invalid(path, zone, error);
    }
}

#[cfg(test)]
mod tests;
