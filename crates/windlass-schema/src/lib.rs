//! Schemas of Kubernetes objects: the shape of built-in types, and what it means for a body to fit one.
//!
//! Pure: no tokio, no network, no disk.

pub mod cron;
pub mod decode;
pub mod field;
pub mod formats;
pub mod go_format;
pub mod go_regex;
pub mod go_url;
pub mod json;
pub mod json_path;
pub mod label_selector;
pub mod names;
pub mod object_meta;
pub mod printer;
pub mod quantity;
pub mod selector;
pub mod structural;
pub mod time;
pub mod types;
pub mod yaml;
