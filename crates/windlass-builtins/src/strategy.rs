//! What a schema cannot say about a kind: defaulting, validation, immutability, columns.
//!
//! A strategy is a small value without state. Every method has a default that fits a kind with nothing special, so a
//! kind without a file of its own is served from its table entry alone.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::ErrorList;

/// The rules for `metadata.name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain (RFC 1123), the rule of most kinds.
    DnsSubdomain,
    /// A DNS label (RFC 1123): namespaces.
    DnsLabel,
    /// A DNS label (RFC 1035).
    Dns1035Label,
    /// Anything that can be a path segment: RBAC objects.
    PathSegment,
}

/// A column of `kubectl get`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: &'static str,
    /// `name` for the first column, else empty.
    pub format: &'static str,
    /// The description that a Table carries.
    pub description: &'static str,
    /// 0 is always shown, 1 and above with `-o wide`.
    pub priority: i32,
}

/// What a graceful deletion should do to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    /// The kind knows no grace period: delete at once.
    None,
    /// Mark the object as being deleted and let its owner finish within this many seconds; 0 deletes at once.
    Seconds(i64),
}

/// The behaviour of a kind beyond its schema. Objects are JSON values that fit the kind's schema.
pub trait Strategy: Send + Sync + 'static {
    /// Fills in what the API's Go defaulting functions fill in. Runs on every decoded body and after every patch;
    /// must be idempotent.
    fn default(&self, _object: &mut Value) {}

    /// Resets what a client may not set on create (status, generated fields).
    fn prepare_for_create(&self, _object: &mut Value) {}

    /// Validates a new object, metadata excepted (that is generic).
    fn validate(&self, _object: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Carries over from `old` what a client may not change by an ordinary update (status).
    fn prepare_for_update(&self, _object: &mut Value, _old: &Value) {}

    /// Validates a changed object against the old one, metadata excepted.
    fn validate_update(&self, object: &Value, _old: &Value) -> ErrorList {
        self.validate(object)
    }

    /// Carries over from `old` what an update of the subresource may not change. For `status` the caller has already
    /// put the old `spec` and metadata back as far as the generic rules go.
    fn prepare_for_subresource_update(&self, _subresource: &str, _object: &mut Value, _old: &Value) {}

    /// Validates an update of a subresource.
    fn validate_subresource_update(&self, _subresource: &str, _object: &Value, _old: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Warnings for the client about an accepted create or update.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// The rule for names.
    fn name_rule(&self) -> NameRule {
        NameRule::DnsSubdomain
    }

    /// Whether `metadata.generation` counts changes of the spec (everything outside metadata and status).
    fn has_generation(&self) -> bool {
        false
    }

    /// Whether an update makes `metadata.generation` one higher; asked only where [`Strategy::has_generation`], for
    /// updates of the object itself, after `prepare_for_update`.
    fn changes_generation(&self, object: &Value, old: &Value) -> bool {
        let counts = |name: &String| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status");
        let (Some(new), Some(old)) = (object.as_object(), old.as_object()) else { return object != old };
        let differs = |name: &String| counts(name) && new.get(name) != old.get(name);
        new.keys().chain(old.keys()).any(differs)
    }

    /// Whether a PUT to a name that does not exist creates it.
    fn creates_on_update(&self) -> bool {
        false
    }

    /// Whether an update without a resourceVersion is accepted.
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// The grace a deletion gets; `requested` is the client's gracePeriodSeconds.
    fn grace(&self, _object: &Value, _requested: Option<i64>) -> Grace {
        Grace::None
    }

    /// Whether a deletion that says nothing about dependents leaves them behind. Kinds that are older than garbage
    /// collection do.
    fn orphans_by_default(&self) -> bool {
        false
    }

    /// The warning for a deletion that says nothing about dependents.
    fn deletion_warning(&self) -> Option<&'static str> {
        None
    }

    /// Field selectors beyond `metadata.name` and `metadata.namespace`, as `(field, value in this object)`.
    /// Must name the same fields for every object.
    fn selectable_fields(&self, _object: &Value) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The columns of a Table; empty means the generic Name and Created At.
    fn columns(&self) -> &'static [Column] {
        &[]
    }

    /// The cells of a row, one for each of [`Strategy::columns`].
    fn cells(&self, _object: &Value, _now: Timestamp) -> Vec<Value> {
        Vec::new()
    }

    /// The conditions of a row, such as that the object is done; most rows have none.
    fn row_conditions(&self, _object: &Value) -> Vec<Value> {
        Vec::new()
    }
}
