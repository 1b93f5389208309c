//! Who leads, and who has which keys.
//!
//! [`LeaderElection`] lets one of several replicas work and keeps the others ready. [`Sharding`] lets all of them work,
//! each on its own keys. Both rest on Leases of `coordination.k8s.io/v1` and on one rule:
//!
//! **A holder believes in its lease for a shorter time than everybody else.** It counts `renew_deadline` from the
//! moment *before* it sent the request that was granted. Everybody else counts the longer `lease_duration` from the
//! moment *after* they saw the lease change. Whatever the delays between them, the holder's time ends first. Nobody
//! compares a time in a Lease with a clock of its own: wall clocks may differ as they like. Only the *rates* of two
//! clocks matter, and they may differ by `lease_duration / renew_deadline` (by default half as fast again).
//!
//! A holder is asked at the moment of each write ([`Leadership::check`], and [`Shard::owns`] with the key that is being
//! reconciled), and the answer is computed from the clock at that moment, not by a timer. A process that was stopped
//! past its lease and continues refuses its very next write. A write that passed the check must reach the server within
//! `lease_duration - renew_deadline` (5 s) to be sure that it arrives before anybody else's. (Keys that are handed over
//! by agreement have [less time](Sharding#writes-on-their-way).)
//!
//! # Clocks
//!
//! The clock is the one of [`tokio::time::Instant`], on Linux `CLOCK_MONOTONIC`. It goes on while a process is stopped
//! (`SIGSTOP`, a frozen cgroup, a starved CPU) and it does not while the whole machine is suspended. On Linux the time
//! of suspension is asked for and added. A virtual machine that is frozen from outside together with all of its clocks
//! cannot notice that by itself; only the server's optimistic concurrency protects its writes.

mod clock;
mod election;
mod elector;
mod identity;
mod leadership;
mod membership;
mod record;
mod ring;
mod shard;
mod sharding;
#[cfg(test)]
mod tests;
mod timing;

pub use elector::{ElectionMetrics, ElectionOutcome, LeaderElection};
pub use identity::identity;
#[cfg(test)]
pub(crate) use leadership::LeadershipState;
pub use leadership::{Leadership, NotLeading};
#[cfg(test)]
pub(crate) use ring::Ring;
pub use shard::Shard;
pub use sharding::Sharding;
pub use timing::{InvalidTiming, Timing};
