//! Leader election and sharding.
//!
//! [`LeaderElection`] lets one of several replicas work and keeps the others on standby. [`Sharding`] lets all of them
//! work, each on its own keys. Both are based on Leases of `coordination.k8s.io/v1` and on one rule:
//!
//! **A holder relies on its lease for a shorter time than all other processes.** It counts `renew_deadline` from the
//! time *before* it sent the successful request. All others count the longer `lease_duration` from the time *after*
//! they saw the lease change. Regardless of the delays in between, the holder's time ends first. A time in a Lease is
//! never compared with a local clock: wall clocks may differ arbitrarily. Only the *rates* of two clocks matter, and
//! they may differ by `lease_duration / renew_deadline` (by default, a factor of 1.5).
//!
//! The holder is checked at the time of each write ([`Leadership::check`], and [`Shard::owns`] with the key that is
//! being reconciled), and the result is computed from the clock at that time, not by a timer. A process that was
//! stopped past the end of its lease rejects its very next write. A write that passed the check must reach the API
//! server within `lease_duration - renew_deadline` (5 s) to be certain to arrive before the write of any other process.
//! (Keys that are handed over by agreement have [less time](Sharding#writes-in-flight).)
//!
//! # Clocks
//!
//! The clock is that of [`tokio::time::Instant`], which is `CLOCK_MONOTONIC` on Linux. It advances while a process is
//! stopped (`SIGSTOP`, a frozen cgroup, a starved CPU), but not while the machine is suspended. On Linux, the time of
//! suspension is read and added. A virtual machine that is frozen from outside together with all of its clocks cannot
//! notice that by itself; only the optimistic concurrency of the API server protects its writes.

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
