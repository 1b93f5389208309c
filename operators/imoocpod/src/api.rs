//! Resource types, one module per kind.

pub mod imooc_pod;
