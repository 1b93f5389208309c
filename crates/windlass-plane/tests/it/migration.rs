//! Copying the objects of a data directory to other files.

use std::{
    env, fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use windlass_plane::{
    Plane, PlaneError, PlaneOptions,
    migration::{Location, Migrated, MigrationError, MigrationOptions, Progress, migrate},
};
use windlass_store::{EmbeddedStore, Entry, Error, ListOptions, Revision, Store as _};

/// Environment of the process that is killed: the target, and the number of the step.
const TARGET: &str = "WINDLASS_MIGRATION_TARGET";
const STEP: &str = "WINDLASS_MIGRATION_STEP";

fn options(from: Location, to: Location) -> MigrationOptions {
    MigrationOptions { from, to, bump: 0, dry_run: false }
}

async fn copy(from: Location, to: Location) -> Result<Migrated, MigrationError> {
    migrate(&options(from, to), &mut |_| {}).await
}

fn embedded(directory: &Path) -> Location {
    Location::Embedded(directory.to_owned())
}

fn open(directory: &Path) -> EmbeddedStore {
    EmbeddedStore::open(directory.join("store.redb")).unwrap()
}

/// Writes objects of several megabytes, and deletes some; returns the newest revision.
async fn fill(directory: &Path) -> Revision {
    fs::create_dir_all(directory).unwrap();
    let store = open(directory);
    for number in 0..8 {
        let key = format!("/core/configmaps/default/{number}");
        let created = store.create(&key, vec![b'x'; 400_000].into()).await.unwrap();
        match number % 4 {
            0 => drop(store.delete(&key, created).await.unwrap()),
            1 => drop(store.update(&key, created, "short".into()).await.unwrap()),
            _ => {}
        }
    }
    store.revision().await.unwrap()
}

async fn entries(directory: &Path) -> Vec<Entry> {
    open(directory).list(ListOptions::default()).await.unwrap().entries
}

#[tokio::test]
async fn objects_keep_their_revisions_through_a_snapshot_and_earlier_watches_have_to_list_again() {
    let folder = tempfile::tempdir().unwrap();
    let (first, file, second) =
        (folder.path().join("first"), folder.path().join("file"), folder.path().join("new/second"));
    let newest = fill(&first).await;
    let objects = entries(&first).await;

    let saved = copy(embedded(&first), Location::Snapshot(file.clone())).await.unwrap();
    assert_eq!((saved.revision, saved.objects.entries, saved.largest), (newest, 6, 400_000));
    let bumped = MigrationOptions { bump: 100, ..options(Location::Snapshot(file.clone()), embedded(&second)) };
    let restored = migrate(&bumped, &mut |_| {}).await.unwrap();
    assert_eq!((restored.revision, restored.objects), (Revision(newest.0 + 100), saved.objects));
    assert_eq!(entries(&second).await, objects);
    let store = open(&second);
    for seen in [Revision(2), newest, Revision(newest.0 + 99)] {
        let rejected = store.watch("/", seen).await.err();
        assert!(matches!(rejected, Some(Error::Compacted { .. })), "{seen}: {rejected:?}");
        let listed = store.list(ListOptions { at: Some(seen), ..ListOptions::default() }).await;
        assert!(matches!(listed, Err(Error::Compacted { .. })), "{seen}: {listed:?}");
    }
    assert_eq!(store.create("/next", "new".into()).await.unwrap(), Revision(newest.0 + 101));
    assert_eq!(entries(&first).await, objects, "the source is unchanged");
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let newest = fill(&first).await;
    let dry = |to| MigrationOptions { dry_run: true, ..options(embedded(&first), to) };
    for to in [embedded(&second), Location::Snapshot(second.clone())] {
        let found = migrate(&dry(to), &mut |_| {}).await.unwrap();
        assert_eq!((found.objects.entries, found.revision), (6, newest));
        assert!(!second.exists());
    }
    let same = migrate(&dry(embedded(&first)), &mut |_| {}).await;
    assert!(matches!(same, Err(MigrationError::Exists { .. })), "{same:?}");
}

#[tokio::test]
async fn sources_that_are_in_use_and_targets_that_exist_are_rejected_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (running, other, file) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("file"));
    let plane = Plane::start(PlaneOptions::new(&running)).await.unwrap();
    let held = |result: &_| matches!(result, Err(MigrationError::Plane(PlaneError::Lock(_))));
    let from = copy(embedded(&running), embedded(&other)).await;
    assert!(held(&from) && !other.exists(), "{from:?}");
    fill(&other).await;
    fs::remove_file(running.join("store.redb")).unwrap();
    let to = copy(embedded(&other), embedded(&running)).await;
    assert!(held(&to) && !running.join("store.redb").exists(), "{to:?}");
    drop(plane);

    fs::write(&file, "mine").unwrap();
    let result = copy(embedded(&other), Location::Snapshot(file.clone())).await;
    assert!(matches!(&result, Err(MigrationError::Exists { path }) if *path == file), "{result:?}");
    assert!(result.unwrap_err().hint().is_some());
    let result = copy(Location::Snapshot(file.clone()), embedded(&folder.path().join("c"))).await;
    assert!(matches!(result, Err(MigrationError::Snapshot { .. })), "{result:?}");
    let empty = copy(embedded(folder.path()), embedded(&folder.path().join("c"))).await;
    assert!(matches!(empty, Err(MigrationError::NoObjects { .. })), "{empty:?}");
    assert!(!folder.path().join("c").exists());
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[tokio::test]
async fn keys_go_with_the_objects_to_another_directory_and_never_replace_others() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second, third] = ["a", "b", "c"].map(|name| folder.path().join(name));
    for directory in [&first, &third] {
        drop(Plane::start(PlaneOptions::new(directory)).await.unwrap());
    }
    let copied = copy(embedded(&first), embedded(&second)).await.unwrap();
    assert!(copied.keys);
    for name in ["sa.key", "ca.key", "ca.crt", "front-proxy-ca.key"] {
        let read = |directory: &Path| fs::read_to_string(directory.join("pki").join(name)).unwrap();
        assert_eq!(read(&first), read(&second), "{name}");
    }
    fs::remove_file(third.join("store.redb")).unwrap();
    let rejected = copy(embedded(&first), embedded(&third)).await;
    assert!(matches!(rejected, Err(MigrationError::Keys(_))), "{rejected:?}");
    assert!(!third.join("store.redb").exists() && !third.join("store.redb.restoring").exists());
}

/// Copies the objects to the target in the environment, and is killed at a step.
async fn be_killed(source: &Path, target: PathBuf, step: usize) {
    let to = match target.extension() {
        Some(_) => Location::Snapshot(target),
        None => Location::Embedded(target),
    };
    let mut left = step;
    let mut progress = |_: Progress| {
        if left == 0 {
            std::process::abort();
        }
        left -= 1;
    };
    migrate(&options(embedded(source), to), &mut progress).await.unwrap();
}

#[tokio::test]
async fn a_migration_that_is_killed_at_any_step_can_be_started_again() {
    if let Some(target) = env::var_os(TARGET).map(PathBuf::from) {
        let step = env::var(STEP).unwrap().parse().unwrap();
        let source = target.parent().unwrap().join("source");
        return be_killed(&source, target, step).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fill(&source).await;
    let objects = entries(&source).await;
    for name in ["target", "target.snapshot"] {
        let target = folder.path().join(name);
        let store = if name == "target" { target.join("store.redb") } else { target.clone() };
        let mut kills = 0;
        loop {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(["--exact", "migration::a_migration_that_is_killed_at_any_step_can_be_started_again"]);
            let status = command.env(TARGET, &target).env(STEP, kills.to_string()).stderr(Stdio::null());
            let status = status.stdout(Stdio::null()).status().unwrap();
            assert_eq!(entries(&source).await, objects, "after kill {kills}");
            if status.success() {
                break;
            }
            assert!(status.signal().is_some(), "{status}");
            assert!(!store.exists(), "the store must not be usable after kill {kills}");
            kills += 1;
        }
        // Some pieces, and before and after the comparison.
        assert!(kills >= 4, "only {kills} steps");
        assert!(store.exists());
    }
    assert_eq!(entries(&folder.path().join("target")).await, objects);
    let again = folder.path().join("again");
    copy(Location::Snapshot(folder.path().join("target.snapshot")), embedded(&again)).await.unwrap();
    assert_eq!(entries(&again).await, objects);
}
