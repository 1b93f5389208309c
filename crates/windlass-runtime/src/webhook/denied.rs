//! Responses of handlers: denials and warnings.

use std::{borrow::Cow, error::Error as StdError, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};

/// Reason why a request is denied. The client sees it.
///
/// With `?`, any error becomes one: the request is then denied as an internal error (500), because nothing has decided
/// that the request is invalid.
///
/// ```
/// use windlass_runtime::webhook::Denied;
///
/// // 403, reason Forbidden
/// let frozen = Denied::new("the namespace is frozen");
/// // 422, reason Invalid, with a cause for each field
/// let invalid = Denied::field("spec.replicas", "must not be negative").and_field("spec.image", "must not be empty");
/// // anything else
/// let busy = Denied::new("try again later").code(429).reason("TooManyRequests");
/// # assert_eq!(invalid.to_string(), "spec.replicas: must not be negative, spec.image: must not be empty");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Denied {
    code: u16,
    reason: Cow<'static, str>,
    message: String,
    causes: Vec<(String, String)>,
    warnings: Vec<String>,
}

/// Warnings that the client prints, whether the request is allowed or not. `()` is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings(Vec<String>);

/// Return type of closures: the value, or a result whose error becomes a [`Denied`].
///
/// Defaulting may also return nothing at all.
pub trait Answer<T> {
    /// Returns the value or the denial.
    fn answer(self) -> Result<T, Denied>;
}

impl Denied {
    /// Denies with a message: 403, reason `Forbidden`.
    pub fn new(message: impl Into<String>) -> Self {
        Self::with(403, "Forbidden", message.into())
    }

    /// Denies because of a field: 422, reason `Invalid`, with the field as a cause.
    pub fn field(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::with(422, "Invalid", String::new()).and_field(path, message)
    }

    /// Denies because of these fields, unless there are none.
    ///
    /// ```
    /// # use windlass_runtime::webhook::Denied;
    /// # let replicas = 0;
    /// let mut wrong = Vec::new();
    /// if replicas < 0 {
    ///     wrong.push(("spec.replicas", "must not be negative"));
    /// }
    /// Denied::fields(wrong)?;
    /// # Ok::<(), Denied>(())
    /// ```
    pub fn fields<P: Into<String>, M: Into<String>>(fields: impl IntoIterator<Item = (P, M)>) -> Result<(), Self> {
        let none = Self::with(422, "Invalid", String::new());
        let denied = fields.into_iter().fold(none, |denied, (path, message)| denied.and_field(path, message));
        if denied.causes.is_empty() { Ok(()) } else { Err(denied) }
    }

    /// Adds another invalid field.
    #[must_use]
    pub fn and_field(mut self, path: impl Into<String>, message: impl Into<String>) -> Self {
        self.causes.push((path.into(), message.into()));
        self
    }

    /// Sets the HTTP status code for the client. Kubernetes turns anything below 400 into 400.
    #[must_use]
    pub fn code(mut self, code: u16) -> Self {
        self.code = code;
        self
    }

    /// Sets the machine-readable reason, such as `Conflict`.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Adds warnings.
    #[must_use]
    pub fn warnings(mut self, warnings: impl Into<Warnings>) -> Self {
        self.warnings.extend(warnings.into().0);
        self
    }

    /// The request could not be evaluated: 400, reason `BadRequest`.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::with(400, "BadRequest", message.into())
    }

    /// The handler failed: 500, reason `InternalError`.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::with(500, "InternalError", message.into())
    }

    fn with(code: u16, reason: &'static str, message: String) -> Self {
        Self { code, reason: reason.into(), message, causes: Vec::new(), warnings: Vec::new() }
    }

    pub(super) fn into_parts(self, of: &Subject<'_>) -> (Status, Vec<String>) {
        let details = (!self.causes.is_empty()).then(|| StatusDetails {
            name: (!of.name.is_empty()).then(|| of.name.to_owned()),
            group: (!of.group.is_empty()).then(|| of.group.to_owned()),
            kind: Some(of.kind.to_owned()),
            causes: Some(self.causes.iter().map(cause).collect()),
            ..StatusDetails::default()
        });
        let message = match details.is_some() {
            true => format!("{of} is invalid: {self}"),
            false => self.message,
        };
        let status = Status {
            status: Some("Failure".to_owned()),
            code: Some(self.code.into()),
            reason: Some(self.reason.into_owned()),
            message: Some(message),
            details,
            ..Status::default()
        };
        (status, self.warnings)
    }
}

fn cause((field, message): &(String, String)) -> StatusCause {
    StatusCause {
        field: Some(field.clone()),
        message: Some(message.clone()),
        reason: Some("FieldValueInvalid".to_owned()),
    }
}

/// The message, and the fields.
impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for (index, (field, message)) in self.causes.iter().enumerate() {
            let separator = if index > 0 || !self.message.is_empty() { ", " } else { "" };
            write!(f, "{separator}{field}: {message}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Denied({} {}: {self})", self.code, self.reason)
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Denied {
    fn from(error: E) -> Self {
        crate::Error::from(error).into()
    }
}

impl From<crate::Error> for Denied {
    fn from(error: crate::Error) -> Self {
        Self::internal(error.to_string())
    }
}

impl Warnings {
    /// Returns no warnings.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns one warning.
    pub fn new(warning: impl Into<String>) -> Self {
        Self::none().and(warning)
    }

    /// Adds another warning. Kubernetes truncates warnings after 256 characters.
    #[must_use]
    pub fn and(mut self, warning: impl Into<String>) -> Self {
        self.0.push(warning.into());
        self
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn into_inner(self) -> Vec<String> {
        self.0
    }
}

impl From<()> for Warnings {
    fn from((): ()) -> Self {
        Self::none()
    }
}

impl<S: Into<String>> FromIterator<S> for Warnings {
    fn from_iter<I: IntoIterator<Item = S>>(warnings: I) -> Self {
        Self(warnings.into_iter().map(Into::into).collect())
    }
}

impl Answer<()> for () {
    fn answer(self) -> Result<(), Denied> {
        Ok(())
    }
}

impl<T, U: Into<T>, E: Into<Denied>> Answer<T> for Result<U, E> {
    fn answer(self) -> Result<T, Denied> {
        self.map(Into::into).map_err(Into::into)
    }
}

/// Subject of a denial, such as `Foo.example.com "web"`.
pub(super) struct Subject<'a> {
    pub(super) group: &'a str,
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        write!(f, " {:?}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: Subject<'_> = Subject { group: "example.com", kind: "Foo", name: "web" };

    #[test]
    fn wrong_fields_are_causes() {
        let (status, warnings) =
            Denied::field("spec.a", "bad").and_field("spec.b", "worse").warnings(Warnings::new("oh")).into_parts(&WEB);
        assert_eq!(status.code, Some(422));
        assert_eq!(status.reason.as_deref(), Some("Invalid"));
        assert_eq!(status.message.as_deref(), Some("Foo.example.com \"web\" is invalid: spec.a: bad, spec.b: worse"));
        let causes = status.details.and_then(|details| details.causes).unwrap();
        assert_eq!(causes[1].field.as_deref(), Some("spec.b"));
        assert_eq!(warnings, ["oh"]);
    }

    #[test]
    fn any_error_denies_as_an_internal_error() {
        fn fails() -> Result<(), Denied> {
            Err(std::io::Error::other("disk"))?;
            Ok(())
        }
        let (status, _) = fails().unwrap_err().into_parts(&WEB);
        assert_eq!((status.code, status.message.as_deref()), (Some(500), Some("disk")));
    }
}
