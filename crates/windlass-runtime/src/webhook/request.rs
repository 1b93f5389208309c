//! What the API server asks.

use k8s_openapi::api::authentication::v1::UserInfo;
use kube::core::{GroupVersionKind, GroupVersionResource};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Denied, describe::Endpoint, review::AdmissionRequest};
use crate::object::Object;

/// What is done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// It is made. There is a new object and no old one.
    Create,
    /// It is changed. There are both.
    Update,
    /// It is deleted. There is an old object and no new one.
    Delete,
    /// Somebody connects to it, as `kubectl exec` does. The new object holds options and is not of its kind.
    Connect,
}

impl Operation {
    /// The word of the API, as `CREATE`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// One request that is to be judged.
#[derive(Clone, Debug)]
pub struct Request<K> {
    /// Names this question. Not the object's.
    pub uid: String,
    /// What is done.
    pub operation: Operation,
    /// The kind of the objects here.
    pub kind: GroupVersionKind,
    /// The resource.
    pub resource: GroupVersionResource,
    /// The part of the object that is written, as `status`; none for the whole.
    pub subresource: Option<String>,
    /// The kind that the client sent, if the API server converted it to ask here.
    pub request_kind: Option<GroupVersionKind>,
    /// The name; empty if the server is yet to make one.
    pub name: String,
    /// The namespace; none for objects of the cluster.
    pub namespace: Option<String>,
    /// Who asks.
    pub user: UserInfo,
    /// The object as it is to be: none when it is deleted.
    pub object: Option<K>,
    /// The object as it was: none when it is made.
    ///
    /// Handlers that default also see none if what is stored does not fit the type: it can then be repaired. Ones that
    /// validate are not asked about such a change, it is refused: they could not tell what it changes.
    pub old_object: Option<K>,
    /// Whether nothing will be written whatever is answered. Handlers with effects of their own must leave them out.
    pub dry_run: bool,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`; null if the server sent none.
    pub options: Value,
}

impl<K> Request<K> {
    /// The object that this is about: the new one, or the old one if it is deleted.
    ///
    /// `None` only if the API server sent neither.
    pub fn subject(&self) -> Option<&K> {
        self.object.as_ref().or(self.old_object.as_ref())
    }

    /// Whether the object is made.
    pub fn is_create(&self) -> bool {
        self.operation == Operation::Create
    }

    /// Whether the object is changed.
    pub fn is_update(&self) -> bool {
        self.operation == Operation::Update
    }

    /// Whether the object is deleted.
    pub fn is_delete(&self) -> bool {
        self.operation == Operation::Delete
    }
}

impl<K: Object> Request<K> {
    /// Reads the objects as their type. Only what validates needs the old one.
    pub(super) fn decode(request: &AdmissionRequest, endpoint: Endpoint) -> Result<Self, Denied> {
        let old_object = match decode_object("oldObject", &request.old_object) {
            Err(_) if endpoint == Endpoint::Mutating => None,
            decoded => decoded?,
        };
        Ok(Self {
            uid: request.uid.clone(),
            operation: request.operation,
            kind: request.kind.clone(),
            resource: request.resource.clone(),
            subresource: request.sub_resource.clone().filter(|name| !name.is_empty()),
            request_kind: request.request_kind.clone(),
            name: request.name.clone(),
            namespace: request.namespace.clone().filter(|name| !name.is_empty()),
            user: request.user_info.clone(),
            object: decode_object("object", &request.object)?,
            old_object,
            dry_run: request.dry_run.unwrap_or(false),
            options: request.options.clone(),
        })
    }
}

fn decode_object<K: Object>(field: &str, value: &Value) -> Result<Option<K>, Denied> {
    if value.is_null() {
        return Ok(None);
    }
    match K::deserialize(value) {
        Ok(object) => Ok(Some(object)),
        Err(error) => Err(Denied::bad_request(format!("cannot read the {field}: {error}"))),
    }
}
