//! Conformance checks for every [`Store`], which any backend's tests can run.
//!
//! A check panics if the store violates the contract. It writes only below its own root and assumes neither that the
//! store is empty nor that there are no other writers elsewhere, so it also works on a shared store such as etcd. Only
//! the compaction checks reach further: they discard history of the whole store. [`check_shared`] is for stores that
//! several processes share.

mod compaction;
mod lists;
mod reopening;
mod sharing;
mod snapshots;
mod watches;
mod writes;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

pub use self::{
    compaction::{
        a_watch_overtaken_by_compaction_skips_nothing, a_watch_starts_right_at_the_compacted_revision,
        compaction_discards_history_and_nothing_else,
    },
    lists::{
        a_future_revision_is_rejected, lists_are_consistent_while_others_write_and_compact,
        lists_are_ordered_pages_of_one_revision, lists_go_back_in_time,
    },
    reopening::{Checkpoint, leave_a_history, the_history_is_still_there},
    sharing::{
        a_backlog_of_large_events_is_delivered, a_compaction_through_one_handle_hides_nothing_from_the_other,
        a_watch_reaches_the_newest_revision, a_watch_that_is_not_read_is_told_everything_later, check_shared,
        compactions_at_the_same_time_do_no_harm, failed_writes_move_no_revision, large_values_are_stored_or_rejected,
        revisions_never_fall, writes_through_one_handle_are_seen_through_the_other,
    },
    snapshots::a_snapshot_is_the_state_at_one_revision,
    watches::{
        a_wait_that_is_cancelled_loses_nothing, a_watch_delivers_only_its_prefix, a_watch_resumes_after_any_batch,
        a_watch_starts_anywhere_in_history, watches_deliver_every_event_once_and_in_order,
    },
    writes::{
        an_update_and_a_deletion_are_one_write, racing_creates_have_one_winner, racing_increments_lose_nothing,
        writes_are_compare_and_swap,
    },
};
use crate::{Error, Event, ListOptions, Revision, Store, Watch};

/// Time for which a check waits for a watch to deliver an event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs all checks on a store, one after the other, below a root such as `/conformance`.
pub async fn check_all(store: &Arc<dyn Store>, root: &str) {
    writes_are_compare_and_swap(store, &format!("{root}/writes/")).await;
    an_update_and_a_deletion_are_one_write(store, &format!("{root}/last/")).await;
    racing_increments_lose_nothing(store, &format!("{root}/increments/")).await;
    racing_creates_have_one_winner(store, &format!("{root}/creates/")).await;
    lists_are_ordered_pages_of_one_revision(store, &format!("{root}/pages/")).await;
    lists_go_back_in_time(store, &format!("{root}/past/")).await;
    a_future_revision_is_rejected(store, &format!("{root}/future/")).await;
    lists_are_consistent_while_others_write_and_compact(store, &format!("{root}/moving/")).await;
    a_watch_delivers_only_its_prefix(store, &format!("{root}/prefix/")).await;
    a_watch_resumes_after_any_batch(store, &format!("{root}/resumed/")).await;
    a_watch_starts_anywhere_in_history(store, &format!("{root}/start/")).await;
    a_wait_that_is_cancelled_loses_nothing(store, &format!("{root}/cancelled/")).await;
    watches_deliver_every_event_once_and_in_order(store, &format!("{root}/events/")).await;
    a_snapshot_is_the_state_at_one_revision(store, &format!("{root}/snapshots/")).await;
    compaction_discards_history_and_nothing_else(store, &format!("{root}/compaction/")).await;
    a_watch_overtaken_by_compaction_skips_nothing(store, &format!("{root}/overtaken/")).await;
    a_watch_starts_right_at_the_compacted_revision(store, &format!("{root}/right-at/")).await;
}

/// A key as it appears in a list, an event or an expectation: key, revision, value (`None`: deleted).
type Observed = (String, Revision, Option<Bytes>);

fn observed(event: &Event) -> Observed {
    (event.key.to_string(), event.revision, event.value.clone())
}

fn below(root: &str) -> ListOptions {
    ListOptions { prefix: root.to_owned(), ..ListOptions::default() }
}

async fn listed(store: &Arc<dyn Store>, options: ListOptions) -> Vec<Observed> {
    let page = store.list(options).await.expect("list must succeed");
    page.entries.into_iter().map(|entry| (entry.key.to_string(), entry.revision, Some(entry.value))).collect()
}

/// Reads a watch until it has delivered everything up to a revision.
async fn events_through(watch: &mut dyn Watch, through: Revision) -> Result<Vec<Observed>, Error> {
    let mut events: Vec<Observed> = Vec::new();
    let mut delivered = Revision(0);
    while delivered < through {
        let next = tokio::time::timeout(EVENT_TIMEOUT, watch.next());
        let batch = next.await.unwrap_or_else(|_| panic!("a watch must deliver revision {through}"))?;
        assert!(batch.revision >= delivered, "a watch must not go back");
        for event in &batch.events {
            assert!(
                event.revision > delivered && event.revision <= batch.revision,
                "an event must belong to its batch"
            );
            events.push(observed(event));
        }
        delivered = batch.revision;
    }
    // Equal revisions are those of writers elsewhere; that they are in one batch was checked above.
    assert!(events.is_sorted_by(|one, next| one.1 <= next.1), "events must be in revision order");
    Ok(events)
}
