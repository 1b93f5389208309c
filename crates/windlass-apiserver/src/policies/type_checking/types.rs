//! The types of objects, as the type checker of expressions sees them.
//!
//! Types are named by their path below the object: `object.spec.containers.@idx`. A name is resolved by following the
//! path, so nothing is built in advance.

use std::sync::Arc;

use windlass_cel::{
    checker::TypeProvider,
    declared::{DeclType, Shape},
    policy::ObjectTypes,
    types::Type as CelType,
    value::unescape,
};
use windlass_schema::types::{Field, Scalar, StructId, Type, TypeTable};

use crate::endpoint::Endpoint;

/// Returns the types of an endpoint's objects; `None` if they have no schema. `name` is the name of the root type.
pub(super) fn of(endpoint: &Endpoint, name: &str) -> Option<ObjectTypes> {
    let resource = &*endpoint.resource;
    let root = match endpoint.custom() {
        None => Root::BuiltIn(resource.ty),
        Some(custom) => {
            let schema = custom.schema_of(&resource.version)?;
            Root::Custom(Arc::new(DeclType::of(schema, true)?))
        }
    };
    // Unlike a plain word, this cannot be the name of a type in an expression.
    let name = format!("{}@{name}", resource.kind);
    let types = Types { name: name.clone(), root, table: &endpoint.table.types, metadata: endpoint.object_meta() };
    Some(ObjectTypes { root: CelType::object(&name), provider: Arc::new(types) })
}

enum Root {
    BuiltIn(StructId),
    Custom(Arc<DeclType>),
}

struct Types {
    name: String,
    root: Root,
    table: &'static TypeTable,
    metadata: StructId,
}

/// A place in an object.
#[derive(Clone, Copy)]
enum Place<'t> {
    Struct(StructId),
    BuiltIn(&'t Type),
    Custom(&'t DeclType),
    /// The root of a custom resource, whose metadata is complete.
    Resource(&'t DeclType),
}

impl Types {
    fn find(&self, name: &str) -> Option<Place<'_>> {
        let rest = name.strip_prefix(self.name.as_str())?;
        let mut place = match &self.root {
            Root::BuiltIn(id) => Place::Struct(*id),
            Root::Custom(declared) => Place::Resource(declared),
        };
        if rest.is_empty() {
            return Some(place);
        }
        for step in rest.strip_prefix('.')?.split('.') {
            place = self.step(place, step)?;
        }
        Some(place)
    }

    /// Returns the place below another one.
    fn step<'t>(&'t self, place: Place<'t>, step: &str) -> Option<Place<'t>> {
        match (place, step) {
            (Place::Resource(_), "metadata") => Some(Place::Struct(self.metadata)),
            (Place::Resource(declared) | Place::Custom(declared), step) => match (&declared.shape, step) {
                (Shape::List(element), "@idx") | (Shape::Map(element), "@elem") => Some(Place::Custom(element)),
                (Shape::Object(fields), field) => {
                    let found = fields.get(field).or_else(|| fields.get(&format!("__{field}__")))?;
                    Some(Place::Custom(found))
                }
                _ => None,
            },
            (Place::Struct(id), field) => {
                let field = self.field(id, field).filter(|field| has_type(&field.ty))?;
                Some(Place::BuiltIn(&field.ty))
            }
            (Place::BuiltIn(Type::Struct(id)), field) => self.step(Place::Struct(*id), field),
            (Place::BuiltIn(Type::List(element)), "@idx") | (Place::BuiltIn(Type::Map(element)), "@elem") => {
                Some(Place::BuiltIn(element))
            }
            _ => None,
        }
    }

    fn field(&self, id: StructId, name: &str) -> Option<&Field> {
        let owner = self.table.get(id);
        owner.field(name).or_else(|| owner.field(&unescape(name)?))
    }

    /// Returns the type of a place with a name.
    fn type_of(&self, place: Place<'_>, name: &str) -> CelType {
        match place {
            Place::Struct(_) | Place::BuiltIn(Type::Struct(_)) => CelType::object(name),
            Place::BuiltIn(Type::List(element)) => {
                CelType::list(self.type_of(Place::BuiltIn(element), &format!("{name}.@idx")))
            }
            Place::BuiltIn(Type::Map(element)) => {
                CelType::map(CelType::String, self.type_of(Place::BuiltIn(element), &format!("{name}.@elem")))
            }
            Place::BuiltIn(Type::Scalar(scalar)) => scalar_type(*scalar, name),
            Place::Resource(declared) | Place::Custom(declared) => match &declared.shape {
                Shape::Simple(plain) => plain.clone(),
                Shape::List(element) => CelType::list(self.type_of(Place::Custom(element), &format!("{name}.@idx"))),
                Shape::Map(element) => {
                    let element = self.type_of(Place::Custom(element), &format!("{name}.@elem"));
                    CelType::map(CelType::String, element)
                }
                Shape::Object(_) => CelType::object(name),
            },
        }
    }
}

/// Returns whether OpenAPI has a type for a field. Others are unknown to the type checker, as in Kubernetes.
fn has_type(of: &Type) -> bool {
    match of {
        Type::List(element) | Type::Map(element) => has_type(element),
        Type::Scalar(scalar) => !matches!(scalar, Scalar::Quantity | Scalar::Json),
        Type::Struct(_) => true,
    }
}

fn scalar_type(scalar: Scalar, name: &str) -> CelType {
    match scalar {
        Scalar::String | Scalar::Duration => CelType::String,
        Scalar::Bool => CelType::Bool,
        Scalar::Int32 | Scalar::Int64 => CelType::Int,
        Scalar::Float64 => CelType::Double,
        Scalar::Bytes => CelType::Bytes,
        Scalar::Time | Scalar::MicroTime => CelType::Timestamp,
        // Objects without known fields.
        Scalar::RawExtension | Scalar::FieldsV1 => CelType::object(name),
        Scalar::IntOrString | Scalar::Quantity | Scalar::Json => CelType::Dyn,
    }
}

impl TypeProvider for Types {
    fn find_type(&self, name: &str) -> Option<CelType> {
        let place = self.find(name)?;
        Some(self.type_of(place, name)).filter(|found| matches!(found, CelType::Object(_)))
    }

    fn find_field(&self, object: &str, field: &str) -> Option<CelType> {
        let place = self.step(self.find(object)?, field)?;
        Some(self.type_of(place, &format!("{object}.{field}")))
    }
}
