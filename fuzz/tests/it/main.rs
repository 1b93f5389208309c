//! Replays the seeds of all fuzz targets.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::{collections::BTreeSet, fs, path::Path};

use windlass_fuzz::TARGETS;

/// Returns the names of the files in a directory of this crate.
fn names(directory: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(directory)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_target_has_seeds_and_an_engine() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("corpus"), targets);
    let engines: BTreeSet<String> = targets.iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(names("engine/src/bin"), engines);
}

#[test]
fn seeds_hold_all_invariants() {
    for (name, target) in TARGETS {
        let directory = format!("corpus/{name}");
        for seed in names(&directory) {
            println!("{directory}/{seed}");
            target(&fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(&directory).join(&seed)).unwrap());
        }
    }
}
