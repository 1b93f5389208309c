//! Schemas of Kubernetes objects: the structure of built-in types and custom resources, and validation against them.
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
pub mod sorting;
pub mod structural;
pub mod time;
pub mod types;
pub mod yaml;
