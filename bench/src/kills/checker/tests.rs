//! Histories that must pass, and histories of broken servers.

mod broken;
mod correct;
mod simulated;

use std::ops::Range;

use super::{
    super::history::{
        Call, Content, EventKind, History, Key, ListKind, Mark, OpId, Operation, Outcome, Version, WatchEvent,
        WatchStream,
    },
    Rule, check,
};

const A: Key = Key(0);
const B: Key = Key(1);

/// A version of an object.
#[derive(Clone, Copy)]
struct Seen(Key, Version);

/// A history that is written down operation by operation. Times are in arbitrary units.
#[derive(Default)]
struct Story(History);

impl Story {
    fn operation(&mut self, call: Call, times: Range<u64>, outcome: Outcome) -> OpId {
        let id = OpId(self.next().0);
        let (begin, end) = (times.start, times.end);
        self.0.operations.push(Operation { id, client: 1, server: 0, call, begin, end, outcome });
        id
    }

    fn next(&self) -> OpId {
        OpId(u32::try_from(self.0.operations.len()).unwrap() + 1)
    }

    fn create(&mut self, key: Key, times: Range<u64>, revision: u64) -> Seen {
        let seen = self.created(key, revision);
        self.operation(Call::Create(key), times, Outcome::Object(seen.1));
        seen
    }

    /// Returns what the next operation would create.
    fn created(&self, key: Key, revision: u64) -> Seen {
        let id = self.next();
        let content = Content { created: id, put: id, patch: OpId(0), last: id };
        Seen(key, Version { revision, uid: u128::from(id.0) << 96, content })
    }

    fn put(&mut self, base: Seen, times: Range<u64>, revision: u64) -> Seen {
        let seen = self.updated(base, revision);
        self.operation(Call::Put(base.0, base.1.revision), times, Outcome::Object(seen.1));
        seen
    }

    fn updated(&self, base: Seen, revision: u64) -> Seen {
        let content = Content { put: self.next(), last: self.next(), ..base.1.content };
        Seen(base.0, Version { revision, content, ..base.1 })
    }

    fn patch(&mut self, base: Seen, times: Range<u64>, revision: u64) -> Seen {
        let seen = self.patched(base, revision);
        self.operation(Call::Patch(base.0), times, Outcome::Object(seen.1));
        seen
    }

    fn patched(&self, base: Seen, revision: u64) -> Seen {
        let content = Content { patch: self.next(), last: self.next(), ..base.1.content };
        Seen(base.0, Version { revision, content, ..base.1 })
    }

    fn delete(&mut self, seen: Seen, times: Range<u64>) {
        self.operation(Call::Delete(seen.0, None), times, Outcome::Deleted(seen.1.uid));
    }

    fn get(&mut self, seen: Seen, times: Range<u64>) {
        self.operation(Call::Get(seen.0), times, Outcome::Object(seen.1));
    }

    fn missing(&mut self, key: Key, times: Range<u64>) {
        self.operation(Call::Get(key), times, Outcome::NotFound);
    }

    fn unknown(&mut self, call: Call, begin: u64) {
        self.operation(call, begin..begin + 1, Outcome::Unknown);
    }

    fn list(&mut self, kind: ListKind, times: Range<u64>, revision: u64, items: &[Seen]) {
        let items = items.iter().map(|Seen(key, version)| (*key, *version)).collect();
        self.operation(Call::List(kind), times, Outcome::Listed { revision, items });
    }

    fn watch(&mut self, after: u64, events: &[(EventKind, Seen)]) -> &mut WatchStream {
        let events = events.iter().map(|(kind, Seen(key, version))| {
            // Long after everything else.
            WatchEvent { kind: *kind, key: *key, version: *version, at: 10_000 + version.revision }
        });
        let stream = WatchStream { watcher: 1, after, begin: 0, events: events.collect(), complete_to: None };
        self.0.watches.push(stream);
        self.0.watches.last_mut().unwrap()
    }

    /// Returns the broken rules.
    fn rules(&self) -> Vec<Rule> {
        let mut rules: Vec<Rule> = check(&self.0).violations.iter().map(|violation| violation.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }

    #[track_caller]
    fn passes(&self) {
        let verdict = check(&self.0);
        let described: Vec<String> = verdict.violations.iter().map(ToString::to_string).collect();
        assert!(described.is_empty() && verdict.lost.is_empty(), "{}", described.join("\n"));
    }
}

/// Returns the deletion of a version at a revision, as a watch delivers it.
fn deletion(seen: Seen, revision: u64) -> (EventKind, Seen) {
    (EventKind::Deleted, Seen(seen.0, Version { revision, ..seen.1 }))
}
