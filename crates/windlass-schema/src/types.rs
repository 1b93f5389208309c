//! The shape of built-in types: what a Go struct with its tags says, as data.
//!
//! `windlass-builtins` loads a [`TypeTable`] from its generated file; decoding, strategic merge, protobuf and OpenAPI
//! are walks over it.

use std::borrow::Cow;

use serde_json::Value;

/// A name in a table: borrowed from the generated file's one buffer, or owned where a table is built at run time.
pub type Str = Cow<'static, str>;

/// All struct types, addressed by [`StructId`].
#[derive(Debug, Default, Clone, PartialEq)]
pub struct TypeTable {
    /// The structs.
    pub structs: Vec<Struct>,
}

/// The position of a struct in its [`TypeTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StructId(pub u32);

/// A struct: fields in the order of their declaration, embedded structs flattened.
#[derive(Debug, Clone, PartialEq)]
pub struct Struct {
    /// The OpenAPI definition name: `io.k8s.api.core.v1.PodSpec`.
    pub name: Str,
    /// The Go name without package: `PodSpec`.
    pub go_name: Str,
    /// The fields.
    pub fields: Vec<Field>,
    /// Whether server-side apply treats a value as one (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// Embedded structs that are messages of their own in protobuf, an outer one before those within it.
    pub inlines: Vec<Inline>,
}

/// A run of a struct's fields that protobuf nests in a message of its own. JSON knows nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inline {
    /// The field number of the message.
    pub proto: u32,
    /// The first field.
    pub start: u32,
    /// The field after the last.
    pub end: u32,
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The JSON name.
    pub name: Str,
    /// Its type.
    pub ty: Type,
    /// How Go's decoder names the type in an error: `int32`, `v1.PullPolicy`, `[]v1.Container`.
    pub go_type: Str,
    /// The protobuf field number; 0 where the type has no protobuf form.
    pub proto: u32,
    /// Whether Go leaves a zero value out of JSON: `omitzero`, or `omitempty` on anything but a struct.
    pub omit_empty: bool,
    /// Whether it is a Go pointer: absent differs from zero.
    pub pointer: bool,
    /// Whether OpenAPI lists it as required.
    pub required: bool,
    /// The default that OpenAPI publishes.
    pub default: Option<Value>,
    /// For lists and maps: how server-side apply merges them.
    pub topology: Topology,
    /// How a strategic merge patch treats it.
    pub patch: PatchStrategy,
    /// The format that OpenAPI publishes, if any.
    pub format: Option<Str>,
}

impl Field {
    /// A field that is left out when it is empty, and has nothing else to it.
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
    /// A struct of the table.
    Struct(StructId),
    /// A list of elements.
    List(Box<Type>),
    /// A map from strings.
    Map(Box<Type>),
    /// Anything else.
    Scalar(Scalar),
}

/// Types with a JSON form of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// A string, also of a named string type.
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
    /// `apiextensions.JSON` and its kin (`JSONSchemaPropsOrBool`, ...): any JSON.
    Json,
}

/// How server-side apply merges a list or map.
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
    /// Merged field by field, even where the struct's own definition is atomic.
    Granular,
}

/// How a strategic merge patch treats a field.
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
    /// The struct of an id.
    pub fn get(&self, id: StructId) -> &Struct {
        &self.structs[id.0 as usize]
    }
}

impl Struct {
    /// The field of a JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| &*field.name == name)
    }
}
