//! Loading the objects of a store: pieces are read in the order of the file and parsed on all cores.
//!
//! Only the pieces that are being parsed are in memory besides the loaded objects.

use std::{
    collections::HashMap,
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use parking_lot::Mutex;
use tracing::info;
use windlass_store::{Entry, Error, Revision, snapshot::SnapshotReader};

use super::{
    cache::{Cached, Objects},
    damage::DamagedObjects,
    object::StoredObject,
    resource_prefix,
};

/// The number of bytes that a thread reads and parses at a time.
const PIECE: usize = 256 << 10;
/// The number of objects up to which starting threads is not worthwhile.
const FEW: usize = 1_000;

/// The objects of a store at a revision, by resource.
pub(super) struct Loaded {
    pub(super) revision: Revision,
    pub(super) resources: HashMap<Box<str>, LoadedResource>,
}

/// The objects of a resource.
#[derive(Default)]
pub(super) struct LoadedResource {
    pub(super) objects: Objects,
    pub(super) damaged: DamagedObjects,
}

/// Reads and parses everything that a snapshot of the store contains.
pub(super) async fn load(reader: Box<dyn SnapshotReader>) -> Result<Loaded, Error> {
    if reader.remaining() <= FEW {
        return Loading::new(reader).run(1);
    }
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let loading = tokio::task::spawn_blocking(move || Loading::new(reader).run(threads));
    loading.await.unwrap_or_else(|error| Err(Error::Storage { cause: error.to_string() }))
}

/// A store that is being loaded, shared by the threads that do so.
struct Loading {
    reader: Mutex<Box<dyn SnapshotReader>>,
    revision: Revision,
    total: usize,
    parsed: AtomicUsize,
    start: Instant,
    /// The number of whole seconds after the start at which progress was last reported.
    reported: AtomicU64,
}

/// Entries parsed by one thread, by resource: objects ordered by key, and damaged ones.
type Part = HashMap<Box<str>, (Vec<(Arc<str>, Cached)>, DamagedObjects)>;

impl Loading {
    fn new(reader: Box<dyn SnapshotReader>) -> Self {
        let (revision, total) = (reader.revision(), reader.remaining());
        let (parsed, reported) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { reader: Mutex::new(reader), revision, total, parsed, start: Instant::now(), reported }
    }

    fn run(self, threads: usize) -> Result<Loaded, Error> {
        let parts: Result<Vec<Part>, Error> = thread::scope(|scope| {
            // If the system has no thread left, fewer do the work.
            let spawn =
                |_| thread::Builder::new().name("windlass-load".into()).spawn_scoped(scope, || self.part()).ok();
            let others: Vec<_> = (1..threads).filter_map(spawn).collect();
            let own = self.part();
            let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            std::iter::once(own).chain(others).collect()
        });
        let loaded = Loaded { revision: self.revision, resources: merge(parts?) };
        if self.reported.load(Ordering::Relaxed) > 0 {
            info!(objects = self.total, elapsed = ?self.start.elapsed(), "loaded the objects of the store");
        }
        Ok(loaded)
    }

    /// Reads and parses pieces until there are none left.
    fn part(&self) -> Result<Part, Error> {
        let mut part = Part::new();
        loop {
            // The other threads parse while this one reads.
            let piece = self.reader.lock().read(PIECE)?;
            if piece.is_empty() {
                break;
            }
            self.report(piece.len());
            for entry in piece {
                parse(&entry, &mut part);
            }
        }
        part.values_mut().for_each(|(objects, _)| objects.sort_unstable_by(|(a, _), (b, _)| a.cmp(b)));
        Ok(part)
    }

    /// Reports progress once per second.
    fn report(&self, more: usize) {
        let parsed = self.parsed.fetch_add(more, Ordering::Relaxed) + more;
        let elapsed = self.start.elapsed();
        if self.reported.fetch_max(elapsed.as_secs(), Ordering::Relaxed) < elapsed.as_secs() {
            info!(objects = parsed, of = self.total, ?elapsed, "loading the objects of the store");
        }
    }
}

fn parse(entry: &Entry, part: &mut Part) {
    let prefix = resource_prefix(&entry.key);
    let resource = match part.get_mut(prefix) {
        Some(resource) => resource,
        None => part.entry(prefix.into()).or_default(),
    };
    let key = &entry.key[prefix.len()..];
    match StoredObject::parse_named(key, &entry.value, entry.revision) {
        Ok(object) => resource.0.push((key.into(), Cached::new(Arc::new(object)))),
        Err(damage) => resource.1.insert(prefix, key, entry.revision, damage),
    }
}

fn merge(parts: Vec<Part>) -> HashMap<Box<str>, LoadedResource> {
    let mut merged = Part::new();
    for (prefix, (objects, damaged)) in parts.into_iter().flatten() {
        let resource = merged.entry(prefix).or_default();
        resource.0.extend(objects);
        resource.1.extend(damaged);
    }
    for (objects, _) in merged.values_mut() {
        // A stable sort merges the sorted parts, and a map is built faster in order.
        objects.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
    let resource = |(objects, damaged): (Vec<_>, _)| LoadedResource { objects: objects.into_iter().collect(), damaged };
    merged.into_iter().map(|(prefix, part)| (prefix, resource(part))).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Returns its entries one by one, or fails after some.
    struct Entries(std::vec::IntoIter<Entry>, Option<usize>);

    impl SnapshotReader for Entries {
        fn revision(&self) -> Revision {
            Revision(9_999)
        }

        fn remaining(&self) -> usize {
            self.0.len()
        }

        fn read(&mut self, _bytes: usize) -> Result<Vec<Entry>, Error> {
            if self.1.is_some_and(|fails_at| self.0.len() <= fails_at) {
                return Err(Error::Storage { cause: "gone".to_owned() });
            }
            Ok(self.0.by_ref().take(3).collect())
        }
    }

    fn entries(count: u64, fails_at: Option<usize>) -> Box<dyn SnapshotReader> {
        let entry = |number: u64| {
            let resource = ["pods", "secrets"][(number % 2) as usize];
            // In another order than that of the revisions.
            let name = format!("x{:05}", number * 7919 % 10_007);
            let value = match number % 100 {
                50 => "damaged".to_owned(),
                _ => format!(r#"{{"metadata":{{"name":"{name}","namespace":"n"}}}}"#),
            };
            Entry {
                key: format!("/core/{resource}/n/{name}").into(),
                value: Bytes::from(value),
                revision: Revision(number),
            }
        };
        let entries: Vec<Entry> = (1..=count).map(entry).collect();
        Box::new(Entries(entries.into_iter(), fails_at))
    }

    #[test]
    fn any_number_of_threads_loads_the_same_objects() {
        for threads in [1, 2, 5] {
            let loaded = Loading::new(entries(5_000, None)).run(threads).unwrap();
            assert_eq!(loaded.revision, Revision(9_999));
            assert_eq!(loaded.resources.len(), 2);
            let (pods, secrets) = (&loaded.resources["/core/pods/"], &loaded.resources["/core/secrets/"]);
            // Numbers that end in 50 are even, so all damaged values are pods.
            assert_eq!((pods.objects.len(), pods.damaged.keys("").len()), (2_450, 50), "{threads} threads");
            assert_eq!((secrets.objects.len(), secrets.damaged.keys("").len()), (2_500, 0), "{threads} threads");
            assert!(pods.objects.keys().is_sorted());
            let object = &secrets.objects["n/x07919"].object;
            assert_eq!((object.revision, &*object.header.name), (Revision(1), "x07919"));
        }
    }

    #[test]
    fn a_store_that_cannot_be_read_is_not_loaded_in_part() {
        for threads in [1, 3] {
            let error = Loading::new(entries(5_000, Some(100))).run(threads).err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), Some("storage failed: gone"));
        }
    }
}
