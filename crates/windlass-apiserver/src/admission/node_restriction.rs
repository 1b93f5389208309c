//! NodeRestriction: a node changes only its own objects, and those of the pods on it.

mod labels;
mod tokens;

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::pod::{admission::is_mirror, references};

use super::{Admission, Attributes, Operation, certificate_subject};
use crate::{
    call::Call,
    meta,
    status::{ApiError, Result},
    webhooks::Subject,
};

const LEASES: &str = "kube-node-lease";
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The signers of certificates of nodes.
const NODE_SIGNERS: [&str; 2] = ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

pub(crate) struct NodeRestriction;

#[async_trait]
impl Admission for NodeRestriction {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        check(write, object).await
    }

    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        // Creates and updates were checked before other plugins changed them.
        if write.operation == Operation::Delete { check(write, object).await } else { Ok(()) }
    }
}

/// Checks an eviction or a request for a token, neither of which takes the write path.
///
/// # Errors
/// 403 if the plugin is enabled and the node may not do this.
pub(crate) async fn check_request(call: &Call<'_>, subject: &Subject<'_>, object: &Value) -> Result<()> {
    if !call.server.restricts_nodes {
        return Ok(());
    }
    check(&Attributes::of(call, subject, call.target.name, None), object).await
}

/// Checks a write of a node; writes of other users are accepted.
///
/// # Errors
/// 403 if the node may not do this.
async fn check(write: &Attributes<'_>, object: &Value) -> Result<()> {
    let Some(node) = write.user.node_name() else { return Ok(()) };
    if write.operation == Operation::Connect {
        return Ok(());
    }
    let checked = if node.is_empty() {
        Err(format!("could not determine node from user {:?}", write.user.name))
    } else {
        match (&*write.resource.group, &*write.resource.plural) {
            ("", "pods") => pod(write, node, object).await?,
            ("", "nodes") => node_object(write, node, object),
            ("", "persistentvolumeclaims") => claim(write, node, object),
            ("", "serviceaccounts") => tokens::check(write, node, object).await?,
            ("coordination.k8s.io", "leases") => lease(write, node, object),
            ("storage.k8s.io", "csinodes") => csi_node(write, node, object),
            ("resource.k8s.io", "resourceslices") => slice(write, node, object),
            ("certificates.k8s.io", "certificatesigningrequests") => certificate(write, node, object),
            ("certificates.k8s.io", "podcertificaterequests") => {
                Err("PodCertificateRequest feature gate is disabled".to_owned())
            }
            _ => Ok(()),
        }
    };
    checked.map_err(|why| write.forbidden(object, &why))
}

/// Whether a write is accepted, or why it is forbidden.
type Verdict = std::result::Result<(), String>;

fn rejected(why: &str) -> Verdict {
    Err(why.to_owned())
}

async fn pod(write: &Attributes<'_>, node: &str, object: &Value) -> Result<Verdict> {
    let operation = write.operation.name();
    Ok(match (write.subresource, write.operation) {
        ("", Operation::Create) => new_pod(write, node, object).await?,
        ("", Operation::Delete) if object["spec"]["nodeName"] == node => Ok(()),
        ("", Operation::Delete) => Err(format!("node {node:?} can only delete pods with spec.nodeName set to itself")),
        ("", _) => {
            Err(format!("unexpected operation {operation:?}, node {node:?} can only create and delete mirror pods"))
        }
        ("status", Operation::Update) => pod_status(write, node, object),
        ("status", _) => Err(format!("unexpected operation {operation:?}")),
        ("eviction", Operation::Create) => {
            let name = if write.name.is_empty() { meta::text(object, "name") } else { write.name };
            if name.is_empty() {
                return Ok(rejected("could not determine pod from request data"));
            }
            let pod = write.find("", "v1", "pods", write.namespace, name).await?;
            let pod = pod.ok_or_else(|| ApiError::not_found("pod", "", name))?;
            match pod["spec"]["nodeName"] == node {
                true => Ok(()),
                false => Err(format!("node {node} can only evict pods with spec.nodeName set to itself")),
            }
        }
        // The deletion that an accepted eviction makes.
        ("eviction", Operation::Delete) => Ok(()),
        ("eviction", _) => Err(format!("unexpected operation {operation}")),
        (other, _) => Err(format!("unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed")),
    })
}

/// Checks a new pod: nodes create mirror pods only, which refer to no other object.
async fn new_pod(write: &Attributes<'_>, node: &str, pod: &Value) -> Result<Verdict> {
    if !is_mirror(pod) {
        return Ok(Err(format!("pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods")));
    }
    let only = |what: &str| Ok(Err(format!("node {node:?} can only create pods with {what}")));
    if pod["spec"]["nodeName"] != node {
        return only("spec.nodeName set to itself");
    }
    let owner = match pod["metadata"]["ownerReferences"].as_array().map(Vec::as_slice) {
        None | Some([]) => return only("an owner reference set to itself"),
        Some([owner]) => owner,
        Some(_) => return only("a single owner reference set to itself"),
    };
    if owner["apiVersion"] != "v1" || owner["kind"] != "Node" || owner["name"] != node {
        return only("an owner reference set to itself");
    }
    if owner["controller"] != true {
        return only("a controller owner reference set to itself");
    }
    if owner["blockOwnerDeletion"] == true {
        return Ok(Err(format!("node {node:?} must not set blockOwnerDeletion on an owner reference")));
    }
    let known = write.find("", "v1", "nodes", "", node).await?;
    let known = known.ok_or_else(|| ApiError::not_found("node", "", node))?;
    let (stated, uid) = (owner["uid"].as_str().unwrap_or_default(), meta::text(&known, "uid"));
    if stated != uid {
        return Ok(Err(format!("node {node} UID mismatch: expected {stated} got {uid}")));
    }
    Ok(match references::any(pod) {
        Ok(None) => Ok(()),
        Ok(Some(kind)) => Err(format!("node {node:?} can not create pods that reference {kind}")),
        Err(error) => Err(format!("error checking mirror pod for API references: {error}")),
    })
}

fn pod_status(write: &Attributes<'_>, node: &str, pod: &Value) -> Verdict {
    let old = write.old.unwrap_or(&Value::Null);
    if old["spec"]["nodeName"] != node {
        return Err(format!("node {node:?} can only update pod status for pods with spec.nodeName set to itself"));
    }
    if labels::of(old) != labels::of(pod) {
        return Err(format!("node {node:?} cannot update labels through pod status"));
    }
    let claims = |pod: &Value| -> Vec<(Value, Value)> {
        let statuses = pod["status"]["resourceClaimStatuses"].as_array().into_iter().flatten();
        statuses.map(|status| (status["name"].clone(), status["resourceClaimName"].clone())).collect()
    };
    if claims(old) != claims(pod) {
        return Err(format!("node {node:?} cannot update resource claim statues"));
    }
    let extended = |pod: &Value| pod["status"]["extendedResourceClaimStatus"].clone();
    if extended(old) != extended(pod) {
        return Err(format!("node {node:?} cannot update extended resource claim status"));
    }
    Ok(())
}

fn node_object(write: &Attributes<'_>, node: &str, object: &Value) -> Verdict {
    if write.name != node {
        return Err(format!("node {node:?} is not allowed to modify node {:?}", write.name));
    }
    let source = &object["spec"]["configSource"];
    let nothing = Value::Null;
    match write.operation {
        Operation::Create => {
            if !source.is_null() {
                return Err(format!("node {node:?} is not allowed to create pods with a non-nil configSource"));
            }
            match labels::forbidden(object, &nothing) {
                labels if labels.is_empty() => Ok(()),
                labels => {
                    let labels = labels.join(", ");
                    Err(format!("node {node:?} is not allowed to set the following labels: {labels}"))
                }
            }
        }
        Operation::Update => {
            let old = write.old.unwrap_or(&nothing);
            let differs = |field: &str| !is_same(object.pointer(field), old.pointer(field));
            if !source.is_null() && differs("/spec/configSource") {
                return Err(format!(
                    "node {node:?} is not allowed to update configSource to a new non-nil configSource"
                ));
            }
            if differs("/spec/taints") {
                return Err(format!("node {node:?} is not allowed to modify taints"));
            }
            if differs("/metadata/ownerReferences") {
                return Err(format!("node {node:?} is not allowed to modify ownerReferences"));
            }
            match labels::forbidden(object, old) {
                labels if labels.is_empty() => Ok(()),
                labels => Err(format!("is not allowed to modify labels: {}", labels.join(", "))),
            }
        }
        _ => Ok(()),
    }
}

/// Compares two fields; absent and empty ones are the same.
fn is_same(a: Option<&Value>, b: Option<&Value>) -> bool {
    fn stated(value: Option<&Value>) -> Option<&Value> {
        value.filter(|value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()))
    }
    stated(a) == stated(b)
}

fn claim(write: &Attributes<'_>, node: &str, claim: &Value) -> Verdict {
    if write.subresource != "status" {
        return rejected("may only update PVC status");
    }
    if write.operation != Operation::Update {
        return Err(format!("unexpected operation {:?}", write.operation.name()));
    }
    // What remains must be the same.
    let rest = |claim: &Value| {
        let mut rest = claim.clone();
        let changeable = [
            ("metadata", &["resourceVersion", "managedFields"][..]),
            ("status", &["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"]),
        ];
        for (part, fields) in changeable {
            if let Some(part) = rest[part].as_object_mut() {
                fields.iter().for_each(|field| drop(part.remove(*field)));
            }
        }
        rest
    };
    match write.old.is_some_and(|old| rest(old) == rest(claim)) {
        true => Ok(()),
        false => Err(format!(
            "node {node:?} is not allowed to update fields other than status.quantity and status.conditions"
        )),
    }
}

fn lease(write: &Attributes<'_>, node: &str, lease: &Value) -> Verdict {
    if write.namespace != LEASES {
        return Err(format!("can only access leases in the {LEASES:?} system namespace"));
    }
    match is_named(write, lease, node) {
        true => Ok(()),
        false => rejected("can only access node lease with the same name as the requesting node"),
    }
}

fn csi_node(write: &Attributes<'_>, node: &str, object: &Value) -> Verdict {
    match is_named(write, object, node) {
        true => Ok(()),
        false => rejected("can only access CSINode with the same name as the requesting node"),
    }
}

fn is_named(write: &Attributes<'_>, object: &Value, name: &str) -> bool {
    if write.operation == Operation::Create { meta::text(object, "name") == name } else { write.name == name }
}

fn slice(write: &Attributes<'_>, node: &str, slice: &Value) -> Verdict {
    let is_own = slice["spec"]["nodeName"] == node;
    match write.operation {
        Operation::Create if !is_own => {
            rejected("can only create ResourceSlice with the same NodeName as the requesting node")
        }
        Operation::Delete if !is_own => {
            rejected("can only delete ResourceSlice with the same NodeName as the requesting node")
        }
        _ => Ok(()),
    }
}

fn certificate(write: &Attributes<'_>, node: &str, request: &Value) -> Verdict {
    let signer = request["spec"]["signerName"].as_str().unwrap_or_default();
    if write.operation != Operation::Create || !NODE_SIGNERS.contains(&signer) {
        return Ok(());
    }
    match certificate_subject::Subject::of(request) {
        Err(error) => Err(format!("unable to parse csr: {error}")),
        Ok(subject) if subject.common_name != format!("system:node:{node}") => {
            Err(format!("can only create a node CSR with CN=system:node:{node}"))
        }
        Ok(_) => Ok(()),
    }
}
