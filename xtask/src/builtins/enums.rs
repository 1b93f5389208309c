//! The values of enumerated properties, from the OpenAPI definitions that Kubernetes generates for its server. The
//! published documents do not have them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use windlass_builtins::table;

const SOURCE: &str = "pkg/generated/openapi/zz_generated.openapi.go";
/// Prefixes of function names and schema names of a group's types.
const PACKAGES: [(&str, &str); 2] = [
    ("schema_k8sio_api_", "io.k8s.api."),
    ("schema_pkg_apis_apiextensions_", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions."),
];

/// Returns the lines of `enums.txt`, for the schemas that the tables have.
pub(super) fn read(kubernetes: &Path) -> anyhow::Result<String> {
    let path = kubernetes.join(SOURCE);
    let source = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let tables = [windlass_builtins::table(), table::unstable()];
    let has = |schema: &str| tables.iter().any(|table| table.types.structs.iter().any(|known| *known.name == *schema));
    let found = parse(&source).into_iter().filter(|((schema, _), _)| has(schema));
    Ok(found.map(|((schema, property), values)| format!("{schema}\t{property}\t{values}\n")).collect())
}

/// Returns the values by schema and property.
fn parse(source: &str) -> BTreeMap<(String, String), String> {
    let property_start = |line: &'_ str| Some(line.strip_prefix("\t\t\t\t\t\"")?.strip_suffix("\": {")?.to_owned());
    let values_of = |line: &'_ str| {
        let list =
            line.trim().strip_prefix("Enum:")?.trim_start().strip_prefix("[]interface{}{")?.strip_suffix("},")?;
        let values = list.split(", ").map(|value| value.trim_matches(['"', '`']));
        Some(values.collect::<Vec<_>>().join("|"))
    };
    let (mut schema, mut property, mut place) = (None, String::new(), "");
    let mut found = BTreeMap::new();
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("func ") {
            let name = rest.split('(').next().unwrap_or_default();
            let package = |(function, schema): (&str, &str)| {
                Some(format!("{schema}{}", name.strip_prefix(function)?.replace('_', ".")))
            };
            schema = PACKAGES.into_iter().find_map(package);
        } else if let Some(start) = property_start(line) {
            (property, place) = (start, "");
        } else if line.trim_start().starts_with("Items: ") {
            place = "[]";
        } else if line.trim_start().starts_with("AdditionalProperties: ") {
            place = "{}";
        } else if let (Some(values), Some(schema)) = (values_of(line), &schema) {
            found.insert((schema.clone(), format!("{property}{place}")), values);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_belong_to_a_property_or_its_items() {
        let source = "func schema_k8sio_api_batch_v1_Job(ref common.ReferenceCallback) common.OpenAPIDefinition {\n\
                      \t\t\t\t\t\"mode\": {\n\t\t\tEnum:        []interface{}{\"A\", `B`},\n\
                      \t\t\t\t\t\"list\": {\n\t\t\tItems: &spec.SchemaOrArray{\n\t\t\tEnum: []interface{}{\"\", \"C D\"},\n\
                      func schema_other_Thing(ref) {\n\t\t\tEnum: []interface{}{\"X\"},\n";
        let found: Vec<_> = parse(source).into_iter().collect();
        let expected = [("list[]", "|C D"), ("mode", "A|B")];
        let expected = expected
            .map(|(property, values)| (("io.k8s.api.batch.v1.Job".to_owned(), property.to_owned()), values.to_owned()));
        assert_eq!(found, expected);
    }
}
