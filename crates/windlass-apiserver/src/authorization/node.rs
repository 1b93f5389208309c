//! The Node authorizer: nodes read only what the pods on them need.
//!
//! Which objects a node needs is known from a [`Graph`], which follows the caches. It is brought up to date when a
//! decision needs it, so pods cost nothing in a cluster whose nodes send no requests.

mod graph;
mod links;

use std::sync::Arc;

use parking_lot::Mutex;
use windlass_schema::selector::FieldSelector;

use self::graph::{Graph, Kind};
use super::{Action, Attributes, Authorization, Authorizer, Decision, ResourceAction, UserRules};
use crate::{blocking, storage::Storage, user::User, verb::Verb};

/// The namespace of the leases of nodes.
const LEASES: &str = "kube-node-lease";

/// Allows nodes (users `system:node:NAME` in the group `system:nodes`) to use their own objects, and objects that their
/// pods refer to. Has no opinion about other users.
pub(crate) struct NodeAuthorizer {
    graph: Mutex<Graph>,
}

/// A decision: allowed, or no opinion with a reason.
type Answer = Result<(), String>;

impl NodeAuthorizer {
    /// Returns an authorizer that follows the caches of a server.
    pub(crate) fn new(storage: &Storage) -> Self {
        Self { graph: Mutex::new(Graph::new(storage)) }
    }

    fn decide(&self, node: &str, action: &ResourceAction<'_>) -> Answer {
        match (action.group, action.resource) {
            ("", "secrets") => self.read_one(node, Kind::Secret, action),
            ("", "configmaps") => self.read_one(node, Kind::ConfigMap, action),
            ("", "persistentvolumeclaims") if action.subresource == "status" => match verb(action) {
                Verb::Update | Verb::Patch => self.related(node, Kind::Claim, action),
                _ => denied("can only get/update/patch this type"),
            },
            ("", "persistentvolumeclaims") => self.get_one(node, Kind::Claim, action),
            ("", "persistentvolumes") => self.get_one(node, Kind::Volume, action),
            ("resource.k8s.io", "resourceclaims") => self.get_one(node, Kind::ResourceClaim, action),
            ("storage.k8s.io", "volumeattachments") => self.get_one(node, Kind::Attachment, action),
            ("", "serviceaccounts") => self.service_account(node, action),
            ("coordination.k8s.io", "leases") => lease(node, action),
            ("storage.k8s.io", "csinodes") => csi_node(node, action),
            ("resource.k8s.io", "resourceslices") => self.slice(node, action),
            ("", "nodes") => node_object(node, action),
            ("", "pods") => self.pod(node, action),
            _ if is_granted_to_all_nodes(action) => Ok(()),
            _ => denied(""),
        }
    }

    /// Decides about a read of one object, directly or by a list or watch with its name.
    fn read_one(&self, node: &str, kind: Kind, action: &ResourceAction<'_>) -> Answer {
        if !matches!(verb(action), Verb::Get | Verb::List | Verb::Watch) {
            return denied("can only read resources of this type");
        }
        if !action.subresource.is_empty() {
            return denied("cannot read subresource");
        }
        if action.namespace.is_empty() {
            return denied("can only read namespaced object of this type");
        }
        self.related(node, kind, action)
    }

    fn get_one(&self, node: &str, kind: Kind, action: &ResourceAction<'_>) -> Answer {
        if verb(action) != Verb::Get {
            return denied("can only get individual resources of this type");
        }
        if !action.subresource.is_empty() {
            return denied("cannot get subresource");
        }
        self.related(node, kind, action)
    }

    /// Decides by the relationship of the object to the node.
    fn related(&self, node: &str, kind: Kind, action: &ResourceAction<'_>) -> Answer {
        if action.name.is_empty() {
            return denied("No Object name found");
        }
        self.relationship(node, kind, action)
    }

    fn relationship(&self, node: &str, kind: Kind, action: &ResourceAction<'_>) -> Answer {
        let mut graph = self.graph.lock();
        if graph.is_far_behind() {
            blocking::run(|| graph.catch_up());
        } else {
            graph.catch_up();
        }
        match graph.relates(node, kind, action.namespace, action.name) {
            true => Ok(()),
            false => Err(format!("no relationship found between node '{node}' and this object")),
        }
    }

    fn service_account(&self, node: &str, action: &ResourceAction<'_>) -> Answer {
        if verb(action) == Verb::Get && action.subresource.is_empty() {
            return self.read_one(node, Kind::ServiceAccount, action);
        }
        if verb(action) != Verb::Create || action.name.is_empty() {
            return denied("can only create tokens for individual service accounts");
        }
        if action.subresource != "token" {
            return denied("can only create token subresource of serviceaccount");
        }
        self.relationship(node, Kind::ServiceAccount, action)
    }

    fn slice(&self, node: &str, action: &ResourceAction<'_>) -> Answer {
        if !action.subresource.is_empty() {
            return denied("cannot authorize ResourceSlice subresources");
        }
        match verb(action) {
            // NodeRestriction checks the node of a new slice.
            Verb::Create => Ok(()),
            Verb::Get | Verb::Update | Verb::Patch | Verb::Delete => self.related(node, Kind::Slice, action),
            Verb::Watch | Verb::List | Verb::DeleteCollection if selects(action, "spec.nodeName", node) => Ok(()),
            Verb::Watch | Verb::List | Verb::DeleteCollection => {
                denied("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => denied(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, \
                 delete, deletecollection",
            ),
        }
    }

    fn pod(&self, node: &str, action: &ResourceAction<'_>) -> Answer {
        match (action.subresource, verb(action)) {
            ("", Verb::Get) => self.get_one(node, Kind::Pod, action),
            ("", Verb::List | Verb::Watch) if selects(action, "spec.nodeName", node) => Ok(()),
            ("", Verb::List | Verb::Watch) if !action.name.is_empty() => self.related(node, Kind::Pod, action),
            ("", Verb::List | Verb::Watch) => denied("can only list/watch pods with spec.nodeName field selector"),
            // NodeRestriction checks that the pod is on the node.
            ("", Verb::Create | Verb::Delete) | ("status", Verb::Update | Verb::Patch) | ("eviction", Verb::Create) => {
                Ok(())
            }
            _ => denied(""),
        }
    }
}

impl Authorizer for NodeAuthorizer {
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a> {
        let Some(node) = request.user.node_name() else {
            return Decision::no_opinion(Arc::default()).into();
        };
        if node.is_empty() {
            return Decision::no_opinion(format!("unknown node for user {:?}", request.user.name)).into();
        }
        let answer = match &request.action {
            Action::Resource(action) => self.decide(node, action),
            Action::Path { .. } => denied(""),
        };
        match answer {
            Ok(()) => Decision::allow(""),
            Err(reason) => Decision::no_opinion(reason),
        }
        .into()
    }

    fn rules_for(&self, user: &User, _: &str) -> UserRules {
        user.node_name().map(|_| UserRules::unsupported("node")).unwrap_or_default()
    }
}

/// Returns the verb; [`Verb::Unknown`] if no resource supports it.
fn verb(action: &ResourceAction<'_>) -> Verb {
    Verb::from_name(action.verb).unwrap_or(Verb::Unknown)
}

fn denied(reason: &str) -> Answer {
    Err(reason.to_owned())
}

fn lease(node: &str, action: &ResourceAction<'_>) -> Answer {
    if !matches!(verb(action), Verb::Get | Verb::Create | Verb::Update | Verb::Patch | Verb::Delete) {
        return denied("can only get, create, update, patch, or delete a node lease");
    }
    if action.namespace != LEASES {
        return Err(format!("can only access leases in the {LEASES:?} system namespace"));
    }
    if verb(action) != Verb::Create && action.name != node {
        return denied("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

fn csi_node(node: &str, action: &ResourceAction<'_>) -> Answer {
    if !matches!(verb(action), Verb::Get | Verb::Create | Verb::Update | Verb::Patch | Verb::Delete) {
        return denied("can only get, create, update, patch, or delete a CSINode");
    }
    if !action.subresource.is_empty() {
        return denied("cannot authorize CSINode subresources");
    }
    if verb(action) != Verb::Create && action.name != node {
        return denied("can only access CSINode with the same name as the requesting node");
    }
    Ok(())
}

fn node_object(node: &str, action: &ResourceAction<'_>) -> Answer {
    match (action.subresource, verb(action)) {
        // NodeRestriction checks that the node is its own.
        ("", Verb::Create | Verb::Update | Verb::Patch) | ("status", Verb::Update | Verb::Patch) => Ok(()),
        ("", Verb::Get | Verb::List | Verb::Watch) => match action.name {
            name if name == node => Ok(()),
            "" => Err(format!("node '{node}' cannot read all nodes, only its own Node object")),
            name => Err(format!("node '{node}' cannot read '{name}', only its own Node object")),
        },
        _ => denied(""),
    }
}

/// Returns whether the field selector requires a value.
fn selects(action: &ResourceAction<'_>, field: &str, value: &str) -> bool {
    match FieldSelector::parse(action.field_selector) {
        Ok(selector) => selector.requires_exact_match(field) == Some(value),
        Err(_) => false,
    }
}

/// Returns whether all nodes may do this: the rules of `system:node` for resources that are not subdivided.
fn is_granted_to_all_nodes(action: &ResourceAction<'_>) -> bool {
    let verbs: &[Verb] = match (action.group, action.resource) {
        ("authentication.k8s.io", "tokenreviews") => &[Verb::Create],
        ("authorization.k8s.io", "subjectaccessreviews" | "localsubjectaccessreviews") => &[Verb::Create],
        ("", "services") | ("storage.k8s.io", "csidrivers") | ("node.k8s.io", "runtimeclasses") => {
            &[Verb::Get, Verb::List, Verb::Watch]
        }
        ("" | "events.k8s.io", "events") => &[Verb::Create, Verb::Update, Verb::Patch],
        ("", "endpoints") => &[Verb::Get],
        ("certificates.k8s.io", "certificatesigningrequests") => &[Verb::Create, Verb::Get, Verb::List, Verb::Watch],
        _ => &[],
    };
    action.subresource.is_empty() && verbs.contains(&verb(action))
}

#[cfg(test)]
mod tests;
