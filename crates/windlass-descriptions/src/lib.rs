//! Descriptions of the kinds of Kubernetes and their fields.
#![doc = include_str!("../README.md")]

use std::io::Read;
use std::ops::Range;

use flate2::read::ZlibDecoder;

#[cfg(test)]
mod tests;

static FILE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions.bin"));

/// Returns the compressed descriptions, which identify their contents.
pub fn file() -> &'static [u8] {
    FILE
}

/// Descriptions of schemas and their properties, by the schemas' names in OpenAPI.
#[derive(Debug)]
pub struct Descriptions {
    /// Lines of schemas, and descriptions, as written by the build script.
    text: String,
    /// The lines of schemas, sorted by name.
    schemas: Vec<Range<usize>>,
    /// The descriptions, by number.
    texts: Vec<Range<usize>>,
}

impl Descriptions {
    /// Inflates the descriptions: 0.6 MB.
    pub fn inflate() -> Self {
        let mut text = String::new();
        ZlibDecoder::new(FILE).read_to_string(&mut text).expect("the embedded table must be readable");
        let end = text.find("\n\n").map_or(0, |end| end + 1);
        let schemas = pieces(&text[..end], "\n", 0);
        let texts = pieces(&text[end..], "\0", end);
        Self { text, schemas, texts }
    }

    /// Returns the description of a schema.
    pub fn schema(&self, name: &str) -> Option<&str> {
        self.words(name)?.next().and_then(|number| self.description(number))
    }

    /// Returns the description of a property.
    pub fn property(&self, schema: &str, property: &str) -> Option<&str> {
        let mut words = self.words(schema)?.skip(1);
        while let (Some(name), Some(number)) = (words.next(), words.next()) {
            if name == property {
                return self.description(number);
            }
        }
        None
    }

    /// Returns the names of all schemas.
    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        let lines = self.schemas.iter().map(|line| &self.text[line.clone()]);
        lines.map(|line| line.split('\t').next().unwrap_or_default())
    }

    /// Returns the words of a schema after its name.
    fn words(&self, schema: &str) -> Option<impl Iterator<Item = &str>> {
        let words = |line: &Range<usize>| self.text[line.clone()].split('\t');
        let place = self.schemas.binary_search_by(|line| words(line).next().unwrap_or_default().cmp(schema)).ok()?;
        Some(words(&self.schemas[place]).skip(1))
    }

    fn description(&self, number: &str) -> Option<&str> {
        let text = self.texts.get(number.parse::<usize>().ok()?)?;
        Some(&self.text[text.clone()]).filter(|text| !text.trim().is_empty())
    }
}

/// Returns the places of the pieces of a text that begins at `start`.
fn pieces(text: &str, separator: &str, start: usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut from = start;
    for piece in text.split(separator).filter(|piece| !piece.is_empty()) {
        pieces.push(from..from + piece.len());
        from += piece.len() + separator.len();
    }
    pieces
}
