//! Patches on JSON values: JSON patch (RFC 6902), merge patch (RFC 7386) and strategic merge patch, with the behavior
//! of kube-apiserver. Server-side apply is in [`apply`].
//!
//! Pure: no tokio, no network, no disk. Every function needs bounded time and stack for any input: bodies nested deeper
//! than [`MAX_DEPTH`] are rejected, and so is a patch that would produce such an object.

pub mod apply;
pub mod decode;
mod depth;
pub mod json_patch;
pub mod merge_patch;
pub mod strategic;

pub use depth::MAX_DEPTH;
pub use windlass_schema::go_format;
