//! A list that arrives in pieces.
//!
//! A server that responds from memory sends a whole list at once, regardless of the limit: 180 MB for 100,000 objects.
//! So a list is parsed while it arrives: each object is parsed as soon as it is complete, and its bytes are dropped.
//! Only one piece and the object that its end cuts in two are held.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use serde::{Deserialize, de::IgnoredAny};

use super::{DecodeError, Decoder, Lenient, Unreadable, lines::join};

/// Metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ListMeta {
    pub(crate) resource_version: String,
    pub(crate) r#continue: String,
}

/// A list that is being read.
pub(crate) struct ListBody<'a, K: ?Sized> {
    decoder: &'a Decoder<K>,
    held: Bytes,
    /// Number of bytes before the next attempt to parse: an object of many pieces must not be parsed again with each of
    /// them.
    enough: usize,
    /// Whether the last piece has arrived.
    whole: bool,
    place: Place,
    meta: ListMeta,
    /// Whether there was a field `items`. Without it, this is not a list, and must not be mistaken for an empty one.
    items: bool,
}

/// Result of a parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to parse.
    More,
    /// Everything received is parsed.
    Hungry,
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    Start,
    Key,
    Value(String),
    Items,
    End,
}

impl<'a, K: ?Sized> ListBody<'a, K> {
    pub(crate) fn new(decoder: &'a Decoder<K>) -> Self {
        Self {
            decoder,
            held: Bytes::new(),
            enough: 0,
            whole: false,
            place: Place::Start,
            meta: ListMeta::default(),
            items: false,
        }
    }

    /// Adds the next piece.
    pub(crate) fn feed(&mut self, piece: Bytes) {
        self.held = join(std::mem::take(&mut self.held), piece);
    }

    /// Ends the input.
    pub(crate) fn end(&mut self) {
        self.whole = true;
        self.enough = 0;
    }

    /// Returns whether the last piece has arrived.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Parses at least `budget` bytes of the input, if there are as many. Passes objects to `listed`, with
    /// their text, and unreadable ones to `skipped`.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a list.
    pub(crate) fn parse(
        &mut self,
        budget: usize,
        listed: &mut impl FnMut(Arc<K>, &[u8]),
        skipped: &mut impl FnMut(Unreadable),
    ) -> Result<Progress, DecodeError> {
        if self.held.len() < self.enough {
            return Ok(Progress::Hungry);
        }
        let stop = self.held.len().saturating_sub(budget);
        while self.step(listed, skipped)? {
            if self.held.len() < stop {
                return Ok(Progress::More);
            }
        }
        self.enough = self.held.len() * 2;
        Ok(Progress::Hungry)
    }

    /// Returns the metadata of the list, when all of it has been parsed.
    ///
    /// # Errors
    ///
    /// Returns an error if the list is incomplete.
    pub(crate) fn finish(self) -> Result<ListMeta, DecodeError> {
        match self {
            Self { place: Place::End, items: true, meta, .. } => Ok(meta),
            Self { place: Place::End, .. } => Err(unexpected()),
            _ => Err(DecodeError::Cut),
        }
    }

    /// Does one step; returns false if it needs more data.
    fn step(
        &mut self,
        listed: &mut impl FnMut(Arc<K>, &[u8]),
        skipped: &mut impl FnMut(Unreadable),
    ) -> Result<bool, DecodeError> {
        let blank = |byte: &u8| byte.is_ascii_whitespace();
        let blanks = self.held.iter().take_while(|byte| blank(byte)).count();
        self.held.advance(blanks);
        let Some(&next) = self.held.first() else { return Ok(false) };
        match (&mut self.place, next) {
            (Place::Start, b'{') => {
                self.held.advance(1);
                self.place = Place::Key;
            }
            (Place::Key, b'}') => {
                self.held.advance(1);
                self.place = Place::End;
            }
            (Place::Key | Place::Items, b',') | (Place::Value(_), b':') => self.held.advance(1),
            (Place::Key, _) => match self.value()? {
                Some(key) => self.place = Place::Value(key),
                None => return Ok(false),
            },
            (Place::Value(key), b'[') if key == "items" => {
                self.held.advance(1);
                (self.items, self.place) = (true, Place::Items);
            }
            (Place::Value(key), _) if key == "metadata" => match self.value()? {
                Some(meta) => (self.meta, self.place) = (meta, Place::Key),
                None => return Ok(false),
            },
            (Place::Value(key), _) => {
                let none = key == "items" && next == b'n';
                if self.value::<IgnoredAny>()?.is_none() {
                    return Ok(false);
                }
                self.items |= none;
                self.place = Place::Key;
            }
            (Place::Items, b']') => {
                self.held.advance(1);
                self.place = Place::Key;
            }
            (Place::Items, _) => return self.item(listed, skipped),
            (Place::Start | Place::End, _) => return Err(unexpected()),
        }
        Ok(true)
    }

    fn item(
        &mut self,
        listed: &mut impl FnMut(Arc<K>, &[u8]),
        skipped: &mut impl FnMut(Unreadable),
    ) -> Result<bool, DecodeError> {
        let mut parser = serde_json::Deserializer::from_slice(&self.held);
        let error = match self.decoder.parse(&mut parser) {
            Ok(object) => {
                let length = parser.into_iter::<IgnoredAny>().byte_offset();
                listed(object, &self.held[..length]);
                self.held.advance(length);
                return Ok(true);
            }
            Err(error) if error.is_eof() && !self.whole => return Ok(false),
            Err(error) => error,
        };
        // It must be valid JSON; otherwise, the start of the next object is unknown.
        let item = self.held.clone();
        if self.value::<IgnoredAny>()?.is_none() {
            return Ok(false);
        }
        let item = &item[..item.len() - self.held.len()];
        skipped(Unreadable::new(serde_json::from_slice::<Lenient>(item).unwrap_or_default(), &error));
        Ok(true)
    }

    /// Parses the next JSON value; returns `None` if it is incomplete.
    fn value<T: for<'de> Deserialize<'de>>(&mut self) -> Result<Option<T>, DecodeError> {
        let mut parser = serde_json::Deserializer::from_slice(&self.held);
        match T::deserialize(&mut parser) {
            Ok(value) => {
                let length = parser.into_iter::<IgnoredAny>().byte_offset();
                // A number may continue in the next piece.
                if length == self.held.len() && !self.whole && self.held[length - 1].is_ascii_digit() {
                    return Ok(None);
                }
                self.held.advance(length);
                Ok(Some(value))
            }
            Err(error) if error.is_eof() => {
                if self.whole {
                    return Err(DecodeError::Cut);
                }
                Ok(None)
            }
            Err(error) => Err(DecodeError::List((&error).into())),
        }
    }
}

fn unexpected() -> DecodeError {
    let error = <serde_json::Error as serde::de::Error>::custom("not a list");
    DecodeError::List((&error).into())
}
