//! Resource types.

pub mod imooc_pod;
