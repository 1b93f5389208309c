//! The structure of built-in types: Go structs with their tags, as data.
//!
//! `windlass-builtins` loads a [`TypeTable`] from its generated file; decoding, strategic merge, protobuf and OpenAPI
//! walk over it.

use std::borrow::Cow;

use serde_json::Value;

/// A name in a table: borrowed from the buffer of the generated file, or owned in a table built at run time.
pub type Str = Cow<'static, str>;

/// All struct types, indexed by [`StructId`].
#[derive(Debug, Default, Clone, PartialEq)]
pub struct TypeTable {
    /// The structs.
    pub structs: Vec<Struct>,
}

/// The index of a struct in its [`TypeTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StructId(pub u32);

/// A struct: its fields in declaration order, with embedded structs flattened.
#[derive(Debug, Clone, PartialEq)]
pub struct Struct {
    /// The OpenAPI definition name: `io.k8s.api.core.v1.PodSpec`.
    pub name: Str,
    /// The Go name without package: `PodSpec`.
    pub go_name: Str,
    /// The fields.
    pub fields: Vec<Field>,
    /// Whether a value is atomic in server-side apply (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// Embedded structs that are separate messages in protobuf, outer ones before those within them.
    pub inlines: Vec<Inline>,
}

/// A range of a struct's fields that protobuf nests in a separate message. It has no effect on JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inline {
    /// The field number of the message.
    pub proto: u32,
    /// Index of the first field.
    pub start: u32,
    /// Index after the last field.
    pub end: u32,
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The JSON name.
    pub name: Str,
    /// The type of the field.
    pub ty: Type,
    /// The type's name in errors of Go's decoder: `int32`, `v1.PullPolicy`, `[]v1.Container`.
    pub go_type: Str,
    /// The protobuf field number; 0 if the type has no protobuf form.
    pub proto: u32,
    /// Whether Go omits a zero value from JSON: `omitzero`, or `omitempty` on anything except a struct.
    pub omit_empty: bool,
    /// Whether the field is a Go pointer, for which absent differs from zero.
    pub pointer: bool,
    /// Whether the field is required in OpenAPI.
    pub required: bool,
    /// The default published in OpenAPI.
    pub default: Option<Value>,
    /// For lists and maps: how server-side apply merges them.
    pub topology: Topology,
    /// Strategic merge patch strategy of the field.
    pub patch: PatchStrategy,
    /// The format published in OpenAPI, if any.
    pub format: Option<Str>,
}

impl Field {
    /// Returns a field that is omitted when empty, without any other properties.
    pub fn new(name: impl Into<Str>, ty: Type) -> Self {
        Self {
            name: name.into(),
            ty,
            go_type: "".into(),
            proto: 0,
            omit_empty: true,
            pointer: false,
            required: false,
            default: None,
            topology: Topology::default(),
            patch: PatchStrategy::default(),
            format: None,
        }
    }
}

/// The type of a field or element.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// A struct in the table.
    Struct(StructId),
    /// A list of elements.
    List(Box<Type>),
    /// A map with string keys.
    Map(Box<Type>),
    /// Anything else.
    Scalar(Scalar),
}

/// Types with their own JSON representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// A string, including named string types.
    String,
    /// A boolean.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A 64-bit float.
    Float64,
    /// Bytes, base64 in JSON.
    Bytes,
    /// `resource.Quantity`.
    Quantity,
    /// `intstr.IntOrString`.
    IntOrString,
    /// `metav1.Time`: RFC 3339, whole seconds.
    Time,
    /// `metav1.MicroTime`: RFC 3339 with microseconds.
    MicroTime,
    /// `metav1.Duration`: a Go duration string.
    Duration,
    /// `runtime.RawExtension`: any JSON object.
    RawExtension,
    /// `metav1.FieldsV1`: any JSON object.
    FieldsV1,
    /// `apiextensions.JSON` and similar types (`JSONSchemaPropsOrBool`, ...): any JSON.
    Json,
}

/// Merge strategy of a list or map in server-side apply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Topology {
    /// The default of the type: lists are atomic, maps granular.
    #[default]
    Default,
    /// Replaced as a whole.
    Atomic,
    /// A set of scalars.
    Set,
    /// A list of structs identified by these keys.
    Map(Vec<Str>),
    /// Merged field by field, even if the struct's own definition is atomic.
    Granular,
}

/// Strategic merge patch strategy of a field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PatchStrategy {
    /// `patchStrategy:"merge"`.
    pub merge: bool,
    /// `patchStrategy:"retainKeys"`.
    pub retain_keys: bool,
    /// `patchStrategy:"replace"`.
    pub replace: bool,
    /// `patchMergeKey`.
    pub merge_key: Option<Str>,
}

impl TypeTable {
    /// Returns the struct with an ID.
    pub fn get(&self, id: StructId) -> &Struct {
        &self.structs[id.0 as usize]
    }
}

impl Struct {
    /// Returns the field with a JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| &*field.name == name)
    }
}
