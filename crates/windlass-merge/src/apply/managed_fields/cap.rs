//! Limit on the number of update entries: old ones are merged into one bucket per version.

use super::{ManagedFields, ManagerId, Operation};

/// Maximum number of update entries of an object.
const MAX_UPDATE_MANAGERS: usize = 10;

const BUCKET: &str = "ancient-changes";

/// Merges the oldest update entries, version by version, until at most ten are left or none can be merged.
pub(crate) fn cap_update_managers(managed: &mut ManagedFields) -> Result<(), String> {
    let mut updaters: Vec<_> =
        managed.entries.iter().filter(|entry| !entry.applied()).map(|entry| entry.id.clone()).collect();
    let mut count = updaters.len();
    if count <= MAX_UPDATE_MANAGERS {
        return Ok(());
    }
    let seconds = |id: &ManagerId| {
        let entry = managed.position(id).map(|position| &managed.entries[position]);
        entry.and_then(|entry| entry.time).map_or(0, |time| time.unix_seconds())
    };
    updaters.sort_by(|a, b| seconds(a).cmp(&seconds(b)).then_with(|| a.compare(b)));
    // The first entry of each version is kept until a second one can be merged with it.
    let mut firsts: Vec<(String, ManagerId)> = Vec::new();
    for id in updaters {
        if count <= MAX_UPDATE_MANAGERS {
            break;
        }
        let Some(position) = managed.position(&id) else { continue };
        let version = managed.entries[position].api_version.clone();
        let Some((_, first)) = firsts.iter().find(|(seen, _)| *seen == version) else {
            firsts.push((version, id));
            continue;
        };
        let bucket = ManagerId::of_entry(BUCKET, Operation::Update, &version, "");
        let mut merged = managed.entries[position].clone();
        let mut set = merged.set()?.clone();
        let Some(base) = managed.position(&bucket).or_else(|| managed.position(first)) else { continue };
        set = set.union(managed.entries[base].set()?);
        let entry = &mut managed.entries[base];
        entry.id = bucket;
        entry.time = merged.time;
        entry.replace(set);
        managed.entries.retain(|entry| entry.id != id);
        count -= 1;
    }
    Ok(())
}
