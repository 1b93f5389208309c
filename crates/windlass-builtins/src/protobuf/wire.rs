//! Protobuf's wire format: varints, tags and lengths.

use super::ProtobufError;

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// The payload of a field on the wire.
#[derive(Debug, Clone, Copy)]
pub(super) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    /// A wire type that no Kubernetes message uses.
    Other(u8),
}

impl Payload<'_> {
    pub(super) fn wire_type(self) -> u8 {
        match self {
            Self::Varint(_) => VARINT,
            Self::Fixed64(_) => FIXED64,
            Self::Bytes(_) => BYTES,
            Self::Other(wire_type) => wire_type,
        }
    }
}

/// Reads the fields of a message one after the other.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Returns the next field's number and payload; `None` at the end of the message.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = self.tag()?;
        Ok(Some((number, self.payload(number, wire_type)?)))
    }

    pub(super) fn at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn tag(&mut self) -> Result<(u32, u8), ProtobufError> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| ProtobufError::Malformed)?;
        if number == 0 { Err(ProtobufError::Malformed) } else { Ok((number, (tag & 7) as u8)) }
    }

    fn payload(&mut self, number: u32, wire_type: u8) -> Result<Payload<'a>, ProtobufError> {
        match wire_type {
            VARINT => self.varint().map(Payload::Varint),
            FIXED64 => {
                let bytes = self.take(8)?.try_into().expect("eight bytes were taken");
                Ok(Payload::Fixed64(u64::from_le_bytes(bytes)))
            }
            BYTES => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Malformed)?;
                self.take(length).map(Payload::Bytes)
            }
            START_GROUP => {
                self.skip_group(number)?;
                Ok(Payload::Other(START_GROUP))
            }
            FIXED32 => {
                self.take(4)?;
                Ok(Payload::Other(FIXED32))
            }
            _ => Err(ProtobufError::Malformed),
        }
    }

    fn skip_group(&mut self, number: u32) -> Result<(), ProtobufError> {
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            let (number, wire_type) = self.tag()?;
            match wire_type {
                START_GROUP => open.push(number),
                END_GROUP if number == innermost => {
                    open.pop();
                }
                _ => {
                    self.payload(number, wire_type)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(ProtobufError::UnexpectedEnd)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Malformed)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// Writes a varint field.
pub(crate) fn put_varint(into: &mut Vec<u8>, number: u32, value: u64) {
    varint(into, u64::from(number) << 3 | u64::from(VARINT));
    varint(into, value);
}

/// Writes a field of eight bytes.
pub(crate) fn put_fixed64(into: &mut Vec<u8>, number: u32, value: u64) {
    varint(into, u64::from(number) << 3 | u64::from(FIXED64));
    into.extend_from_slice(&value.to_le_bytes());
}

/// Writes a string, bytes or an encoded message.
pub(crate) fn put_bytes(into: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    varint(into, u64::from(number) << 3 | u64::from(BYTES));
    varint(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}
