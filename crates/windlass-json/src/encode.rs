//! JSON serialization: floats as in Go, and objects with their identifying fields first.

use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// Formats a float like Go's encoder: whole numbers without a point, an exponent from 22 digits on.
pub fn format_float(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        return match text.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => format!("{mantissa}e+{exponent:0>2}"),
            Some((mantissa, exponent)) => format!("{mantissa}e{exponent}"),
            None => text,
        };
    }
    value.to_string()
}

struct GoFloats<F>(F);

impl<F: Formatter> Formatter for GoFloats<F> {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(format_float(value).as_bytes())
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

fn write_into(out: &mut Vec<u8>, value: &impl Serialize) {
    let mut serializer = Serializer::with_formatter(out, GoFloats(CompactFormatter));
    value.serialize(&mut serializer).expect("a JSON value must serialize into memory");
}

/// Serializes a value.
pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    write_into(&mut out, value);
    out
}

/// Serializes a value, indented by two spaces.
pub fn encode_pretty(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    let mut serializer = Serializer::with_formatter(&mut out, GoFloats(PrettyFormatter::new()));
    value.serialize(&mut serializer).expect("a JSON value must serialize into memory");
    out
}

/// Serializes an object with `kind`, `apiVersion` and `metadata` first and the other fields in order.
pub fn encode_object(value: &Value) -> Vec<u8> {
    const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];
    let Some(map) = value.as_object() else { return encode(value) };
    let mut out = Vec::with_capacity(2048);
    let head = FIRST.into_iter().filter_map(|key| map.get(key).map(|value| (key, value)));
    let tail = map.iter().map(|(key, value)| (key.as_str(), value)).filter(|(key, _)| !FIRST.contains(key));
    out.push(b'{');
    for (key, value) in head.chain(tail) {
        if out.len() > 1 {
            out.push(b',');
        }
        write_into(&mut out, &key);
        out.push(b':');
        write_into(&mut out, value);
    }
    out.push(b'}');
    out
}
