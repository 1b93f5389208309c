//! Code shared by the benchmarks: servers as child processes, the windlass program, tables.

pub mod child;
pub mod program;
pub mod table;
