//! The options of each verb: parsed from the query (or the body of a delete), and validated with the messages of
//! kube-apiserver.

use serde_json::{Value, json};
use windlass_schema::{
    field::{ErrorKind, ErrorList, FieldError, Path},
    object_meta,
};

use crate::{
    query::Query,
    status::{ApiError, Result},
};

/// The treatment of unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// They are dropped silently.
    Ignore,
    /// They are dropped, and the client is warned. The default.
    Warn,
    /// The request is rejected.
    Strict,
}

/// The options of create, update and patch.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// Whether everything runs but nothing is stored.
    pub(crate) dry_run: bool,
    /// The treatment of unknown fields.
    pub(crate) field_validation: FieldValidation,
    /// The field manager; empty if not given.
    pub(crate) field_manager: String,
    /// Whether an apply takes over fields of other managers.
    pub(crate) force: bool,
}

/// The kind of options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// `CreateOptions`
    Create,
    /// `UpdateOptions`
    Update,
    /// `PatchOptions` of any patch but an apply.
    Patch,
    /// `PatchOptions` of an apply.
    Apply,
}

impl WriteKind {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

impl WriteOptions {
    /// The options of the server's own writes.
    pub(crate) fn internal() -> Self {
        let field_validation = FieldValidation::Ignore;
        Self { dry_run: false, field_validation, field_manager: String::new(), force: false }
    }

    /// Parses and validates the options.
    pub(crate) fn parse(query: &Query<'_>, kind: WriteKind) -> Result<Self> {
        let mut errors = ErrorList::new();
        let force = query.optional_flag("force");
        if kind == WriteKind::Patch && force.is_some() {
            errors.push(FieldError::forbidden(&Path::new("force"), "may not be specified for non-apply patch"));
        }
        let path = Path::new("fieldManager");
        let field_manager = query.text("fieldManager");
        if kind == WriteKind::Apply && field_manager.is_empty() {
            errors.push(FieldError::required(&path, "is required for apply patch"));
        }
        errors.extend(object_meta::validate_field_manager(field_manager, &path));
        let dry_run = query.all("dryRun");
        validate_dry_run(&dry_run, &mut errors);
        let field_validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported(&Path::new("fieldValidation"), &json!(other), &supported));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            return Err(ApiError::invalid(kind.name(), "meta.k8s.io", "", &errors));
        }
        let force = kind == WriteKind::Apply && force == Some(true);
        Ok(Self { dry_run: !dry_run.is_empty(), field_validation, field_manager: field_manager.to_owned(), force })
    }
}

/// Returns the stages of a dry run in a decoded `DeleteOptions`.
pub(crate) fn dry_run(body: &Value) -> Vec<&str> {
    body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn validate_dry_run(values: &[&str], errors: &mut ErrorList) {
    if values.iter().any(|value| *value != "All") {
        errors.push(FieldError::not_supported(&Path::new("dryRun"), &json!(values), &["All"]));
    }
}

/// The options of a delete.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    /// Whether everything runs but nothing is deleted.
    pub(crate) dry_run: bool,
    /// The grace period in seconds.
    pub(crate) grace_period: Option<i64>,
    /// The propagation policy: `Orphan`, `Background` or `Foreground`.
    pub(crate) propagation: Option<String>,
    /// The deprecated form of `propagation`.
    pub(crate) orphan_dependents: Option<bool>,
    /// The uid that the object must have.
    pub(crate) uid: Option<String>,
    /// The resource version that the object must have.
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    /// Parses the query, if there is no body.
    pub(crate) fn from_query(query: &Query<'_>) -> Result<Self> {
        let text = |name: &str| query.get(name).filter(|value| !value.is_empty()).map(str::to_owned);
        let dry_run = query.all("dryRun");
        let options = Self {
            dry_run: !dry_run.is_empty(),
            grace_period: query.integer("gracePeriodSeconds")?,
            propagation: text("propagationPolicy"),
            orphan_dependents: query.optional_flag("orphanDependents"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        };
        options.validate(&dry_run)?;
        Ok(options)
    }

    /// Parses a decoded `DeleteOptions` body; the query is then ignored, as kube-apiserver does.
    pub(crate) fn from_body(body: &Value) -> Result<Self> {
        let text = |at: &Value| at.as_str().map(str::to_owned);
        let dry_run = dry_run(body);
        let options = Self {
            dry_run: !dry_run.is_empty(),
            grace_period: body["gracePeriodSeconds"].as_i64(),
            propagation: text(&body["propagationPolicy"]),
            orphan_dependents: body["orphanDependents"].as_bool(),
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
        };
        options.validate(&dry_run)?;
        Ok(options)
    }

    fn validate(&self, dry_run: &[&str]) -> Result<()> {
        let mut errors = ErrorList::new();
        let path = Path::new("propagationPolicy");
        if let Some(policy) = &self.propagation {
            if self.orphan_dependents.is_some() {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(FieldError::invalid(&path, &json!(policy), detail));
            }
            if !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan") {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported(&path, &json!(policy), &supported));
            }
        }
        validate_dry_run(dry_run, &mut errors);
        if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("DeleteOptions", "meta.k8s.io", "", &errors)) }
    }
}

/// The meaning of a list's resource version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    /// Not given.
    Unset,
    /// Exactly this version.
    Exact,
    /// This version or a newer one.
    NotOlderThan,
}

/// The options of list, watch and deletecollection.
#[derive(Debug, Clone)]
pub(crate) struct ListOptions {
    /// The page size; `None` for all.
    pub(crate) limit: Option<usize>,
    /// The continue token.
    pub(crate) continue_token: String,
    /// The resource version, as given.
    pub(crate) resource_version: String,
    /// The meaning of the resource version.
    pub(crate) version_match: VersionMatch,
    /// Whether a watch starts with the current state; `None` if not given.
    pub(crate) send_initial_events: Option<bool>,
    /// Whether the client requests bookmarks.
    pub(crate) bookmarks: bool,
    /// The number of seconds after which the server ends the watch.
    pub(crate) timeout_seconds: Option<i64>,
}

impl ListOptions {
    /// Parses and validates the options.
    pub(crate) fn parse(query: &Query<'_>, watch: bool) -> Result<Self> {
        let limit = query.integer("limit")?;
        let timeout_seconds = query.integer("timeoutSeconds")?;
        let version_match = query.text("resourceVersionMatch");
        let mut options = Self {
            limit: limit.filter(|limit| *limit > 0).map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            continue_token: query.text("continue").to_owned(),
            resource_version: query.text("resourceVersion").to_owned(),
            version_match: VersionMatch::Unset,
            send_initial_events: query.optional_flag("sendInitialEvents"),
            bookmarks: query.flag("allowWatchBookmarks"),
            timeout_seconds,
        };
        let errors = if watch { options.watch_errors(version_match) } else { options.list_errors(version_match) };
        if !errors.is_empty() {
            return Err(ApiError::invalid("ListOptions", "meta.k8s.io", "", &errors));
        }
        options.version_match = match version_match {
            "Exact" => VersionMatch::Exact,
            "NotOlderThan" => VersionMatch::NotOlderThan,
            _ => VersionMatch::Unset,
        };
        Ok(options)
    }

    fn list_errors(&self, version_match: &str) -> ErrorList {
        let path = Path::new("resourceVersionMatch");
        let mut errors = ErrorList::new();
        let mut forbid = |detail: &str| errors.push(FieldError::forbidden(&path, detail));
        if !version_match.is_empty() {
            if self.resource_version.is_empty() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if !matches!(version_match, "Exact" | "NotOlderThan") {
                let supported = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported(&path, &json!(version_match), &supported));
            }
            if version_match == "Exact" && self.resource_version == "0" {
                let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(&path, detail));
            }
        }
        if self.send_initial_events.is_some() {
            let path = Path::new("sendInitialEvents");
            errors.push(FieldError::forbidden(&path, "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn watch_errors(&self, version_match: &str) -> ErrorList {
        let path = Path::new("resourceVersionMatch");
        let mut errors = ErrorList::new();
        if self.send_initial_events.is_some() && version_match != "NotOlderThan" {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(&path, detail));
        }
        if !version_match.is_empty() {
            if self.send_initial_events.is_none() {
                let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(&path, detail));
            }
            if version_match != "NotOlderThan" {
                errors.push(FieldError::not_supported(&path, &json!(version_match), &["NotOlderThan"]));
            }
        }
        if !self.continue_token.is_empty() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(&path, detail));
        }
        errors
    }
}

/// Parses a resource version of a client: a plain number.
pub(crate) fn parse_resource_version(text: &str) -> Result<u64, FieldError> {
    text.parse().map_err(|_| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let why = if digits { "value out of range" } else { "invalid syntax" };
        let shown = windlass_schema::field::quote(text);
        FieldError {
            kind: ErrorKind::Invalid,
            field: "resourceVersion".to_owned(),
            value: Some(shown.clone()),
            detail: format!("strconv.ParseUint: parsing {shown}: {why}"),
        }
    })
}
