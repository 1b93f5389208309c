//! Volumes: only types that give no access to the node or the network.

use std::collections::BTreeSet;

use windlass_schema::sorting::Gather as _;

use super::{Pod, Violation, list};
use crate::object::{is_set, items, text};

const ALLOWED: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The other types; if a volume has several, the first one is reported.
const OTHERS: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub(super) fn restricted(pod: Pod<'_>) -> Option<Violation> {
    let is = |volume, kind: &&&str| is_set(volume, &format!("/{kind}"));
    let wrong = items(pod.spec, "/volumes").iter().filter(|volume| !ALLOWED.iter().any(|kind| is(volume, &kind)));
    let wrong: Vec<_> = wrong.collect();
    if wrong.is_empty() {
        return None;
    }
    let kind = |volume| OTHERS.iter().find(|kind| is(volume, kind)).copied().unwrap_or("unknown");
    let kinds: BTreeSet<&str> = wrong.iter().map(|volume| kind(volume)).gather();
    let names: Vec<&str> = wrong.iter().map(|volume| text(volume, "/name")).collect();
    let volumes = list::named(&names, "volume", "volumes");
    let uses = list::plural(names.len(), "uses", "use");
    let what = list::plural(kinds.len(), "restricted volume type", "restricted volume types");
    Violation::new("restricted volume types", format!("{volumes} {uses} {what} {}", list::quoted_set(&kinds)))
}
