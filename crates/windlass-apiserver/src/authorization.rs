//! Authorization: whether somebody may do what they ask.

mod permission;

pub use permission::Permission;

use crate::{request_info::ResourceRequest, status::ApiError, user::User};

/// What is asked.
pub struct Question<'a> {
    /// Who asks.
    pub user: &'a User,
    /// The verb: `get`, `list`, `create`...; for paths the method in lower case.
    pub verb: &'a str,
    /// What it is done to.
    pub object: Object<'a>,
}

/// The object of a question.
pub enum Object<'a> {
    /// A resource, or one of its objects.
    Resource {
        /// The API group.
        group: &'a str,
        /// The plural name.
        resource: &'a str,
        /// The subresource; empty for the object itself.
        subresource: &'a str,
        /// The namespace; empty at the scope of the cluster.
        namespace: &'a str,
        /// The name; empty for collections.
        name: &'a str,
    },
    /// A path that is not a resource's.
    Path(&'a str),
}

/// Decides who may do what.
pub trait Authorizer: Send + Sync {
    /// Whether the question is answered with yes.
    fn allows(&self, question: &Question<'_>) -> bool;
}

/// The rules until there are roles: the group `system:masters` may do everything, everybody else who has shown who they
/// are may look around (discovery, version) and ask who they are.
pub struct MastersOnly;

impl Authorizer for MastersOnly {
    fn allows(&self, question: &Question<'_>) -> bool {
        if question.user.groups.iter().any(|group| group == "system:masters") {
            return true;
        }
        if question.user.is_anonymous() {
            return false;
        }
        match &question.object {
            Object::Path(path) => {
                let first = path.trim_matches('/').split('/').next().unwrap_or_default();
                question.verb == "get" && matches!(first, "api" | "apis" | "openapi" | "version")
            }
            Object::Resource { group, resource, .. } => {
                let about_oneself = ["selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"];
                question.verb == "create" && group.ends_with(".k8s.io") && about_oneself.contains(resource)
            }
        }
    }
}

impl<'a> Object<'a> {
    pub(crate) fn of(target: &ResourceRequest<'a>) -> Self {
        Self::Resource {
            group: target.group,
            resource: target.resource,
            subresource: target.subresource,
            namespace: if target.resource == "namespaces" { "" } else { target.namespace },
            name: target.name,
        }
    }
}

/// 403 in the real words.
pub(crate) fn forbidden(question: &Question<'_>) -> ApiError {
    let user = &question.user.name;
    match &question.object {
        Object::Path(path) => {
            let message = format!("forbidden: User \"{user}\" cannot {} path \"{path}\"", question.verb);
            ApiError::new(http::StatusCode::FORBIDDEN, "Forbidden", message).with_details(serde_json::Map::new())
        }
        Object::Resource { group, resource, subresource, namespace, name } => {
            let what =
                if subresource.is_empty() { (*resource).to_owned() } else { format!("{resource}/{subresource}") };
            let scope = match *namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace \"{namespace}\""),
            };
            let verb = question.verb;
            let why = format!("User \"{user}\" cannot {verb} resource \"{what}\" in API group \"{group}\" {scope}");
            ApiError::forbidden(resource, group, name, &why)
        }
    }
}
