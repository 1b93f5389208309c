//! What the benchmarks have in common: servers as child processes, the windlass program, tables.

pub mod child;
pub mod program;
pub mod table;
