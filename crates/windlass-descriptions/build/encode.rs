//! The table as embedded: a zlib stream of text.
//!
//! A line per schema, sorted by name: its name, the number of its description, then names of properties, each followed
//! by the number of its description, all separated by tabs. After an empty line, the descriptions, without duplicates and
//! separated by NUL. Number 0 is the empty description.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use flate2::{Compression, write::ZlibEncoder};

use super::read::Schema;

/// Encodes descriptions.
pub(crate) fn encode(mut schemas: Vec<Schema>) -> io::Result<Vec<u8>> {
    schemas.sort_by(|a, b| a.name.cmp(&b.name));
    let (mut lines, mut texts) = (String::new(), Vec::new());
    let mut numbers = HashMap::from([(String::new(), 0)]);
    let mut number = |text: String| {
        let next = numbers.len();
        *numbers.entry(text).or_insert_with_key(|text| {
            texts.push(text.clone());
            next
        })
    };
    for schema in schemas {
        lines.push_str(&format!("{}\t{}", schema.name, number(schema.description)));
        for (property, text) in schema.properties {
            lines.push_str(&format!("\t{property}\t{}", number(text)));
        }
        lines.push('\n');
    }
    let mut file = ZlibEncoder::new(Vec::new(), Compression::best());
    file.write_all(lines.as_bytes())?;
    for text in std::iter::once("\n").chain(texts.iter().flat_map(|text| ["\0", text])) {
        file.write_all(text.as_bytes())?;
    }
    file.finish()
}
