//! The references of pods and persistent volumes to other objects.

use std::sync::Arc;

use serde_json::Value;
use windlass_builtins::kinds::pod::{admission::is_mirror, references};

use super::graph::Kind;

/// The node of a pod, and the objects that it refers to.
pub(super) struct PodLinks {
    pub(super) node: Arc<str>,
    /// The kind and key of each object, once.
    pub(super) objects: Vec<(Kind, String)>,
}

impl PodLinks {
    /// Returns the links of a pod; `None` if it has no node.
    pub(super) fn of(pod: &Value) -> Option<Self> {
        let node = node(Some(pod))?.into();
        let mut objects = Vec::new();
        // A node may create mirror pods, and must not grant itself anything by them.
        if !is_mirror(pod) {
            let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
            let mut add = |kind, name: &str| {
                if !name.is_empty() {
                    objects.push((kind, format!("{namespace}/{name}")));
                }
            };
            add(Kind::ServiceAccount, pod["spec"]["serviceAccountName"].as_str().unwrap_or_default());
            references::secrets(pod).for_each(|name| add(Kind::Secret, name));
            references::config_maps(pod).for_each(|name| add(Kind::ConfigMap, name));
            references::volume_claims(pod).for_each(|name| add(Kind::Claim, &name));
            references::resource_claims(pod).for_each(|name| add(Kind::ResourceClaim, name));
            objects.sort_unstable();
            objects.dedup();
        }
        Some(Self { node, objects })
    }
}

/// The claim of a persistent volume, and the secrets that nodes need for it.
pub(super) struct VolumeLinks {
    /// The key of the claim.
    pub(super) claim: String,
    /// The keys of the secrets.
    pub(super) secrets: Vec<String>,
}

impl VolumeLinks {
    /// Returns the links of a volume; `None` if it is not claimed.
    pub(super) fn of(volume: &Value) -> Option<Self> {
        let spec = &volume["spec"];
        let claim = spec.get("claimRef").filter(|claim| claim.is_object())?;
        let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let namespace = text(claim, "namespace");
        let mut secrets = Vec::new();
        let mut add = |namespace: &str, name: &str| {
            if !name.is_empty() {
                secrets.push(format!("{namespace}/{name}"));
            }
        };
        // The first source counts, in this order.
        let sources = ["azureFile", "cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos", "csi"];
        let source = sources.into_iter().find_map(|name| Some((name, spec.get(name).filter(|it| it.is_object())?)));
        match source {
            Some(("azureFile", source)) => {
                let own = text(source, "secretNamespace");
                add(if own.is_empty() { &namespace } else { &own }, &text(source, "secretName"));
            }
            Some(("csi", source)) => {
                for field in ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"] {
                    add(&text(&source[field], "namespace"), &text(&source[field], "name"));
                }
            }
            Some((name, source)) => {
                let secret = &source["secretRef"];
                let own = text(secret, "namespace");
                let inherits = own.is_empty() && !matches!(name, "cinder" | "storageos");
                add(if inherits { &namespace } else { &own }, &text(secret, "name"));
            }
            None => {}
        }
        secrets.sort_unstable();
        secrets.dedup();
        Some(Self { claim: format!("{namespace}/{}", text(claim, "name")), secrets })
    }
}

/// Returns the node that an object names; `None` if it names none.
pub(super) fn node(object: Option<&Value>) -> Option<&str> {
    object?["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())
}
