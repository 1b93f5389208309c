//! Both backends run the conformance suite; the embedded one also goes through every kind of crash.

mod compaction;
mod conformance;
mod disk;
mod formats;
mod io_errors;
mod kill;
mod ledger;
mod model;
mod opening;
mod packing;
mod power_cut;
mod quota;
mod random;
mod snapshots;
