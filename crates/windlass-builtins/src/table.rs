//! The generated table of built-in types and resources.
//!
//! `data/builtins.bin` is written by `cargo xtask builtins`: a zlib stream of one pool of strings, followed by records
//! of variable-length numbers that point into it. [`table`] reads it once, on first use; every name in the result
//! borrows from the one inflated buffer, which lives as long as the process.

use std::sync::OnceLock;

use windlass_schema::structural::ObjectMetaType;
use windlass_schema::types::StructId;

use crate::resource::Table;

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub use decode::{TableError, decode};
pub use encode::encode;

static FILE: &[u8] = include_bytes!("../data/builtins.bin");

/// The table of the stable built-in resources, read on first use.
pub fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| decode(FILE).expect("the checked-in table must be readable"))
}

/// The type of metadata in that table.
pub fn object_meta() -> ObjectMetaType<'static> {
    static ID: OnceLock<StructId> = OnceLock::new();
    let types = &table().types;
    let id = ID.get_or_init(|| {
        let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        let at = types.structs.iter().position(|have| have.name == name);
        StructId(at.and_then(|at| at.try_into().ok()).expect("the table must have ObjectMeta"))
    });
    ObjectMetaType { table: types, id: *id }
}

/// The bytes of the checked-in file.
pub fn file() -> &'static [u8] {
    FILE
}

/// What each scalar's number is in the file: its position here.
const SCALARS: [windlass_schema::types::Scalar; 14] = {
    use windlass_schema::types::Scalar::*;
    [
        String,
        Bool,
        Int32,
        Int64,
        Float64,
        Bytes,
        Quantity,
        IntOrString,
        Time,
        MicroTime,
        Duration,
        RawExtension,
        FieldsV1,
        Json,
    ]
};

/// The number of a list type, followed by the element's.
const LIST: u32 = 14;
/// The number of a map type, followed by the value's.
const MAP: u32 = 15;
/// Struct n has the number n + STRUCT.
const STRUCT: u32 = 16;

/// The bits of a field's flags.
mod flag {
    pub(super) const OMIT_EMPTY: u32 = 1;
    pub(super) const POINTER: u32 = 1 << 1;
    pub(super) const REQUIRED: u32 = 1 << 2;
    pub(super) const MERGE: u32 = 1 << 3;
    pub(super) const RETAIN_KEYS: u32 = 1 << 4;
    pub(super) const MERGE_KEY: u32 = 1 << 5;
    pub(super) const DEFAULT: u32 = 1 << 6;
    pub(super) const FORMAT: u32 = 1 << 7;
    pub(super) const ATOMIC: u32 = 1 << 8;
    pub(super) const SET: u32 = 1 << 9;
    pub(super) const MAP_LIST: u32 = 1 << 10;
    pub(super) const GRANULAR: u32 = 1 << 11;
    pub(super) const REPLACE: u32 = 1 << 12;
}
