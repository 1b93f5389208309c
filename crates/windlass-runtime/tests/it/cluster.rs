//! An API server for a test.

pub(crate) use windlass_testing::{TestCluster, eventually, skip_on_cluster};
