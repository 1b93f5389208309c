//! Admission requests.

use k8s_openapi::api::authentication::v1::UserInfo;
use kube::core::{GroupVersionKind, GroupVersionResource};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Denied, describe::Endpoint, review::AdmissionRequest};
use crate::{context::Context, object::Object};

/// Operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// The object is created. There is a new object, but no old one.
    Create,
    /// The object is updated. Both the old and the new object are present.
    Update,
    /// The object is deleted. There is an old object, but no new one.
    Delete,
    /// A client connects to the object, as `kubectl exec` does. The new object holds options and is of another kind.
    Connect,
}

impl Operation {
    /// Returns the name in the API, such as `CREATE`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// An admission request.
#[derive(Clone, Debug)]
pub struct Request<K> {
    /// UID of this request, not of the object.
    pub uid: String,
    /// The operation.
    pub operation: Operation,
    /// Kind of the objects here.
    pub kind: GroupVersionKind,
    /// The resource.
    pub resource: GroupVersionResource,
    /// The subresource that is written, such as `status`; `None` for the object itself.
    pub subresource: Option<String>,
    /// Kind that the client sent, if the API server converted it for this webhook.
    pub request_kind: Option<GroupVersionKind>,
    /// Name of the object; empty if the API server will generate it.
    pub name: String,
    /// Namespace of the object; `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The user who makes the request.
    pub user: UserInfo,
    /// The new object; `None` on delete.
    pub object: Option<K>,
    /// The old object; `None` on create.
    ///
    /// For defaulting, also `None` if the stored object cannot be deserialized, so that it can be repaired. Such an update
    /// is denied without calling the validating handlers, as they could not determine what it changes.
    pub old_object: Option<K>,
    /// Whether nothing will be persisted. Handlers must have no side effects then.
    pub dry_run: bool,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`; null if the API server sent none.
    pub options: Value,
    context: RequestContext,
}

/// The context of the operator, if there is one.
#[derive(Clone)]
struct RequestContext(Option<Context>);

impl std::fmt::Debug for RequestContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Context" } else { "None" })
    }
}

impl<K> Request<K> {
    /// Returns a context, to read other objects: from the caches of the kinds that the webhook declares with
    /// [`Webhook::reads`](super::Webhook::reads), and from the API server.
    ///
    /// Webhooks run in every replica, so its writes are not restricted to the leader. A webhook should have no side
    /// effects, and must have none if [`dry_run`](Self::dry_run) is set.
    ///
    /// # Errors
    ///
    /// Returns an error if the webhooks are served without an operator, and without
    /// [`Webhooks::context`](super::Webhooks::context).
    pub fn context(&self) -> Result<&Context, Denied> {
        let missing = "the webhook has no context (hint: serve it with an operator, or call Webhooks::context)";
        self.context.0.as_ref().ok_or_else(|| Denied::internal(missing))
    }

    /// Returns the object in question: the new one, or the old one on delete.
    ///
    /// `None` only if the API server sent neither.
    pub fn subject(&self) -> Option<&K> {
        self.object.as_ref().or(self.old_object.as_ref())
    }

    /// Returns whether the object is created.
    pub fn is_create(&self) -> bool {
        self.operation == Operation::Create
    }

    /// Returns whether the object is updated.
    pub fn is_update(&self) -> bool {
        self.operation == Operation::Update
    }

    /// Returns whether the object is deleted.
    pub fn is_delete(&self) -> bool {
        self.operation == Operation::Delete
    }
}

impl Request<Value> {
    /// Returns the request with the objects as they were sent.
    pub(super) fn raw(request: &AdmissionRequest, context: Option<&Context>) -> Self {
        let sent = |object: &Value| Some(object.clone()).filter(|object| !object.is_null());
        Self::new(request, sent(&request.object), sent(&request.old_object), context)
    }
}

impl<K: Object> Request<K> {
    /// Deserializes the objects. Only validation needs the old one.
    pub(super) fn decode(
        request: &AdmissionRequest,
        endpoint: Endpoint,
        context: Option<&Context>,
    ) -> Result<Self, Denied> {
        let old_object = match decode_object("oldObject", &request.old_object) {
            Err(_) if endpoint == Endpoint::Mutating => None,
            decoded => decoded?,
        };
        Ok(Self::new(request, decode_object("object", &request.object)?, old_object, context))
    }
}

impl<K> Request<K> {
    fn new(request: &AdmissionRequest, object: Option<K>, old_object: Option<K>, context: Option<&Context>) -> Self {
        Self {
            uid: request.uid.clone(),
            operation: request.operation,
            kind: request.kind.clone(),
            resource: request.resource.clone(),
            subresource: request.sub_resource.clone().filter(|name| !name.is_empty()),
            request_kind: request.request_kind.clone(),
            name: request.name.clone(),
            namespace: request.namespace.clone().filter(|name| !name.is_empty()),
            user: request.user_info.clone(),
            object,
            old_object,
            dry_run: request.dry_run.unwrap_or(false),
            options: request.options.clone(),
            context: RequestContext(context.cloned()),
        }
    }
}

fn decode_object<K: Object>(field: &str, value: &Value) -> Result<Option<K>, Denied> {
    if value.is_null() {
        return Ok(None);
    }
    match K::deserialize(value) {
        Ok(object) => Ok(Some(object)),
        Err(error) => Err(Denied::bad_request(format!("failed to deserialize the {field}: {error}"))),
    }
}
