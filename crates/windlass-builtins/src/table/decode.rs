//! Decoding of the table's file.

use std::io::Read as _;

use windlass_schema::types::{Field, Inline, PatchStrategy, Str, Struct, StructId, Topology, Type, TypeTable};

use super::{LIST, MAP, SCALARS, STRUCT, flag};
use crate::resource::{Group, Kind, Resource, Subresource, Table};
use crate::verb::Verb;

/// Reasons why a table could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file is not a zlib stream.
    #[error("failed to inflate the table")]
    Inflate(#[source] std::io::Error),
    /// A default value is not JSON.
    #[error("failed to parse a default value")]
    Default(#[source] serde_json::Error),
    /// The file ends early, or points outside of itself.
    #[error("the table is damaged at byte {0}")]
    Damaged(usize),
}

/// Decodes a table's file. The inflated bytes (a few hundred KB) are never freed because names borrow from them.
pub fn decode(file: &[u8]) -> Result<Table, TableError> {
    let mut inflated = Vec::with_capacity(file.len() * 4);
    flate2::read::ZlibDecoder::new(file).read_to_end(&mut inflated).map_err(TableError::Inflate)?;
    let mut reader = Reader { bytes: Box::leak(inflated.into_boxed_slice()), at: 0, strings: Vec::new() };
    reader.pool()?;
    let structs = reader.list(Reader::structure)?;
    let groups = reader.list(Reader::group)?;
    let resources = reader.list(Reader::resource)?;
    let kinds = reader.list(Reader::kind)?;
    let count = structs.len() as u32;
    let table = Table { types: TypeTable { structs }, groups, resources, kinds };
    if reader.at != reader.bytes.len() || !all_ids(&table).all(|id| id.0 < count) {
        return reader.damaged();
    }
    Ok(table)
}

fn all_ids(table: &Table) -> impl Iterator<Item = StructId> {
    let fields = table.types.structs.iter().flat_map(|structure| &structure.fields);
    let bodies = table.resources.iter().flat_map(|resource| &resource.subresources).filter_map(|sub| sub.ty);
    fields
        .filter_map(|field| innermost(&field.ty))
        .chain(table.resources.iter().map(|resource| resource.ty))
        .chain(bodies)
        .chain(table.kinds.iter().map(|kind| kind.ty))
}

fn innermost(ty: &Type) -> Option<StructId> {
    match ty {
        Type::Struct(id) => Some(*id),
        Type::List(element) | Type::Map(element) => innermost(element),
        Type::Scalar(_) => None,
    }
}

struct Reader {
    bytes: &'static [u8],
    at: usize,
    strings: Vec<&'static str>,
}

impl Reader {
    fn damaged<T>(&self) -> Result<T, TableError> {
        Err(TableError::Damaged(self.at))
    }

    fn number(&mut self) -> Result<u32, TableError> {
        let mut value = 0;
        for shift in (0..32).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else { return self.damaged() };
            self.at += 1;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        self.damaged()
    }

    /// Reads a count of records, each of which takes at least one byte.
    fn count(&mut self) -> Result<usize, TableError> {
        let count = self.number()? as usize;
        if count > self.bytes.len() - self.at { self.damaged() } else { Ok(count) }
    }

    fn list<T>(&mut self, one: impl Fn(&mut Self) -> Result<T, TableError>) -> Result<Vec<T>, TableError> {
        let count = self.count()?;
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(one(self)?);
        }
        Ok(list)
    }

    fn pool(&mut self) -> Result<(), TableError> {
        let lengths = self.list(Self::number)?;
        let total: usize = lengths.iter().map(|length| *length as usize).sum();
        let bytes = self.bytes.get(self.at..).and_then(|rest| rest.get(..total));
        let Some(mut text) = bytes.and_then(|bytes| str::from_utf8(bytes).ok()) else { return self.damaged() };
        for length in lengths {
            let Some((string, rest)) = text.split_at_checked(length as usize) else { return self.damaged() };
            self.strings.push(string);
            text = rest;
        }
        self.at += total;
        Ok(())
    }

    fn text(&mut self) -> Result<&'static str, TableError> {
        let number = self.number()? as usize;
        match self.strings.get(number) {
            Some(string) => Ok(string),
            None => self.damaged(),
        }
    }

    fn string(&mut self) -> Result<Str, TableError> {
        self.text().map(Str::Borrowed)
    }

    fn strings(&mut self) -> Result<Vec<Str>, TableError> {
        self.list(Self::string)
    }

    fn verb(&mut self) -> Result<Verb, TableError> {
        match Verb::from_name(self.text()?) {
            Some(verb) => Ok(verb),
            None => self.damaged(),
        }
    }

    fn id(&mut self) -> Result<StructId, TableError> {
        self.number().map(StructId)
    }

    fn structure(&mut self) -> Result<Struct, TableError> {
        let structure = Struct {
            name: self.string()?,
            go_name: self.string()?,
            atomic: self.number()? != 0,
            inlines: self.list(|reader| {
                Ok(Inline { proto: reader.number()?, start: reader.number()?, end: reader.number()? })
            })?,
            fields: self.list(Self::field)?,
        };
        let fits = |inline: &Inline| inline.start <= inline.end && inline.end as usize <= structure.fields.len();
        if structure.inlines.iter().all(fits) { Ok(structure) } else { self.damaged() }
    }

    fn field(&mut self) -> Result<Field, TableError> {
        let name = self.string()?;
        let ty = self.ty()?;
        let go_type = self.string()?;
        let proto = self.number()?;
        let flags = self.number()?;
        let has = |bit| flags & bit != 0;
        let topology = if has(flag::ATOMIC) {
            Topology::Atomic
        } else if has(flag::SET) {
            Topology::Set
        } else if has(flag::GRANULAR) {
            Topology::Granular
        } else if has(flag::MAP_LIST) {
            Topology::Map(self.strings()?)
        } else {
            Topology::Default
        };
        let merge_key = if has(flag::MERGE_KEY) { Some(self.string()?) } else { None };
        let default = if has(flag::DEFAULT) {
            Some(serde_json::from_str(self.text()?).map_err(TableError::Default)?)
        } else {
            None
        };
        let format = if has(flag::FORMAT) { Some(self.string()?) } else { None };
        Ok(Field {
            name,
            ty,
            go_type,
            proto,
            omit_empty: has(flag::OMIT_EMPTY),
            pointer: has(flag::POINTER),
            required: has(flag::REQUIRED),
            default,
            topology,
            patch: PatchStrategy {
                merge: has(flag::MERGE),
                retain_keys: has(flag::RETAIN_KEYS),
                replace: has(flag::REPLACE),
                merge_key,
            },
            format,
        })
    }

    fn ty(&mut self) -> Result<Type, TableError> {
        // Iterative, so that a damaged file cannot exhaust the stack.
        let mut wrappers = Vec::new();
        let mut ty = loop {
            match self.number()? {
                wrapper @ (LIST | MAP) => wrappers.push(wrapper),
                number if number >= STRUCT => break Type::Struct(StructId(number - STRUCT)),
                number => break Type::Scalar(SCALARS[number as usize]),
            }
        };
        while let Some(wrapper) = wrappers.pop() {
            ty = if wrapper == LIST { Type::List(Box::new(ty)) } else { Type::Map(Box::new(ty)) };
        }
        Ok(ty)
    }

    fn group(&mut self) -> Result<Group, TableError> {
        Ok(Group { name: self.string()?, versions: self.strings()? })
    }

    fn resource(&mut self) -> Result<Resource, TableError> {
        Ok(Resource {
            group: self.string()?,
            version: self.string()?,
            plural: self.string()?,
            singular: self.string()?,
            kind: self.string()?,
            short_names: self.strings()?,
            categories: self.strings()?,
            namespaced: self.number()? != 0,
            verbs: self.list(Self::verb)?,
            storage_version_hash: self.string()?,
            deletion_returns_object: self.number()? != 0,
            ty: self.id()?,
            subresources: self.list(Self::subresource)?,
        })
    }

    fn subresource(&mut self) -> Result<Subresource, TableError> {
        Ok(Subresource {
            name: self.string()?,
            group: self.string()?,
            version: self.string()?,
            kind: self.string()?,
            verbs: self.list(Self::verb)?,
            ty: self.number()?.checked_sub(1).map(StructId),
        })
    }

    fn kind(&mut self) -> Result<Kind, TableError> {
        Ok(Kind { group: self.string()?, version: self.string()?, kind: self.string()?, ty: self.id()? })
    }
}
