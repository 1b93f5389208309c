//! The generated table of built-in types and resources.
//!
//! `data/builtins.bin` is written by `cargo xtask builtins`: a zlib stream of one string pool, followed by records of
//! variable-length numbers that point into it. [`table`] decodes it once, on first use; all names in the result borrow
//! from the inflated buffer, which is never freed. `data/unstable.bin` has the resources that have no stable version;
//! [`unstable`] decodes it.

use std::sync::OnceLock;

use windlass_schema::structural::ObjectMetaType;
use windlass_schema::types::StructId;

use crate::resource::Table;

mod decode;
mod encode;
mod extend;
#[cfg(test)]
mod tests;

pub use decode::{TableError, decode};
pub use encode::encode;

static FILE: &[u8] = include_bytes!("../data/builtins.bin");
static UNSTABLE_FILE: &[u8] = include_bytes!("../data/unstable.bin");

/// Returns the table of the stable built-in resources, decoded on first use.
pub fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| decode(FILE).expect("the checked-in table must be readable"))
}

/// Returns the table of the resources without a stable version, decoded on first use.
/// [`Table::extend`](crate::resource::Table::extend) adds them to another table.
pub fn unstable() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| decode(UNSTABLE_FILE).expect("the checked-in table must be readable"))
}

/// Returns the type of `metadata` in the table.
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

/// Returns the bytes of the checked-in file.
pub fn file() -> &'static [u8] {
    FILE
}

/// Returns the bytes of the checked-in file of [`unstable`].
pub fn unstable_file() -> &'static [u8] {
    UNSTABLE_FILE
}

/// The scalars, at the position that is their number in the file.
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

/// Number of a list type; the number of its item type follows.
const LIST: u32 = 14;
/// Number of a map type; the number of its value type follows.
const MAP: u32 = 15;
/// Struct n has the number n + STRUCT.
const STRUCT: u32 = 16;

/// Bits of a field's flags.
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
