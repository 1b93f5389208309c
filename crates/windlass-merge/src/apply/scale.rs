//! Maps the managed fields of a scale to and from those of the scaled object.
//!
//! Only one field of a scale matters, `spec.replicas`. A write through the scale subresource sees the managers of the
//! object's own replicas as managers of the scale; afterwards, the managers of the scale's replicas own the object's.

use serde_json::Value;

use super::{
    managed_fields::{ManagedFields, ManagedFieldsEntry},
    path::Path,
    set::Set,
};

/// API version of scales.
pub const SCALE_API_VERSION: &str = "autoscaling/v1";

/// Path of the replicas field in each version of a kind. Versions are as in objects (`apps/v1`); `None` for one without
/// scale.
pub type ReplicasPaths = [(String, Option<Path>)];

/// Returns the managed fields of an object's scale.
pub fn to_scale(parent: &[Value], paths: &ReplicasPaths) -> Result<Option<Value>, String> {
    let mut scale = ManagedFields::default();
    for mut entry in ManagedFields::decode(parent.to_vec())?.entries {
        if let Some(Some(path)) = path_of(&entry.api_version, paths)
            && entry.set()?.has(&path[..])
        {
            let set = Set::from_iter([Path::fields(["spec", "replicas"])]);
            scale.entries.push(ManagedFieldsEntry::new(entry.id, SCALE_API_VERSION, set, entry.time));
        }
    }
    Ok(scale.encode())
}

/// Returns the managed fields of an object in a version, given its previous ones and those of its scale after a write.
///
/// As in kube-apiserver, a manager that writes through the scale gets an entry without a timestamp, and every update
/// entry that owned the replicas loses them to such an entry, whether or not the write changed the replicas.
pub fn to_parent(
    parent: &[Value],
    scale: &[Value],
    api_version: &str,
    paths: &ReplicasPaths,
) -> Result<Option<Value>, String> {
    let parent = ManagedFields::decode(parent.to_vec())?;
    let mut scale = ManagedFields::decode(scale.to_vec())?;
    let times: Vec<_> = parent.entries.iter().map(|entry| (entry.id.clone(), entry.time)).collect();
    let mut managed = ManagedFields::default();
    for mut entry in parent.entries {
        let Some(path) = path_of(&entry.api_version, paths) else { continue };
        if let Some(path) = path
            && entry.set()?.has(&path[..])
        {
            match scale.position(&entry.id) {
                Some(position) => {
                    scale.entries.remove(position);
                }
                None => {
                    let rest = entry.set()?.difference(&Set::from_iter([path.clone()]));
                    if rest.is_empty() {
                        continue;
                    }
                    entry.replace(rest);
                }
            }
        }
        managed.entries.push(entry);
    }
    let replicas = Path::fields(["spec", "replicas"]);
    let path = path_of(api_version, paths).flatten();
    for mut entry in scale.entries {
        if !entry.set()?.has(&replicas[..]) {
            continue;
        }
        let time = times.iter().find(|(id, _)| *id == entry.id).and_then(|(_, time)| *time);
        let entry = ManagedFieldsEntry::new(entry.id, api_version, path.cloned().into_iter().collect(), time);
        match managed.position(&entry.id) {
            Some(position) => managed.entries[position] = entry,
            None => managed.entries.push(entry),
        }
    }
    Ok(managed.encode())
}

/// Returns `None` for a version that the kind does not have, and `Some(None)` for one without scale.
fn path_of<'p>(api_version: &str, paths: &'p ReplicasPaths) -> Option<Option<&'p Path>> {
    paths.iter().find(|(version, _)| version == api_version).map(|(_, path)| path.as_ref())
}
