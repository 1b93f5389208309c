//! The API objects that a pod refers to.

use serde_json::Value;

use crate::object::{is_set, items, text};

const CONTAINERS: [&str; 3] = ["/spec/initContainers", "/spec/containers", "/spec/ephemeralContainers"];
/// Sources of volumes with a reference to a secret, in the order in which they are looked for.
const SECRET_SOURCES: [(&str, &str); 11] = [
    ("/azureFile", "/secretName"),
    ("/cephfs", "/secretRef/name"),
    ("/cinder", "/secretRef/name"),
    ("/flexVolume", "/secretRef/name"),
    ("/projected", ""),
    ("/rbd", "/secretRef/name"),
    ("/secret", "/secretName"),
    ("/scaleIO", "/secretRef/name"),
    ("/iscsi", "/secretRef/name"),
    ("/storageos", "/secretRef/name"),
    ("/csi", "/nodePublishSecretRef/name"),
];
/// Sources of volumes that need no API object.
const PLAIN_SOURCES: [&str; 22] = [
    "/awsElasticBlockStore",
    "/azureDisk",
    "/cephfs",
    "/cinder",
    "/downwardAPI",
    "/emptyDir",
    "/fc",
    "/flexVolume",
    "/flocker",
    "/gcePersistentDisk",
    "/gitRepo",
    "/hostPath",
    "/image",
    "/iscsi",
    "/nfs",
    "/photonPersistentDisk",
    "/portworxVolume",
    "/quobyte",
    "/rbd",
    "/scaleIO",
    "/storageos",
    "/vsphereVolume",
];

/// Returns the names of the secrets that a pod refers to, with duplicates.
pub fn secrets(pod: &Value) -> impl Iterator<Item = &str> {
    let pull = items(pod, "/spec/imagePullSecrets").iter().map(|reference| text(reference, "/name"));
    let volumes = items(pod, "/spec/volumes").iter().flat_map(|volume| {
        let source = SECRET_SOURCES.iter().find(|(source, _)| is_set(volume, source));
        let names: Vec<&str> = match source {
            Some(("/projected", _)) => projected(volume, "/secret/name").collect(),
            Some((source, name)) => volume.pointer(source).map(|source| text(source, name)).into_iter().collect(),
            None => Vec::new(),
        };
        names
    });
    pull.chain(of_containers(pod, "/secretRef/name", "/valueFrom/secretKeyRef/name"))
        .chain(volumes)
        .filter(|name| !name.is_empty())
}

/// Returns the names of the config maps that a pod refers to, with duplicates.
pub fn config_maps(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = items(pod, "/spec/volumes").iter().flat_map(|volume| {
        let names: Vec<&str> = match is_set(volume, "/projected") {
            true => projected(volume, "/configMap/name").collect(),
            false => vec![text(volume, "/configMap/name")],
        };
        names
    });
    of_containers(pod, "/configMapRef/name", "/valueFrom/configMapKeyRef/name")
        .chain(volumes)
        .filter(|name| !name.is_empty())
}

/// Returns the names of the persistent volume claims of a pod, including those made for its ephemeral volumes.
pub fn volume_claims(pod: &Value) -> impl Iterator<Item = String> {
    items(pod, "/spec/volumes").iter().filter_map(|volume| volume_claim(pod, volume))
}

/// Returns the name of the persistent volume claim of a volume.
pub fn volume_claim(pod: &Value, volume: &Value) -> Option<String> {
    if is_set(volume, "/persistentVolumeClaim") {
        return Some(text(volume, "/persistentVolumeClaim/claimName").to_owned());
    }
    is_set(volume, "/ephemeral").then(|| format!("{}-{}", text(pod, "/metadata/name"), text(volume, "/name")))
}

/// Returns the names of the resource claims of a pod that exist.
pub fn resource_claims(pod: &Value) -> impl Iterator<Item = &str> {
    let stated = items(pod, "/spec/resourceClaims").iter().filter_map(|claim| {
        if is_set(claim, "/resourceClaimName") {
            return Some(text(claim, "/resourceClaimName"));
        }
        let mut created = items(pod, "/status/resourceClaimStatuses").iter();
        let status = created.find(|status| text(status, "/name") == text(claim, "/name"));
        status.map(|status| text(status, "/resourceClaimName"))
    });
    stated.chain([text(pod, "/status/extendedResourceClaimStatus/resourceClaimName")]).filter(|name| !name.is_empty())
}

/// Returns what kind of API object a pod refers to, worded as in `NodeRestriction`; `None` if it refers to none.
///
/// # Errors
/// Returns an error for a volume without a known source.
pub fn any(pod: &Value) -> Result<Option<&'static str>, String> {
    if !text(pod, "/spec/serviceAccountName").is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if secrets(pod).next().is_some() {
        return Ok(Some("secrets"));
    }
    if config_maps(pod).next().is_some() {
        return Ok(Some("configmaps"));
    }
    if !items(pod, "/spec/resourceClaims").is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in items(pod, "/spec/volumes") {
        if let Some(kind) = of_volume(volume)? {
            return Ok(Some(kind));
        }
    }
    Ok(None)
}

fn of_volume(volume: &Value) -> Result<Option<&'static str>, String> {
    if PLAIN_SOURCES.iter().any(|source| is_set(volume, source)) {
        return Ok(None);
    }
    let sources = [
        ("/configMap", "configmaps (via configmap volumes)"),
        ("/secret", "secrets (via secret volumes)"),
        ("/csi", "csidrivers (via CSI volumes)"),
        ("/glusterfs", "endpoints (via glusterFS volumes)"),
        ("/persistentVolumeClaim", "persistentvolumeclaims"),
        ("/ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
        ("/azureFile", "secrets (via azureFile volumes)"),
    ];
    if let Some((_, kind)) = sources.into_iter().find(|(source, _)| is_set(volume, source)) {
        return Ok(Some(kind));
    }
    let name = text(volume, "/name");
    if !is_set(volume, "/projected") {
        return Err(format!("unknown volume type for volume  {name:?}"));
    }
    let sources = [
        ("/configMap", "configmaps (via projected volumes)"),
        ("/secret", "secrets (via projected volumes)"),
        ("/serviceAccountToken", "serviceaccounts (via projected volumes)"),
        ("/clusterTrustBundle", "clustertrustbundles"),
        ("/podCertificate", "podcertificates"),
    ];
    for projected in items(volume, "/projected/sources") {
        match sources.into_iter().find(|(source, _)| is_set(projected, source)) {
            Some((_, kind)) => return Ok(Some(kind)),
            None if is_set(projected, "/downwardAPI") => {}
            None => return Err(format!("unknown source for projected volume {name:?}")),
        }
    }
    Ok(None)
}

fn projected<'v>(volume: &'v Value, field: &'static str) -> impl Iterator<Item = &'v str> {
    items(volume, "/projected/sources").iter().map(move |source| text(source, field))
}

/// Returns references of the environments of all containers.
fn of_containers<'v>(pod: &'v Value, whole: &'static str, one: &'static str) -> impl Iterator<Item = &'v str> {
    CONTAINERS.into_iter().flat_map(move |kind| items(pod, kind)).flat_map(move |container| {
        let all = items(container, "/envFrom").iter().map(move |source| text(source, whole));
        all.chain(items(container, "/env").iter().map(move |variable| text(variable, one)))
    })
}
