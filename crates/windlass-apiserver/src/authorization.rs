//! Authorization: whether a user may perform a request.

pub(crate) mod impersonation;
mod permission;

pub use permission::Permission;

use crate::{request_info::ResourceRequest, status::ApiError, user::User, verb::Verb};

/// A request, as authorizers see it.
pub struct Attributes<'a> {
    /// The user that sent the request.
    pub user: &'a User,
    /// The requested action.
    pub action: Action<'a>,
}

/// The action that a request performs.
pub enum Action<'a> {
    /// A request for a resource, or for one of its objects.
    Resource {
        /// The verb.
        verb: Verb,
        /// The API group; empty for the core group.
        group: &'a str,
        /// The plural name.
        resource: &'a str,
        /// The subresource; empty for the object itself.
        subresource: &'a str,
        /// The namespace; empty at cluster scope.
        namespace: &'a str,
        /// The name; empty for collections.
        name: &'a str,
    },
    /// A request for a path that is not a resource's.
    Path {
        /// The HTTP method in lower case.
        method: &'a str,
        /// The path.
        path: &'a str,
    },
}

/// The decision of an authorizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed.
    Allow,
    /// The request is denied, regardless of other authorizers. The client sees the reason unless it is empty.
    Deny(String),
    /// The authorizer does not know the request; it is denied unless another authorizer allows it. The client sees the
    /// reason unless it is empty.
    NoOpinion(String),
}

/// Decides who may do what.
///
/// A `Vec` of authorizers is one too: the first that has an opinion decides.
pub trait Authorizer: Send + Sync {
    /// Decides whether a request is allowed. Called once for every request, before its body is read.
    fn authorize(&self, request: &Attributes<'_>) -> Decision;
}

impl Authorizer for Vec<Box<dyn Authorizer>> {
    fn authorize(&self, request: &Attributes<'_>) -> Decision {
        let mut reasons = Vec::new();
        for authorizer in self {
            match authorizer.authorize(request) {
                Decision::NoOpinion(reason) if reason.is_empty() => {}
                Decision::NoOpinion(reason) => reasons.push(reason),
                decision => return decision,
            }
        }
        Decision::NoOpinion(reasons.join("\n"))
    }
}

/// The rules until there are roles: members of the group `system:masters` may do everything; all other authenticated
/// users may read discovery, the OpenAPI documents and the version, and may ask who they are and what they may do.
pub struct MastersOnly;

impl MastersOnly {
    fn allows(&self, request: &Attributes<'_>) -> bool {
        if request.user.groups.iter().any(|group| group == "system:masters") {
            return true;
        }
        if request.user.is_anonymous() {
            return false;
        }
        match &request.action {
            Action::Path { method, path } => {
                let first = path.trim_matches('/').split('/').next().unwrap_or_default();
                *method == "get" && matches!(first, "api" | "apis" | "openapi" | "version")
            }
            Action::Resource { verb, group, resource, .. } => {
                let self_reviews = ["selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"];
                *verb == Verb::Create && group.ends_with(".k8s.io") && self_reviews.contains(resource)
            }
        }
    }
}

impl Authorizer for MastersOnly {
    fn authorize(&self, request: &Attributes<'_>) -> Decision {
        if self.allows(request) { Decision::Allow } else { Decision::NoOpinion(String::new()) }
    }
}

impl<'a> Action<'a> {
    pub(crate) fn of(verb: Verb, target: &ResourceRequest<'a>) -> Self {
        Self::Resource {
            verb,
            group: target.group,
            resource: target.resource,
            subresource: target.subresource,
            namespace: if target.resource == "namespaces" { "" } else { target.namespace },
            name: target.name,
        }
    }
}

/// 403 in the words of kube-apiserver, with the reason of the authorizer.
pub(crate) fn forbidden(request: &Attributes<'_>, reason: &str) -> ApiError {
    let user = &request.user.name;
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    match &request.action {
        Action::Path { method, path } => {
            let message = format!("forbidden: User \"{user}\" cannot {method} path \"{path}\"{reason}");
            ApiError::new(http::StatusCode::FORBIDDEN, "Forbidden", message).with_details(serde_json::Map::new())
        }
        Action::Resource { verb, group, resource, subresource, namespace, name } => {
            let what =
                if subresource.is_empty() { (*resource).to_owned() } else { format!("{resource}/{subresource}") };
            let scope = match *namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace \"{namespace}\""),
            };
            let why =
                format!("User \"{user}\" cannot {verb} resource \"{what}\" in API group \"{group}\" {scope}{reason}");
            ApiError::forbidden(resource, group, name, &why)
        }
    }
}
