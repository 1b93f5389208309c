//! Signatures written as text: `string.(int) -> list(string)`, with a capital letter for a type parameter.

use std::sync::Arc;

use super::Overload;
use crate::types::Type;

/// Parses a signature.
///
/// # Panics
/// Panics if the string is invalid: the tables are constant, and a test parses all of them.
pub(super) fn overload(id: &'static str, text: &'static str) -> Overload {
    let mut reader = Reader { rest: text };
    let mut arguments = Vec::new();
    let member = !text.starts_with('(');
    if member {
        arguments.push(reader.read_type());
        reader.expect(".");
    }
    reader.expect("(");
    while !reader.accept(")") {
        arguments.push(reader.read_type());
        reader.accept(", ");
    }
    reader.expect(" -> ");
    let result = reader.read_type();
    let mut parameters = Vec::new();
    for part in arguments.iter().chain([&result]) {
        collect_parameters(part, &mut parameters);
    }
    Overload { id, member, arguments, result, parameters }
}

fn collect_parameters(part: &Type, into: &mut Vec<Arc<str>>) {
    match part {
        Type::Param(name) if !into.contains(name) => into.push(name.clone()),
        Type::List(inner) | Type::Type(inner) => collect_parameters(inner, into),
        Type::Map(key, value) => {
            collect_parameters(key, into);
            collect_parameters(value, into);
        }
        Type::Opaque(_, inner) => inner.iter().for_each(|inner| collect_parameters(inner, into)),
        _ => {}
    }
}

struct Reader {
    rest: &'static str,
}

impl Reader {
    fn accept(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, text: &str) {
        assert!(self.accept(text), "a signature must continue with {text:?} at {:?}", self.rest);
    }

    fn read_type(&mut self) -> Type {
        let end = self.rest.find(['(', ')', ',', ' ']).unwrap_or(self.rest.len());
        let name = self.rest[..end].strip_suffix('.').unwrap_or(&self.rest[..end]);
        self.rest = &self.rest[name.len()..];
        let mut parameters = Vec::new();
        if self.accept("(") {
            while !self.accept(")") {
                parameters.push(self.read_type());
                self.accept(", ");
            }
        }
        named(name, parameters)
    }
}

fn named(name: &str, parameters: Vec<Type>) -> Type {
    let mut given = parameters.into_iter();
    let mut next = || given.next().expect("a generic type must have its parameters");
    match name {
        "dyn" => Type::Dyn,
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "list" => Type::list(next()),
        "map" => {
            let key = next();
            Type::map(key, next())
        }
        "type" => Type::Type(Arc::new(next())),
        "optional_type" => Type::optional(next()),
        _ if name.len() == 1 => Type::param(name),
        _ if name.starts_with("kubernetes.") => Type::object(name),
        _ => Type::opaque(name),
    }
}
