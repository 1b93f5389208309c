//! Names of declared types, and resolving their fields.
//!
//! Object types below the type of `self` are named by their path: `selfType1.spec.ports.@idx`. Names are not stored
//! anywhere: a name is resolved by following the path.

use std::sync::Arc;

use super::{DeclType, Shape};
use crate::checker::TypeProvider;
use crate::types::Type;
use crate::value::escape;

/// The declared type of `self` with a name, providing the types below it.
#[derive(Debug, Clone)]
pub struct Declared {
    name: String,
    root: Arc<DeclType>,
}

impl Declared {
    /// Returns a declared type with a name that no expression can use.
    pub fn new(name: impl Into<String>, root: Arc<DeclType>) -> Self {
        Self { name: name.into(), root }
    }

    /// Returns the type of `self`.
    pub fn self_type(&self) -> Type {
        type_of(&self.root, &self.name)
    }

    /// Returns the declared type for the name of an object type.
    fn find(&self, name: &str) -> Option<&DeclType> {
        let rest = name.strip_prefix(self.name.as_str())?;
        let mut found = &*self.root;
        if rest.is_empty() {
            return Some(found);
        }
        for step in rest.strip_prefix('.')?.split('.') {
            found = match (&found.shape, step) {
                (Shape::List(element), "@idx") | (Shape::Map(element), "@elem") => element,
                (Shape::Object(fields), field) => fields.get(field)?,
                _ => return None,
            };
        }
        Some(found)
    }
}

impl TypeProvider for Declared {
    fn find_type(&self, name: &str) -> Option<Type> {
        if let Some(found) = self.find(name) {
            return match &found.shape {
                Shape::Simple(_) => None,
                _ => Some(type_of(found, name)),
            };
        }
        Some(match name {
            "bool" => Type::Bool,
            "bytes" => Type::Bytes,
            "double" => Type::Double,
            "duration" => Type::Duration,
            "int" => Type::Int,
            "null_type" => Type::Null,
            "string" => Type::String,
            "timestamp" => Type::Timestamp,
            "uint" => Type::Uint,
            "list" => Type::List(Arc::new(Type::Dyn)),
            "map" => Type::Map(Arc::new(Type::Dyn), Arc::new(Type::Dyn)),
            _ => return None,
        })
    }

    fn find_field(&self, object: &str, field: &str) -> Option<Type> {
        let Shape::Object(fields) = &self.find(object)?.shape else { return None };
        if let Some(found) = fields.get(field) {
            return Some(type_of(found, &format!("{object}.{field}")));
        }
        // A property whose name is reserved can be selected by its plain name as well.
        let escaped = escape(field).filter(|escaped| **escaped == format!("__{field}__"))?;
        fields.get(&*escaped).map(|found| type_of(found, &format!("{object}.{escaped}")))
    }
}

fn type_of(declared: &DeclType, name: &str) -> Type {
    match &declared.shape {
        Shape::Simple(kind) => kind.clone(),
        Shape::List(element) => Type::List(Arc::new(type_of(element, &format!("{name}.@idx")))),
        Shape::Map(element) => Type::Map(Arc::new(Type::String), Arc::new(type_of(element, &format!("{name}.@elem")))),
        Shape::Object(_) => Type::Object(name.into()),
    }
}
