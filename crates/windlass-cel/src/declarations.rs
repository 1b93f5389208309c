//! The functions and types that expressions may use, one table per library.

use std::collections::HashMap;
use std::sync::Arc;

use crate::types::Type;

mod authorization;
mod collections;
mod kubernetes;
mod network;
mod optionals;
mod signature;
mod standard;
mod strings;

/// A function name, an overload ID and its signature.
type Row = (&'static str, &'static str, &'static str);

/// Functions and type names.
#[derive(Debug, Default)]
pub struct Declarations {
    functions: HashMap<&'static str, Function>,
    types: HashMap<&'static str, Type>,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The name, with dots if it has a namespace.
    pub name: &'static str,
    /// The overloads, in the order in which they are tried.
    pub overloads: Vec<Overload>,
}

/// A signature of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overload {
    /// The ID, unique over all functions except for aliases.
    pub id: &'static str,
    /// Whether the first argument is the receiver.
    pub member: bool,
    /// Types of the arguments, starting with the receiver.
    pub arguments: Vec<Type>,
    /// Type of the result.
    pub result: Type,
    /// Names of the type parameters.
    pub parameters: Vec<Arc<str>>,
}

impl Declarations {
    /// Returns the declarations of Kubernetes.
    pub fn kubernetes() -> Declarations {
        let mut declarations = Declarations::default();
        for table in [
            standard::FUNCTIONS,
            optionals::FUNCTIONS,
            // Before strings: if the type of a receiver is dynamic, overloads are tried in this order.
            collections::FUNCTIONS,
            strings::FUNCTIONS,
            kubernetes::FUNCTIONS,
            network::FUNCTIONS,
            authorization::FUNCTIONS,
        ] {
            declarations.add(table);
        }
        let element = || Type::param("A");
        let named = [
            Type::Bool,
            Type::Bytes,
            Type::Double,
            Type::Duration,
            Type::Int,
            Type::Null,
            Type::String,
            Type::Timestamp,
            Type::Uint,
        ];
        for plain in named {
            declarations.types.insert(static_name(&plain), plain);
        }
        // Schemas of custom resources also refer to these types by short names.
        declarations.types.insert("duration", Type::Duration);
        declarations.types.insert("timestamp", Type::Timestamp);
        declarations.types.insert("list", Type::list(element()));
        declarations.types.insert("map", Type::map(element(), Type::param("B")));
        declarations.types.insert("type", Type::any_type());
        declarations.types.insert("optional_type", Type::opaque("optional_type"));
        declarations.types.insert("net.IP", Type::opaque("net.IP"));
        declarations.types.insert("net.CIDR", Type::opaque("net.CIDR"));
        declarations
    }

    /// Returns the declarations of Kubernetes for expressions that patch objects.
    pub fn kubernetes_patches() -> Declarations {
        let mut declarations = Self::kubernetes();
        declarations.add(&[("jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string", "(string) -> string")]);
        declarations
    }

    fn add(&mut self, table: &[Row]) {
        for (name, id, text) in table {
            let function = self.functions.entry(name).or_insert_with(|| Function { name, overloads: Vec::new() });
            function.overloads.push(signature::overload(id, text));
        }
    }

    /// Returns the function with a name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    /// Returns the type with a name.
    pub fn named_type(&self, name: &str) -> Option<&Type> {
        self.types.get(name)
    }

    /// Returns all functions.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.values()
    }
}

/// Returns the name of a type without parameters, as used in expressions.
fn static_name(plain: &Type) -> &'static str {
    match plain {
        Type::Bool => "bool",
        Type::Bytes => "bytes",
        Type::Double => "double",
        Type::Duration => "google.protobuf.Duration",
        Type::Int => "int",
        Type::Null => "null_type",
        Type::String => "string",
        Type::Timestamp => "google.protobuf.Timestamp",
        _ => "uint",
    }
}

#[cfg(test)]
mod tests;
