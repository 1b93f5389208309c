//! APIServices: the servers of API groups.

use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names;

use crate::field_errors::FieldErrors;
use crate::object::{boolean, carry_over, integer, is_set, items, set, set_default, text};
use crate::strategy::{Strategy, WriteContext};

/// The type of the condition that shows whether requests are forwarded.
pub const AVAILABLE: &str = "Available";

const STATUSES: &[&str] = &["True", "False", "Unknown"];
const MAX_GROUP_PRIORITY: i64 = 20_000;
const MAX_VERSION_PRIORITY: i64 = 1000;
/// The port of a service that names none.
const DEFAULT_PORT: i64 = 443;

/// Strategy of APIServices.
#[derive(Debug, Clone, Copy)]
pub struct ApiService;

impl Strategy for ApiService {
    fn default(&self, object: &mut Value) {
        if is_set(object, "/spec/service") {
            set_default(object, "/spec/service/port", DEFAULT_PORT);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, context: &WriteContext<'_>) {
        set(object, "/status", json!({}));
        if !is_set(object, "/spec/service") {
            set_available(object, &Availability::LOCAL, &context.time());
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_name(object, &mut errors);
        validate_spec(object, &Path::new("spec"), &mut errors);
        errors
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        carry_over(object, old, "/status");
    }

    fn prepare_for_subresource_update(
        &self,
        _subresource: &str,
        object: &mut Value,
        old: &Value,
        _context: &WriteContext<'_>,
    ) {
        for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
            carry_over(object, old, &format!("/metadata/{field}"));
        }
    }

    fn validate_subresource_update(&self, _subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("status").child("conditions");
        for (index, condition) in items(object, "/status/conditions").iter().enumerate() {
            let status = text(condition, "/status");
            if !STATUSES.contains(&status) {
                errors.not_supported(&path.index(index).child("status"), status, STATUSES);
            }
        }
        errors
    }
}

/// The state of the condition `Available`, except for its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Availability {
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The reason, in one word.
    pub reason: &'static str,
    /// The message.
    pub message: std::borrow::Cow<'static, str>,
}

impl Availability {
    /// The condition of an APIService that this server serves itself.
    pub const LOCAL: Self = Self {
        status: "True",
        reason: "Local",
        message: std::borrow::Cow::Borrowed("Local APIServices are always available"),
    };
}

/// Sets the condition `Available`. Returns whether this changed the object; the time changes only with the status.
pub fn set_available(object: &mut Value, availability: &Availability, now: &str) -> bool {
    let Availability { status, reason, message } = availability;
    let condition = json!({
        "lastTransitionTime": now, "message": message, "reason": reason, "status": status, "type": AVAILABLE,
    });
    let mut conditions = items(object, "/status/conditions").to_vec();
    match conditions.iter_mut().find(|known| text(known, "/type") == AVAILABLE) {
        None => conditions.push(condition),
        Some(known) => {
            let same = text(known, "/status") == *status;
            if same && text(known, "/reason") == *reason && text(known, "/message") == &**message {
                return false;
            }
            let since = if same { text(known, "/lastTransitionTime").to_owned() } else { now.to_owned() };
            *known = condition;
            set(known, "/lastTransitionTime", since);
        }
    }
    set(object, "/status/conditions", conditions);
    true
}

/// Returns whether requests may be forwarded.
pub fn is_available(object: &Value) -> bool {
    let condition = items(object, "/status/conditions").iter().find(|known| text(known, "/type") == AVAILABLE);
    condition.is_some_and(|condition| text(condition, "/status") == "True")
}

/// Checks that the name consists of version and group.
fn validate_name(object: &Value, errors: &mut ErrorList) {
    let name = text(object, "/metadata/name");
    let required = format!("{}.{}", text(object, "/spec/version"), text(object, "/spec/group"));
    // Other rules for names are checked with the metadata.
    if name != required && !name.is_empty() && names::is_path_segment_name(name).is_empty() {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
        errors.invalid(&Path::new("metadata").child("name"), name, detail);
    }
}

fn validate_spec(object: &Value, path: &Path, errors: &mut ErrorList) {
    let (group, version) = (text(object, "/spec/group"), text(object, "/spec/version"));
    if group.is_empty() {
        if version != "v1" {
            let detail = "only v1 may have an empty group and it better be legacy kube";
            errors.required_because(&path.child("group"), detail);
        }
    } else {
        errors.dns_subdomain(&path.child("group"), group);
    }
    errors.invalid_each(&path.child("version"), version, names::is_dns1035_label(version));
    let priorities = [("groupPriorityMinimum", MAX_GROUP_PRIORITY), ("versionPriority", MAX_VERSION_PRIORITY)];
    for (field, max) in priorities {
        let priority = integer(object, &format!("/spec/{field}")).unwrap_or_default();
        if !(1..=max).contains(&priority) {
            errors.invalid(&path.child(field), priority, format!("must be positive and less than {max}"));
        }
    }
    let bundle = decoded_length(text(object, "/spec/caBundle"));
    let insecure = boolean(object, "/spec/insecureSkipTLSVerify") == Some(true);
    if !is_set(object, "/spec/service") {
        if bundle > 0 {
            let shown = format!("{bundle} bytes");
            errors.invalid(&path.child("caBundle"), shown, "local APIServices may not have a caBundle");
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.invalid(&path.child("insecureSkipTLSVerify"), true, detail);
        }
        return;
    }
    let service = path.child("service");
    for field in ["namespace", "name"] {
        if text(object, &format!("/spec/service/{field}")).is_empty() {
            errors.required(&service.child(field));
        }
    }
    let port = integer(object, "/spec/service/port").unwrap_or_default();
    let problems = names::is_valid_port_num(port);
    if !problems.is_empty() {
        errors.invalid(&service.child("port"), port, format!("port is not valid: {}", problems.join(", ")));
    }
    if insecure && bundle > 0 {
        errors.invalid(&path.child("insecureSkipTLSVerify"), true, "may not be true if caBundle is present");
    }
}

/// Returns the number of bytes that a base64 string encodes.
fn decoded_length(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_status};

    fn service(name: &str, spec: Value) -> Value {
        json!({"metadata": {"name": name}, "spec": spec})
    }

    fn spec(more: &Value) -> Value {
        let mut spec = json!({"group": "example.com", "version": "v1", "groupPriorityMinimum": 20000,
            "versionPriority": 1000});
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        spec
    }

    #[test]
    fn the_name_is_version_and_group() {
        check_create(&ApiService, service("v1.example.com", spec(&json!({}))), expect![[""]]);
        check_create(
            &ApiService,
            service("v2.example.com", spec(&json!({}))),
            expect![[r#"
            metadata.name: Invalid value: "v2.example.com": must be `spec.version+"."+spec.group`: "v1.example.com"
        "#]],
        );
        check_create(&ApiService, service("v1.", spec(&json!({"group": ""}))), expect![[""]]);
        check_create(
            &ApiService,
            service("v2.", spec(&json!({"group": "", "version": "v2"}))),
            expect![[r#"
            spec.group: Required value: only v1 may have an empty group and it better be legacy kube
        "#]],
        );
    }

    #[test]
    fn priorities_and_services_are_checked() {
        let wrong = spec(&json!({"groupPriorityMinimum": 20001, "versionPriority": 0, "caBundle": "YWJj",
            "insecureSkipTLSVerify": true}));
        check_create(
            &ApiService,
            service("v1.example.com", wrong),
            expect![[r#"
            spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000
            spec.versionPriority: Invalid value: 0: must be positive and less than 1000
            spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle
            spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify
        "#]],
        );
        let wrong = spec(&json!({"caBundle": "YWI=", "insecureSkipTLSVerify": true, "service": {"port": 65536}}));
        check_create(
            &ApiService,
            service("v1.example.com", wrong),
            expect![[r#"
            spec.service.namespace: Required value
            spec.service.name: Required value
            spec.service.port: Invalid value: 65536: port is not valid: must be between 1 and 65535, inclusive
            spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present
        "#]],
        );
    }

    #[test]
    fn only_local_services_are_available_at_once() {
        let create = |more: Value| {
            let mut object = service("v1.example.com", spec(&more));
            object["status"] = json!({"conditions": [{"type": "Other", "status": "True"}]});
            ApiService.default(&mut object);
            ApiService.prepare_for_create(&mut object, &WriteContext::test());
            object
        };
        let local = create(json!({}));
        assert!(is_available(&local));
        assert_eq!(local["status"]["conditions"][0]["reason"], "Local");
        let remote = create(json!({"service": {"namespace": "a", "name": "b"}}));
        assert_eq!((&remote["spec"]["service"]["port"], &remote["status"]), (&json!(443), &json!({})));
        assert!(!is_available(&remote));
    }

    #[test]
    fn the_time_of_the_condition_is_that_of_the_last_change_of_its_status() {
        let mut object = json!({});
        let state = |status, reason| Availability { status, reason, message: "m".into() };
        assert!(set_available(&mut object, &state("False", "A"), "1"));
        assert!(!set_available(&mut object, &state("False", "A"), "2"));
        assert!(set_available(&mut object, &state("False", "B"), "3"));
        let condition = object["status"]["conditions"][0].clone();
        assert_eq!((&condition["reason"], &condition["lastTransitionTime"]), (&json!("B"), &json!("1")));
        assert!(set_available(&mut object, &state("True", "C"), "4"));
        assert_eq!(object["status"]["conditions"][0]["lastTransitionTime"], "4");
    }

    #[test]
    fn conditions_have_a_known_status() {
        check_status(
            &ApiService,
            json!({"status": {"conditions": [{"type": "Available", "status": "Maybe"}]}}),
            json!({}),
            expect![[r#"
            status.conditions[0].status: Unsupported value: "Maybe": supported values: "True", "False", "Unknown"
        "#]],
        );
    }
}
