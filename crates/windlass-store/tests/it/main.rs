//! Both backends run the conformance suite; the embedded one is crashed in every way as well.

mod compaction;
mod conformance;
mod disk;
mod io_errors;
mod kill;
mod ledger;
mod model;
mod opening;
mod power_cut;
mod random;
