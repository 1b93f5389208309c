//! Merge schemas: a view over the tables that describe types, which builds nothing.
//!
//! A [`TypeRef`] is cheap to copy. It represents a place in an object and determines which values are allowed there,
//! how fields are declared, how list items are identified, and which values are atomic. It is backed by the table of
//! built-in types, by the structural schema of a custom resource (whose `metadata` is from the built-in table), or
//! deduced from the value.

use serde_json::Value;
use windlass_schema::structural::Structural;
use windlass_schema::types::{Field, Str, Struct, StructId, Type, TypeTable};

mod builtin;
mod custom;

use custom::Custom;

/// Type of a place in an object.
#[derive(Debug, Clone, Copy)]
pub struct TypeRef<'t>(Inner<'t>);

#[derive(Debug, Clone, Copy)]
enum Inner<'t> {
    /// Not declared: no value is allowed here.
    Nothing,
    /// Any value, treated as atomic.
    Untyped,
    /// Any value: maps merge by field, lists are atomic.
    Deduced,
    Scalar(ScalarType),
    Struct(&'t TypeTable, &'t Struct),
    /// A built-in type, and the field that declares it unless it is nested in a list or map.
    BuiltIn(&'t TypeTable, &'t Type, Option<&'t Field>),
    Custom(Custom<'t>),
}

/// Scalar types that the merge schema distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarType {
    /// Integers and floats.
    Numeric,
    /// Strings.
    String,
    /// Booleans.
    Boolean,
    /// Any scalar.
    Untyped,
}

/// Kinds of values that a type allows; several only if it is deduced from the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinds {
    None,
    Scalar(ScalarType),
    List,
    Map,
    /// Scalars of any type, lists and maps.
    All,
}

/// The form in which a value of a type is handled.
#[derive(Debug, Clone, Copy)]
pub enum Form<'t> {
    /// A scalar.
    Scalar(ScalarType),
    /// A list.
    List(ListType<'t>),
    /// A map or struct.
    Map(MapType<'t>),
    /// The type allows no value.
    Nothing,
}

/// A map or struct type.
#[derive(Debug, Clone, Copy)]
pub struct MapType<'t>(Inner<'t>);

/// A list type.
#[derive(Debug, Clone, Copy)]
pub struct ListType<'t>(Inner<'t>);

/// List type: how server-side apply merges a list.
#[derive(Debug, Clone, Copy)]
pub enum ListTopology<'t> {
    /// The list is atomic.
    Atomic,
    /// The items are unique scalars.
    Set,
    /// The items are identified by these key fields.
    Map(Keys<'t>),
}

/// The names of key fields.
#[derive(Debug, Clone, Copy)]
pub struct Keys<'t>(KeyNames<'t>);

#[derive(Debug, Clone, Copy)]
enum KeyNames<'t> {
    BuiltIn(&'t [Str]),
    Custom(&'t [String]),
}

impl<'t> TypeRef<'t> {
    /// The type of an undeclared place.
    pub const NOTHING: Self = Self(Inner::Nothing);

    /// Any value, treated as atomic.
    pub const UNTYPED: Self = Self(Inner::Untyped);

    /// A type deduced from the value: used for custom resources without a schema, and for places that schemas leave
    /// open.
    pub const DEDUCED: Self = Self(Inner::Deduced);

    /// Returns the type of a built-in struct.
    pub fn built_in(table: &'t TypeTable, id: StructId) -> Self {
        Self(Inner::Struct(table, table.get(id)))
    }

    /// Returns the type of a custom resource: its schema, with `apiVersion`, `kind` and the built-in `ObjectMeta`.
    pub fn custom(schema: &'t Structural, table: &'t TypeTable, object_meta: StructId) -> Self {
        Self(Inner::Custom(Custom::root(schema, table, object_meta)))
    }

    /// Returns the form of a value: its own if the type allows it, otherwise the one that results in the best error.
    /// Null and absent values (`None`) count as maps if the type allows these, otherwise as scalars, otherwise as
    /// lists.
    pub fn form(self, value: Option<&Value>) -> Form<'t> {
        match (self.kinds(), value) {
            (Kinds::All, None | Some(Value::Null | Value::Object(_))) | (Kinds::Map, _) => Form::Map(MapType(self.0)),
            (Kinds::All, Some(Value::Array(_))) | (Kinds::List, _) => Form::List(ListType(self.0)),
            (Kinds::All, Some(_)) => Form::Scalar(ScalarType::Untyped),
            (Kinds::Scalar(scalar), _) => Form::Scalar(scalar),
            (Kinds::None, _) => Form::Nothing,
        }
    }

    /// Returns the map type, if maps are allowed.
    pub fn map(self) -> Option<MapType<'t>> {
        matches!(self.kinds(), Kinds::Map | Kinds::All).then_some(MapType(self.0))
    }

    /// Returns the list type, if lists are allowed.
    pub fn list(self) -> Option<ListType<'t>> {
        matches!(self.kinds(), Kinds::List | Kinds::All).then_some(ListType(self.0))
    }

    /// Returns whether no value is declared here.
    pub fn is_nothing(self) -> bool {
        matches!(self.0, Inner::Nothing)
    }

    pub(crate) fn kinds(self) -> Kinds {
        match self.0 {
            Inner::Nothing => Kinds::None,
            Inner::Untyped | Inner::Deduced => Kinds::All,
            Inner::Scalar(scalar) => Kinds::Scalar(scalar),
            Inner::Struct(..) => Kinds::Map,
            Inner::BuiltIn(_, ty, field) => builtin::kinds(ty, field),
            Inner::Custom(custom) => custom.kinds(),
        }
    }
}

impl<'t> MapType<'t> {
    /// Returns the type of a declared field.
    pub fn field(self, name: &str) -> Option<TypeRef<'t>> {
        match self.0 {
            Inner::Struct(table, owner) => builtin::field(table, owner, name),
            Inner::BuiltIn(table, Type::Struct(id), _) => builtin::field(table, table.get(*id), name),
            Inner::Custom(custom) => custom.field(name),
            _ => None,
        }
    }

    /// Returns the type of undeclared fields, or `None` if they are not allowed.
    pub fn element(self) -> Option<TypeRef<'t>> {
        match self.0 {
            Inner::Untyped => Some(TypeRef::UNTYPED),
            Inner::Deduced => Some(TypeRef::DEDUCED),
            Inner::Struct(_, owner) => builtin::unknown(owner),
            Inner::BuiltIn(table, ty, _) => builtin::map_element(table, ty),
            Inner::Custom(custom) => custom.map_element(),
            Inner::Nothing | Inner::Scalar(_) => None,
        }
    }

    /// Returns the type of a field, declared or not; [`TypeRef::NOTHING`] if the field is not allowed.
    pub fn any_field(self, name: &str) -> TypeRef<'t> {
        self.field(name).or_else(|| self.element()).unwrap_or(TypeRef::NOTHING)
    }

    /// Returns whether the map is atomic.
    pub fn is_atomic(self) -> bool {
        match self.0 {
            Inner::Untyped => true,
            Inner::Struct(_, owner) => owner.atomic,
            Inner::BuiltIn(table, ty, field) => builtin::atomic_map(table, ty, field),
            Inner::Custom(custom) => custom.atomic_map(),
            Inner::Nothing | Inner::Deduced | Inner::Scalar(_) => false,
        }
    }

    /// Returns whether no field is declared and others are deduced: such maps do not specify how they merge.
    pub(crate) fn is_deduced(self) -> bool {
        match self.0 {
            Inner::Deduced => true,
            Inner::Struct(_, owner) => owner.fields.is_empty(),
            Inner::BuiltIn(table, ty, _) => builtin::deduced_map(table, ty),
            Inner::Custom(custom) => custom.deduced_map(),
            Inner::Nothing | Inner::Untyped | Inner::Scalar(_) => false,
        }
    }
}

impl<'t> ListType<'t> {
    /// Returns the type of the items.
    pub fn element(self) -> TypeRef<'t> {
        match self.0 {
            Inner::BuiltIn(table, Type::List(element), _) => builtin::nested(table, element),
            Inner::Custom(custom) => custom.list_element(),
            _ => TypeRef::UNTYPED,
        }
    }

    /// Returns how the list merges.
    pub fn topology(self) -> ListTopology<'t> {
        match self.0 {
            Inner::BuiltIn(_, _, Some(field)) => builtin::topology(field),
            Inner::Custom(custom) => custom.topology(),
            _ => ListTopology::Atomic,
        }
    }

    /// Returns whether the list is atomic.
    pub fn is_atomic(self) -> bool {
        matches!(self.topology(), ListTopology::Atomic)
    }

    /// Returns the default of a key field.
    pub fn key_default(self, name: &str) -> Option<&'t Value> {
        match self.element().0 {
            Inner::Struct(_, owner) => owner.field(name)?.default.as_ref(),
            Inner::BuiltIn(table, Type::Struct(id), _) => table.get(*id).field(name)?.default.as_ref(),
            Inner::Custom(custom) => custom.default_of(name),
            _ => None,
        }
    }
}

impl<'t> Keys<'t> {
    /// Iterates over the names in declaration order.
    pub fn iter(self) -> impl Iterator<Item = &'t str> {
        (0..self.len()).map(move |position| match self.0 {
            KeyNames::BuiltIn(names) => &*names[position],
            KeyNames::Custom(names) => &*names[position],
        })
    }

    /// Returns the number of keys.
    pub fn len(self) -> usize {
        match self.0 {
            KeyNames::BuiltIn(names) => names.len(),
            KeyNames::Custom(names) => names.len(),
        }
    }

    /// Returns whether there are no keys, in which case the list is a set.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
