//! Encoding of the table's file, for `xtask` and tests only.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use windlass_schema::sorting::Gather as _;
use windlass_schema::types::{Field, Scalar, Str, Struct, Topology, Type};

use super::{LIST, MAP, SCALARS, STRUCT, flag};
use crate::resource::{Resource, Subresource, Table};
use crate::verb::Verb;

/// Encodes a table for [`decode`](super::decode). The same table always yields the same bytes.
pub fn encode(table: &Table) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.list(&table.types.structs, Writer::structure);
    writer.list(&table.groups, |writer, group| {
        writer.string(&group.name);
        writer.strings(&group.versions);
    });
    writer.list(&table.resources, Writer::resource);
    writer.list(&table.kinds, |writer, kind| {
        writer.string(&kind.group);
        writer.string(&kind.version);
        writer.string(&kind.kind);
        writer.number(kind.ty.0);
    });
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&writer.finish()).expect("a Vec must take all bytes");
    encoder.finish().expect("a Vec must take all bytes")
}

/// Records refer to strings by the order of their first use. The final pool puts frequent strings first, so that most
/// references take one byte, and sorts the others, which compresses better.
#[derive(Default)]
struct Writer {
    tokens: Vec<Token>,
    uses: HashMap<String, usize>,
    order: Vec<String>,
}

enum Token {
    Number(u32),
    String(usize),
}

impl Writer {
    fn number(&mut self, number: u32) {
        self.tokens.push(Token::Number(number));
    }

    fn string(&mut self, string: &str) {
        let next = self.order.len();
        let position = *self.uses.entry(string.to_owned()).or_insert(next);
        if position == next {
            self.order.push(string.to_owned());
        }
        self.tokens.push(Token::String(position));
    }

    fn list<T>(&mut self, list: &[T], one: impl Fn(&mut Self, &T)) {
        self.number(u32::try_from(list.len()).expect("a list must be short"));
        for item in list {
            one(self, item);
        }
    }

    fn verbs(&mut self, list: &[Verb]) {
        self.list(list, |writer, verb| writer.string(verb.as_str()));
    }

    fn strings(&mut self, list: &[Str]) {
        self.list(list, |writer, string| writer.string(string));
    }

    fn structure(&mut self, structure: &Struct) {
        self.string(&structure.name);
        self.string(&structure.go_name);
        self.number(u32::from(structure.atomic));
        self.list(&structure.inlines, |writer, inline| {
            writer.number(inline.proto);
            writer.number(inline.start);
            writer.number(inline.end);
        });
        self.list(&structure.fields, Self::field);
    }

    fn field(&mut self, field: &Field) {
        self.string(&field.name);
        self.ty(&field.ty);
        self.string(&field.go_type);
        self.number(field.proto);
        let bits = [
            (field.omit_empty, flag::OMIT_EMPTY),
            (field.pointer, flag::POINTER),
            (field.required, flag::REQUIRED),
            (field.patch.merge, flag::MERGE),
            (field.patch.retain_keys, flag::RETAIN_KEYS),
            (field.patch.replace, flag::REPLACE),
            (field.patch.merge_key.is_some(), flag::MERGE_KEY),
            (field.default.is_some(), flag::DEFAULT),
            (field.format.is_some(), flag::FORMAT),
            (field.topology == Topology::Atomic, flag::ATOMIC),
            (field.topology == Topology::Set, flag::SET),
            (field.topology == Topology::Granular, flag::GRANULAR),
            (matches!(field.topology, Topology::Map(_)), flag::MAP_LIST),
        ];
        self.number(bits.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum());
        if let Topology::Map(keys) = &field.topology {
            self.strings(keys);
        }
        if let Some(key) = &field.patch.merge_key {
            self.string(key);
        }
        if let Some(default) = &field.default {
            self.string(&default.to_string());
        }
        if let Some(format) = &field.format {
            self.string(format);
        }
    }

    fn ty(&mut self, ty: &Type) {
        match ty {
            Type::Struct(id) => self.number(id.0 + STRUCT),
            Type::List(element) => {
                self.number(LIST);
                self.ty(element);
            }
            Type::Map(value) => {
                self.number(MAP);
                self.ty(value);
            }
            Type::Scalar(scalar) => self.number(scalar_number(*scalar)),
        }
    }

    fn resource(&mut self, resource: &Resource) {
        self.string(&resource.group);
        self.string(&resource.version);
        self.string(&resource.plural);
        self.string(&resource.singular);
        self.string(&resource.kind);
        self.strings(&resource.short_names);
        self.strings(&resource.categories);
        self.number(u32::from(resource.namespaced));
        self.verbs(&resource.verbs);
        self.string(&resource.storage_version_hash);
        self.number(u32::from(resource.deletion_returns_object));
        self.number(resource.ty.0);
        self.list(&resource.subresources, Self::subresource);
    }

    fn subresource(&mut self, subresource: &Subresource) {
        self.string(&subresource.name);
        self.string(&subresource.group);
        self.string(&subresource.version);
        self.string(&subresource.kind);
        self.verbs(&subresource.verbs);
        self.number(subresource.ty.map_or(0, |id| id.0 + 1));
    }

    fn finish(self) -> Vec<u8> {
        let mut counts = vec![0usize; self.order.len()];
        for token in &self.tokens {
            if let Token::String(position) = token {
                counts[*position] += 1;
            }
        }
        let mut pool: Vec<usize> = (0..self.order.len()).collect();
        pool.sort_by(|&a, &b| {
            let frequent = |position: usize| if counts[position] > 15 { counts[position] } else { 0 };
            frequent(b).cmp(&frequent(a)).then_with(|| self.order[a].cmp(&self.order[b]))
        });
        let places: BTreeMap<usize, u32> = pool.iter().copied().zip(0..).gather();
        let mut bytes = Vec::new();
        put(&mut bytes, pool.len() as u32);
        for &position in &pool {
            put(&mut bytes, self.order[position].len() as u32);
        }
        for &position in &pool {
            bytes.extend_from_slice(self.order[position].as_bytes());
        }
        for token in &self.tokens {
            match token {
                Token::Number(number) => put(&mut bytes, *number),
                Token::String(position) => put(&mut bytes, places[position]),
            }
        }
        bytes
    }
}

fn scalar_number(scalar: Scalar) -> u32 {
    let position = SCALARS.iter().position(|have| *have == scalar).expect("SCALARS must name every scalar");
    position as u32
}

fn put(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
