//! Keeps volume attributes classes while claims and volumes name them.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::VolumeAttributesClass,
};
use kube::ResourceExt as _;
use windlass::{Result, context::Context, controller::Action, key::ObjectKey, operator::Operator};

use super::{ClusterCertificates, controller};
use crate::volumes::protect;

const FINALIZER: &str = "kubernetes.io/vac-protection";

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let keys = |names: Vec<String>| names.iter().map(|name| ObjectKey::cluster(name)).collect();
    let name = "volumeattributesclass-protection-controller";
    let classes = controller::<VolumeAttributesClass>(name, reconcile)
        .watches::<PersistentVolumeClaim>(move |claim, _| keys(classes_of_claim(claim)))
        .watches::<PersistentVolume>(move |volume, _| keys(classes_of_volume(volume)));
    operator.controller(classes)
}

async fn reconcile(class: Arc<VolumeAttributesClass>, ctx: Context) -> Result<Action> {
    protect(class, &ctx, FINALIZER, async |class| {
        let name = class.name_any();
        let claims = ctx.index("attributes-class", classes_of_claim)?;
        let volumes = ctx.index("attributes-class", classes_of_volume)?;
        Ok(claims.count(&name) + volumes.count(&name) > 0)
    })
    .await
}

fn classes_of_claim(claim: &PersistentVolumeClaim) -> Vec<String> {
    let status = claim.status.as_ref();
    let target =
        status.and_then(|status| status.modify_volume_status.as_ref()?.target_volume_attributes_class_name.clone());
    let current = status.and_then(|status| status.current_volume_attributes_class_name.clone());
    let wanted = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.clone());
    let mut names: Vec<String> =
        [wanted, current, target].into_iter().flatten().filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn classes_of_volume(volume: &PersistentVolume) -> Vec<String> {
    let name = volume.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.clone());
    name.into_iter().filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_uses_its_desired_current_and_target_class() {
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({"metadata": {},
            "spec": {"volumeAttributesClassName": "b"},
            "status": {"currentVolumeAttributesClassName": "a",
                "modifyVolumeStatus": {"status": "Pending", "targetVolumeAttributesClassName": "b"}}}))
        .unwrap();
        assert_eq!(classes_of_claim(&claim), ["a", "b"]);
    }
}
