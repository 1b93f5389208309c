//! Patches on JSON values: JSON patch (RFC 6902), merge patch (RFC 7386) and strategic merge patch, as the real API
//! server applies them; server-side apply in [`apply`].
//!
//! Pure: no tokio, no network, no disk. Every function returns in bounded time and stack for any bytes: bodies nested
//! deeper than [`MAX_DEPTH`] are refused, and so is a patch that would build such an object.

pub mod apply;
pub mod decode;
mod depth;
pub mod json_patch;
pub mod merge_patch;
pub mod strategic;

pub use depth::MAX_DEPTH;
pub use windlass_schema::go_format;
