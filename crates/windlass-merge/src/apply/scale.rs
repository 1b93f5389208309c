//! The managed fields of a scale and those of the object it stands for.
//!
//! A scale has one field that counts, `spec.replicas`. A write through it sees the owners of the object's own replicas
//! as the scale's owners; afterwards, who owns the scale's replicas owns the object's.

use serde_json::Value;

use super::{
    managers::{Managed, Owner},
    path::Path,
    set::Set,
};

/// The version of scales.
pub const SCALE_API_VERSION: &str = "autoscaling/v1";

/// Where the versions of a kind keep their replicas: versions as in objects (`apps/v1`), `None` for one without scale.
pub type ReplicasPaths = [(String, Option<Path>)];

/// The managed fields of the scale of an object that has these.
pub fn to_scale(parent: &[Value], paths: &ReplicasPaths) -> Result<Option<Value>, String> {
    let mut scale = Managed::default();
    for mut owner in Managed::decode(parent.to_vec())?.owners {
        if let Some(Some(path)) = path_of(&owner.api_version, paths)
            && owner.set()?.has(&path[..])
        {
            let set = Set::from_iter([Path::fields(["spec", "replicas"])]);
            scale.owners.push(Owner::new(owner.id, SCALE_API_VERSION, set, owner.time));
        }
    }
    Ok(scale.encode())
}

/// The managed fields of an object in a version, given those it had and those of its scale after a write.
///
/// As on the real server, who writes through the scale gets an entry without a time, and every update's entry that had
/// the replicas loses them to such an entry, whether the write changed the replicas or not.
pub fn to_parent(
    parent: &[Value],
    scale: &[Value],
    api_version: &str,
    paths: &ReplicasPaths,
) -> Result<Option<Value>, String> {
    let parent = Managed::decode(parent.to_vec())?;
    let mut scale = Managed::decode(scale.to_vec())?;
    let times: Vec<_> = parent.owners.iter().map(|owner| (owner.id.clone(), owner.time)).collect();
    let mut managed = Managed::default();
    for mut owner in parent.owners {
        let Some(path) = path_of(&owner.api_version, paths) else { continue };
        if let Some(path) = path
            && owner.set()?.has(&path[..])
        {
            match scale.position(&owner.id) {
                Some(position) => {
                    scale.owners.remove(position);
                }
                None => {
                    let rest = owner.set()?.difference(&Set::from_iter([path.clone()]));
                    if rest.is_empty() {
                        continue;
                    }
                    owner.replace(rest);
                }
            }
        }
        managed.owners.push(owner);
    }
    let replicas = Path::fields(["spec", "replicas"]);
    let path = path_of(api_version, paths).flatten();
    for mut owner in scale.owners {
        if !owner.set()?.has(&replicas[..]) {
            continue;
        }
        let time = times.iter().find(|(id, _)| *id == owner.id).and_then(|(_, time)| *time);
        let owner = Owner::new(owner.id, api_version, path.cloned().into_iter().collect(), time);
        match managed.position(&owner.id) {
            Some(position) => managed.owners[position] = owner,
            None => managed.owners.push(owner),
        }
    }
    Ok(managed.encode())
}

/// `None` for a version that the kind does not have, `Some(None)` for one without scale.
fn path_of<'p>(api_version: &str, paths: &'p ReplicasPaths) -> Option<Option<&'p Path>> {
    paths.iter().find(|(version, _)| version == api_version).map(|(_, path)| path.as_ref())
}
