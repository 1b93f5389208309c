//! Kinds whose fields are not below `spec`, which kube's derive macro cannot describe.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schemars::{JsonSchema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Value, json};

/// A kind that is described by a plain type: its fields are those of the object, except `metadata`.
///
/// ```
/// # use schemars::JsonSchema;
/// # use windlass_extension::Kind;
/// #[derive(JsonSchema)]
/// #[serde(rename_all = "camelCase")]
/// struct Fischer {
///     /// Names that no Flunder may have.
///     #[serde(default)]
///     disallowed_flunders: Vec<String>,
/// }
///
/// let fischer = Kind::of::<Fischer>("wardle.example.com", "v1alpha1", "Fischer", "fischers").cluster_scoped();
/// assert_eq!(fischer.definition().metadata.name.as_deref(), Some("fischers.wardle.example.com"));
/// ```
#[derive(Debug, Clone)]
pub struct Kind {
    definition: Value,
}

impl Kind {
    /// Describes a namespaced kind.
    pub fn of<T: JsonSchema>(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        let mut settings = SchemaSettings::openapi3();
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.transforms.push(Box::new(RecursiveTransform(structural)));
        let mut schema = Value::from(settings.into_generator().into_root_schema_for::<T>());
        for field in ["title", "$defs", "components"] {
            schema.as_object_mut().map(|schema| schema.remove(field));
        }
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{
                    "name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                }],
            },
        });
        Self { definition }
    }

    /// Makes the kind cluster-scoped.
    #[must_use]
    pub fn cluster_scoped(mut self) -> Self {
        self.definition["spec"]["scope"] = "Cluster".into();
        self
    }

    /// Adds a short name for `kubectl`.
    #[must_use]
    pub fn short_name(mut self, name: &str) -> Self {
        let names = &mut self.definition["spec"]["names"]["shortNames"];
        match names.as_array_mut() {
            Some(names) => names.push(name.into()),
            None => *names = json!([name]),
        }
        self
    }

    /// Adds a column to tables, whose value is at a JSON path such as `.spec.reference`.
    #[must_use]
    pub fn column(mut self, name: &str, ty: &str, json_path: &str) -> Self {
        let columns = &mut self.definition["spec"]["versions"][0]["additionalPrinterColumns"];
        let column = json!({"name": name, "type": ty, "jsonPath": json_path});
        match columns.as_array_mut() {
            Some(columns) => columns.push(column),
            None => *columns = json!([column]),
        }
        self
    }

    /// Makes `status` a subresource.
    #[must_use]
    pub fn status(mut self) -> Self {
        self.definition["spec"]["versions"][0]["subresources"]["status"] = json!({});
        self
    }

    /// Returns the kind as a CustomResourceDefinition.
    ///
    /// # Panics
    /// Never: the definition is built from the parts that it has.
    pub fn definition(&self) -> CustomResourceDefinition {
        serde_json::from_value(self.definition.clone()).expect("the definition must have the form of its type")
    }
}

/// Removes the keywords that structural schemas do not have.
fn structural(schema: &mut schemars::Schema) {
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        // Formats of Rust's numbers that OpenAPI does not know.
        if object.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
            object.remove("format");
        }
    }
}
