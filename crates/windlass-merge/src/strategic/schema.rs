//! Type information for a place in an object: its struct, and how each of its fields merges.

use windlass_schema::types::{Field, Scalar, Struct, StructId, Type, TypeTable};

use super::Error;

/// The type of a place in the object.
#[derive(Clone, Copy)]
pub(super) struct Node<'t> {
    table: &'t TypeTable,
    shape: Shape<'t>,
    pointer: bool,
}

#[derive(Clone, Copy)]
enum Shape<'t> {
    Struct(&'t Struct),
    /// A struct whose JSON form does not follow from its Go fields, by its Go name.
    Opaque(&'t str),
    /// Not a struct: the name of its Go kind.
    Kind(&'static str),
}

/// A field, as used by a patch.
#[derive(Clone, Copy)]
pub(super) struct FieldNode<'t> {
    table: &'t TypeTable,
    owner: &'t Struct,
    field: &'t Field,
}

impl<'t> Node<'t> {
    pub(super) fn root(id: StructId, table: &'t TypeTable) -> Self {
        Self { table, shape: Shape::Struct(table.get(id)), pointer: false }
    }

    /// Returns the field with a JSON name. Like Go's decoder, ignores case if no name matches exactly.
    pub(super) fn field(self, name: &str) -> Result<FieldNode<'t>, Error> {
        let owner = match self.shape {
            Shape::Struct(owner) => owner,
            Shape::Opaque(go_name) => return Err(unknown_field(go_name, name)),
            Shape::Kind(kind) => {
                let text = "merging an object in json but data type is not struct, instead is";
                return Err(Error::Mismatch(format!("{text}: {kind}")));
            }
        };
        let field = owner
            .field(name)
            .or_else(|| owner.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)))
            .ok_or_else(|| unknown_field(&owner.go_name, name))?;
        Ok(FieldNode { table: self.table, owner, field })
    }

    /// Returns the field with a JSON name, which must be a list, and the type of its elements.
    pub(super) fn list_field(self, name: &str) -> Result<(FieldNode<'t>, Self), Error> {
        let found = self.field(name)?;
        let element = match &found.field.ty {
            Type::List(element) if is_list(element) && !found.field.pointer => {
                return Err(Error::Mismatch("unexpected slice of slice".to_owned()));
            }
            Type::List(element) => Self::of(self.table, element, &found.field.go_type, false),
            ty if found.field.pointer => Self::of(self.table, ty, &found.field.go_type, false),
            _ => {
                let text = format!("expected slice or array type, but got: {}", self.kind());
                return Err(Error::Mismatch(text));
            }
        };
        Ok((found, element))
    }

    /// Returns the name of the Go kind.
    pub(super) fn kind(self) -> &'static str {
        match self.shape {
            _ if self.pointer => "ptr",
            Shape::Struct(_) | Shape::Opaque(_) => "struct",
            Shape::Kind(kind) => kind,
        }
    }

    fn of(table: &'t TypeTable, ty: &'t Type, go_type: &'t str, pointer: bool) -> Self {
        let shape = match ty {
            Type::Struct(id) => Shape::Struct(table.get(*id)),
            Type::List(_) => Shape::Kind("slice"),
            Type::Map(_) => Shape::Kind("map"),
            Type::Scalar(Scalar::String) => Shape::Kind("string"),
            Type::Scalar(Scalar::Bool) => Shape::Kind("bool"),
            Type::Scalar(Scalar::Int32) => Shape::Kind("int32"),
            Type::Scalar(Scalar::Int64) => Shape::Kind("int64"),
            Type::Scalar(Scalar::Float64) => Shape::Kind("float64"),
            Type::Scalar(Scalar::Bytes) => Shape::Kind("slice"),
            Type::Scalar(_) => Shape::Opaque(go_type.rsplit(['.', '*', ']']).next().unwrap_or(go_type)),
        };
        Self { table, shape, pointer }
    }
}

impl<'t> FieldNode<'t> {
    /// Returns the type of the field's value.
    pub(super) fn node(self) -> Node<'t> {
        Node::of(self.table, &self.field.ty, &self.field.go_type, self.field.pointer)
    }

    /// Returns whether a list merges with the list of the patch; otherwise it is replaced.
    pub(super) fn merges(self) -> bool {
        self.field.patch.merge
    }

    /// Returns the key that identifies elements of a merging list of maps.
    pub(super) fn merge_key(self) -> Option<&'t str> {
        self.field.patch.merge_key.as_deref()
    }

    /// Returns whether a map is replaced by the map of the patch. `patchStrategy:"replace"` has been used on a single
    /// field of all stable kinds so far, so the table has no flag for it.
    pub(super) fn replaces(self) -> bool {
        &*self.field.name == "selector" && &*self.owner.go_name == "PodDisruptionBudgetSpec"
    }
}

fn is_list(ty: &Type) -> bool {
    matches!(ty, Type::List(_) | Type::Scalar(Scalar::Bytes))
}

fn unknown_field(go_name: &str, name: &str) -> Error {
    let name = windlass_schema::field::quote(name);
    Error::Mismatch(format!("unable to find api field in struct {go_name} for the json field {name}"))
}
