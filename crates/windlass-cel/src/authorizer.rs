//! Authorization checks of expressions: the variable `authorizer`.
//!
//! Evaluation is synchronous, but an [`Authorizer`] may have to call a server. It does not block then: it records the
//! check and returns `None`, which fails the evaluation. The caller performs all recorded checks and evaluates again.
//! The cost of a check bounds the number of rounds.

use std::fmt;
use std::sync::Arc;

/// Decides authorization checks.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Returns the decision on a check; `None` if it is not known yet, and the evaluation has to be repeated.
    fn decide(&self, check: &Check) -> Option<Decision>;
}

/// A check: whether a user may do something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Check {
    /// The service account (namespace and name) that is checked; `None` for the user of the request.
    pub account: Option<(String, String)>,
    /// The verb.
    pub verb: String,
    /// The object of the verb.
    pub target: Target,
}

/// The object of a check.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// A path that is not a resource's.
    Path(String),
    /// A resource.
    Resource(Resource),
}

/// A resource, or one of its objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Resource {
    /// The API group.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The field selector; ignored if it cannot be parsed.
    pub field_selector: String,
    /// The label selector; ignored if it cannot be parsed.
    pub label_selector: String,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// Whether the action is allowed.
    pub allowed: bool,
    /// Reason for the decision.
    pub reason: String,
    /// Reason why the decision may be wrong.
    pub error: Option<String>,
}

/// A value of a type of the authorization library.
#[derive(Debug, Clone)]
pub enum AuthorizationValue {
    /// `kubernetes.authorization.Authorizer`
    Authorizer(Subject),
    /// `kubernetes.authorization.PathCheck`
    PathCheck(Subject, String),
    /// `kubernetes.authorization.GroupCheck`
    GroupCheck(Subject, String),
    /// `kubernetes.authorization.ResourceCheck`
    ResourceCheck(Subject, Resource),
    /// `kubernetes.authorization.Decision`
    Decision(Decision),
}

/// The subject of checks, and the authorizer that decides them.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The authorizer that decides the checks.
    pub authorizer: Arc<dyn Authorizer>,
    /// The service account (namespace and name) that is checked; `None` for the user of the request.
    pub account: Option<(String, String)>,
}

impl AuthorizationValue {
    /// Returns the value of the variable `authorizer`.
    pub fn of(authorizer: Arc<dyn Authorizer>) -> Self {
        Self::Authorizer(Subject { authorizer, account: None })
    }

    /// Returns the value of the variable `authorizer.requestResource`.
    pub fn of_resource(authorizer: Arc<dyn Authorizer>, resource: Resource) -> Self {
        Self::ResourceCheck(Subject { authorizer, account: None }, resource)
    }

    /// Returns the name of its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::PathCheck(..) => "kubernetes.authorization.PathCheck",
            Self::GroupCheck(..) => "kubernetes.authorization.GroupCheck",
            Self::ResourceCheck(..) => "kubernetes.authorization.ResourceCheck",
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }

    /// Returns the name of its Go type.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Self::Authorizer(_) => "library.authorizerVal",
            Self::PathCheck(..) => "library.pathCheckVal",
            Self::GroupCheck(..) => "library.groupCheckVal",
            Self::ResourceCheck(..) => "library.resourceCheckVal",
            Self::Decision(_) => "library.decisionVal",
        }
    }
}
