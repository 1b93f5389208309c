//! Keeps persistent volume claims while pods use them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{ResourceExt as _, api::ListParams};
use windlass::{Result, context::Context, controller::Action, operator::Operator};

use super::{ClusterCertificates, controller};
use crate::volumes::{claims_of_pod, named_claims, pods_by_claim, protect};

const FINALIZER: &str = "kubernetes.io/pvc-protection";

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let name = "persistentvolumeclaim-protection-controller";
    let claims = controller::<PersistentVolumeClaim>(name, reconcile).watches::<Pod>(|pod, _ctx| claims_of_pod(pod));
    operator.controller(claims)
}

async fn reconcile(claim: Arc<PersistentVolumeClaim>, ctx: Context) -> Result<Action> {
    protect(claim, &ctx, FINALIZER, async |claim| {
        let namespace = claim.namespace().unwrap_or_default();
        let place = (namespace.clone(), claim.name_any());
        if pods_by_claim(&ctx)?.get(&place).iter().any(|pod| uses(pod, claim)) {
            return Ok(true);
        }
        // The cache may lag behind, and a deleted claim cannot be restored.
        let pods = ctx.live().list::<Pod>(Some(&namespace), &ListParams::default()).await?;
        Ok(pods.items.iter().any(|pod| uses(pod, claim)))
    })
    .await
}

/// Returns whether a pod uses a claim. A pod without a node does not: it will not start with a claim that is being
/// deleted.
fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let is_placed = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|node| !node.is_empty());
    let is_shut_down =
        pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds == Some(0);
    let is_made_for_it = || {
        let owners = claim.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.controller == Some(true) && Some(&owner.uid) == pod.metadata.uid.as_ref())
    };
    let name = claim.name_any();
    is_placed
        && named_claims(pod)
            .iter()
            .any(|named| named.name == name && (!named.is_own || !is_shut_down && is_made_for_it()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(metadata: serde_json::Value) -> PersistentVolumeClaim {
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn a_claim_is_used_by_pods_that_have_a_node() {
        let pod = |metadata: serde_json::Value, node: &str, volume: serde_json::Value| -> Pod {
            let spec = json!({"nodeName": node, "containers": [], "volumes": [volume]});
            serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
        };
        let named = || json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
        let own = || json!({"name": "v", "ephemeral": {}});
        let plain = claim(json!({"name": "c"}));
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true});
        let made = claim(json!({"name": "p-v", "ownerReferences": [owner]}));
        let unowned = claim(json!({"name": "p-v"}));
        let alive = || json!({"name": "p", "uid": "u"});
        let over = || json!({"name": "p", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0});
        for (pod, claim, expected) in [
            (pod(alive(), "n", named()), &plain, true),
            (pod(over(), "n", named()), &plain, true),
            (pod(alive(), "", named()), &plain, false),
            (pod(alive(), "n", named()), &made, false),
            (pod(alive(), "n", own()), &made, true),
            (pod(over(), "n", own()), &made, false),
            (pod(alive(), "n", own()), &unowned, false),
        ] {
            assert_eq!(uses(&pod, claim), expected, "{:?} {:?}", pod.metadata, claim.metadata.name);
        }
    }
}
