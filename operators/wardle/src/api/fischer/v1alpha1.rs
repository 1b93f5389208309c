//! Version `v1alpha1` of Fischer.

use windlass_extension::prelude::*;

/// Names that no new Flunder may have.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fischer {
    /// The names.
    #[serde(default)]
    pub disallowed_flunders: Vec<String>,
}
