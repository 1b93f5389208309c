//! No code: the features that this crate enables are in its manifest.
