use super::*;

#[path = "../build/locate.rs"]
#[allow(dead_code, reason = "only the parsing is tested here; the build itself shows that the source is found")]
mod locate;
#[path = "../build/read.rs"]
mod read;

#[test]
fn built_in_kinds_have_the_descriptions_of_kubernetes() {
    let descriptions = Descriptions::inflate();
    let strategy = "io.k8s.api.apps.v1.DeploymentStrategy";
    let own = descriptions.schema(strategy).expect("DeploymentStrategy must have a description");
    assert!(own.starts_with("DeploymentStrategy describes"), "{own}");
    let ty = descriptions.property(strategy, "type").expect("type must have a description");
    assert!(ty.contains("\"Recreate\" or \"RollingUpdate\""), "{ty}");
    let reference = descriptions.property("io.k8s.api.apps.v1.DeploymentSpec", "strategy").unwrap_or_default();
    assert!(reference.contains("replace existing pods"), "{reference}");
    assert!(descriptions.property(strategy, "missing").is_none());
    assert!(descriptions.schema("io.k8s.api.apps.v1.Missing").is_none());
}

#[test]
fn almost_every_schema_has_a_description() {
    let descriptions = Descriptions::inflate();
    let names: Vec<_> = descriptions.schemas().collect();
    assert!(names.len() > 600, "{}", names.len());
    assert!(names.is_sorted());
    // Kubernetes itself has none for a few.
    let without: Vec<_> = names.into_iter().filter(|name| descriptions.schema(name).is_none()).collect();
    assert!(without.len() < 5, "{without:?}");
}

#[test]
fn the_description_of_watch_events_is_split() {
    let descriptions = Descriptions::inflate();
    let event = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
    assert!(descriptions.schema(event).is_some_and(|text| !text.contains('\n')));
    assert!(descriptions.property(event, "object").is_some_and(|text| text.starts_with("Object is:")));
}

#[test]
fn the_table_stays_within_its_budget() {
    assert!(file().len() < 200_000, "{}", file().len());
}

#[test]
fn descriptions_are_read_from_an_implementation_of_json_schema() {
    let source = r#"
        pub struct Boat;
        impl crate::schemars::JsonSchema for Boat {
            fn schema_name() -> std::borrow::Cow<'static, str> { "com.example.Boat".into() }
            fn json_schema(__gen: &mut crate::schemars::SchemaGenerator) -> crate::schemars::Schema {
                crate::schemars::json_schema!({
                    "description": "A \"boat\".\nIt floats: \u{2713}",
                    "type": "object",
                    "properties": {
                        "description": {
                            "description": "Words {about} it.",
                            "type": "string",
                        },
                        "plain": {
                            "type": "string",
                        },
                        "sails": {
                            "type": "array",
                            "items": (__gen.subschema_for::<crate::api::Sail>()),
                        },
                        "spec": ({
                            let mut schema_obj = __gen.subschema_for::<crate::api::BoatSpec>();
                            schema_obj.ensure_object().insert("description".into(), "Desired state.".into());
                            schema_obj
                        }),
                    },
                    "required": [
                        "description",
                    ],
                })
            }
        }
    "#;
    let schema = read::schema(source).expect("there is a schema");
    assert_eq!(schema.name, "com.example.Boat");
    assert_eq!(schema.description, "A \"boat\".\nIt floats: \u{2713}");
    let described = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let expected = [described("description", "Words {about} it."), described("spec", "Desired state.")];
    assert_eq!(schema.properties, expected);
    assert!(read::schema("pub mod v1;").is_none());
}

#[test]
fn the_version_of_kubernetes_is_that_of_the_dependency() {
    let versions = locate::versions("DEP_K8S_OPENAPI_0_29_0_VERSION", "74752");
    assert_eq!(versions, Some(("0.29.0".to_owned(), "v1_36".to_owned())));
    assert_eq!(locate::versions("DEP_Z_VERSION", "1"), None);
}

#[test]
fn a_package_is_found_by_the_dependency_information_of_its_build_script() {
    let rule = "/t/build_script_build-1.d: /a\\ b/k8s-openapi/build.rs\n\n/a\\ b/k8s-openapi/build.rs:\n";
    assert_eq!(locate::package(rule), Some("/a b/k8s-openapi/".into()));
    assert_eq!(locate::package("x.d: build.rs"), None);
    assert_eq!(locate::package(""), None);
}
