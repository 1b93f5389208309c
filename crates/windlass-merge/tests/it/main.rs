//! Tests of patches through the public API: strategic merge on types like those of the built-in kinds, and properties
//! that hold for any input.

mod model;
mod ownership;
mod properties;
mod strategic;
mod types;
