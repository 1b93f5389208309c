use super::*;
use crate::{ApiOptions, ControllerOptions, ProjectOptions, VersionOptions, WebhookOptions, Webhooks};

const ALL_FIELDS: &[&str] = &[
    "title:string=1..63",
    "code:string,pattern=^[a-z]{1,3}$,example=abc",
    "pages:int32=1..5000,default=100",
    "price:number=0.5..",
    "stock:int",
    "sold:bool,default=false",
    "cover:enum(hard|soft-cover),default=hard",
    "genre:enum(Fiction|Fact)?",
    "edition:enum(1|2nd|self|+)",
    "lendFor:duration,default=336h",
    "weight:quantity",
    "storage:quantity?",
    "printed:time",
    "reprinted:time?",
    "authors:[]string=1..5",
    "formats:[]enum(a4|a5)?",
    "pauses:[]duration?",
    "labels:map?",
    "type:string?",
    "podCIDR:string?",
    "tags:map=2..",
    "limits:map[string]quantity",
    "pauseOf:map[string]duration?",
    "restocked:[]time",
    "shelf:object",
    "shelf.row:int32=1..,default=1",
    "shelf.side:enum(left|right)",
    "shelf.label:object?",
    "shelf.label.text:string",
    "copies:[]object=2..",
    "copies.number:int32",
    "copies.signedBy:[]string?",
    "prices:map[string]object",
    "prices.amount:number",
];

fn webhook(project: &mut Project, kind: &str, defaulting: bool, validating: bool) {
    let webhooks = Webhooks { defaulting, validating, conversion: false };
    project.create_webhook(WebhookOptions { group: None, kind: kind.to_owned(), webhooks }).unwrap();
}

fn controller(project: &mut Project, group: &str, version: &str, kind: &str, namespaced: bool) {
    let options = ControllerOptions {
        group: Some(group.to_owned()),
        version: Some(version.to_owned()),
        kind: kind.to_owned(),
        name: None,
        plural: None,
        namespaced,
        fields: Vec::new(),
    };
    project.create_controller(options).unwrap();
}

/// A project that uses every template and every branch of it.
fn everything() -> Project {
    let mut project = Project::new(ProjectOptions::new("book-shop", "example.com")).unwrap();
    let mut book = ApiOptions::new("shop", "v1", "Book");
    for field in ALL_FIELDS {
        book = book.field(field).unwrap();
    }
    for field in ["sold:int32", "phase:enum(New|Old)", "since:time", "readers:[]object", "readers.name:string"] {
        book = book.status_field(field).unwrap();
    }
    project.create_api(book).unwrap();
    project.create_release_workflow().unwrap();
    project.create_api(ApiOptions { namespaced: false, ..ApiOptions::new("", "v1alpha1", "Order") }).unwrap();
    project.create_api(ApiOptions { controller: false, ..ApiOptions::new("shop", "v1", "Type") }).unwrap();
    project.create_version(VersionOptions::new("v2", "Book")).unwrap();
    for (kind, name) in [("Book", "backup"), ("ConfigMap", "watch-dog")] {
        let options = ControllerOptions {
            group: None,
            version: None,
            kind: kind.to_owned(),
            name: Some(name.to_owned()),
            plural: None,
            namespaced: true,
            fields: Vec::new(),
        };
        project.create_controller(options).unwrap();
    }
    let alarm = ApiOptions { controller: false, ..ApiOptions::new("clock", "v1", "Alarm") };
    project.create_extension(alarm.field("at:time").unwrap()).unwrap();
    webhook(&mut project, "Book", true, true);
    webhook(&mut project, "Order", false, true);
    webhook(&mut project, "Type", true, false);
    webhook(&mut project, "Ingress", true, true);
    controller(&mut project, "apps", "v1", "Deployment", true);
    controller(&mut project, "core", "v1", "Namespace", false);
    controller(&mut project, "cert-manager.io", "v1", "Certificate", true);
    controller(&mut project, "core", "v1", "Node", false);
    controller(&mut project, "core", "v1", "Event", true);
    controller(&mut project, "apiextensions.k8s.io", "v1", "CustomResourceDefinition", false);
    webhook(&mut project, "APIService", true, true);
    controller(&mut project, "install.example.org", "latest", "Operator", false);
    controller(&mut project, "install.example.org", "type", "api", true);
    webhook(&mut project, "api", true, true);
    project
}

#[test]
fn every_template_renders_completely() {
    let mut project = everything();
    for license in [License::Apache2, License::Mit, License::None] {
        project.license = license;
        for (path, text) in generate(&project) {
            assert!(text.ends_with('\n'), "{path} must end with a line break");
            assert!(!text.contains("\n\n\n"), "{path} has two blank lines:\n{text}");
            assert!(!text.ends_with("\n\n"), "{path} ends with a blank line");
            for line in text.lines() {
                assert_eq!(line.trim_end(), line, "{path} has blanks at the end of a line");
                assert!(!line.starts_with('%'), "{path}: {line}");
                let hole = line.contains("{{") && !line.contains("${{") && !line.contains("r#\"{");
                assert!(!hole, "{path}: {line}");
            }
        }
    }
}

#[test]
fn modules_are_declared_and_everything_is_wired() {
    let files = generate(&everything());
    assert_eq!(
        files["src/lib.rs"].lines().skip(2).collect::<Vec<_>>(),
        ["pub mod api;", "pub mod controller;", "pub mod extension;", "pub mod operator;", "pub mod webhook;"]
    );
    let operator = &files["src/operator.rs"];
    for part in [
        "use crate::{api, controller, webhook};",
        ".define::<api::book::v1::Book>()",
        ".define::<api::book::v2::Book>()",
        ".conversion(api::book::conversion::conversion())",
        ".controller(controller::deployment::controller())",
        ".controller(controller::certificate::controller())",
        ".webhook(webhook::ingress::webhook())",
    ] {
        assert!(operator.contains(part), "{part} in {operator}");
    }
    assert!(!operator.contains("define::<api::certificate"), "{operator}");
    let is_module = |path: &&String| path.starts_with("src/") && !path.starts_with("src/bin/");
    for path in files.keys().filter(is_module).filter(|path| path.matches('/').count() == 2) {
        let (folder, file) = path.rsplit_once('/').unwrap();
        let declared = format!("pub mod {};", file.trim_end_matches(".rs"));
        assert!(files[&format!("{folder}.rs")].contains(&declared), "{path}");
    }
}

#[test]
fn an_api_server_has_a_program_tests_and_manifests() {
    let files = generate(&everything());
    for (path, part) in [
        ("Cargo.toml", "default-run = \"book-shop\"\n"),
        ("Cargo.toml", "windlass-extension = "),
        ("Dockerfile", "COPY --from=build /book-shop-apiserver /book-shop-apiserver\n"),
        ("src/extension.rs", "        .namespace(\"book-shop-system\")\n        .kind::<api::alarm::Alarm>()\n}"),
        ("src/bin/book-shop-apiserver.rs", "book_shop::extension::extension().main().await"),
        ("src/api/alarm/v1.rs", "pub struct AlarmStatus {"),
        ("tests/it/main.rs", "mod apiserver;\n"),
        ("tests/it/apiserver.rs", "let listed = Api::<api::alarm::Alarm>::all("),
        ("deploy/extension/kustomization.yaml", "  - extension.yaml\n"),
        ("deploy/rbac/alarm.yaml", "resources: [\"alarms\"]"),
        ("deploy/extension/samples/kustomization.yaml", "- alarm_v1.yaml"),
        ("deploy/extension/samples/alarm_v1.yaml", "kind: Alarm\n"),
    ] {
        assert!(files[path].contains(part), "{part} in {path}:\n{}", files[path]);
    }
    assert!(!files["deploy/samples/kustomization.yaml"].contains("alarm"), "they can be applied without the server");
    assert!(!files["src/operator.rs"].contains("alarm"), "it is no custom resource");
    let without = generate(&Project::new(ProjectOptions::new("a", "example.com")).unwrap());
    assert!(!without["Cargo.toml"].contains("default-run") && !without.contains_key("src/extension.rs"));
}

#[test]
fn enum_values_that_are_not_identifiers_get_other_variants() {
    let files = generate(&everything());
    let types = &files["src/api/book/v1.rs"];
    for (word, variant) in [("1", "N1"), ("2nd", "N2nd"), ("self", "SelfValue"), ("+", "Value4")] {
        assert!(types.contains(&format!("    #[serde(rename = \"{word}\")]\n    {variant},\n")), "{types}");
    }
    assert!(files["tests/it/book.rs"].contains("edition: BookEdition::N1,"), "{}", files["tests/it/book.rs"]);
    assert!(files["deploy/samples/book_v1.yaml"].contains("edition: \"1\"\n"));
}

#[test]
fn there_is_no_event_about_an_event() {
    let files = generate(&everything());
    assert!(files["src/controller/node.rs"].contains("ctx.event(&node)"));
    assert!(!files["src/controller/event.rs"].contains("ctx.event("), "{}", files["src/controller/event.rs"]);
}

#[test]
fn types_of_foreign_kinds_may_be_renamed() {
    let files = generate(&everything());
    for (path, part) in [
        ("src/api/operator.rs", "pub mod latest;"),
        (
            "src/api/operator/latest.rs",
            "    version = \"latest\",\n    kind = \"Operator\",\n    root = \"OperatorObject\",\n",
        ),
        ("src/api/operator/latest.rs", "pub struct OperatorObjectSpec {}"),
        ("src/controller/operator.rs", "pub fn controller() -> Controller<OperatorObject> {"),
        ("tests/it/main.rs", ".with_crd::<api::operator::OperatorObject>()"),
        ("tests/it/operator.rs", "fn example() -> OperatorObject {"),
        ("tests/it/operator.rs", "Api::<OperatorObject>::all(plane.client())"),
        // Test modules that share the name of the types' module get a prefix.
        ("src/api/install_api.rs", "pub mod type_;\n\n"),
        ("src/api/install_api.rs", "pub use type_::*;"),
        ("src/api/install_api/type_.rs", "    version = \"type\",\n    kind = \"api\",\n    root = \"ApiObject\",\n"),
        ("src/webhook/install_api.rs", "pub fn webhook() -> Webhook<ApiObject> {"),
        ("tests/it/install_api.rs", "ApiObject::new(\"example\", ApiObjectSpec {})"),
        ("src/controller/book.rs", "use crate::api::book::{Book, BookStatus};"),
    ] {
        assert!(files[path].contains(part), "{part} in {path}:\n{}", files[path]);
    }
}

#[test]
fn a_project_without_resources_has_none_of_their_files() {
    let files = generate(&Project::new(ProjectOptions::new("empty", "example.com")).unwrap());
    assert!(files.keys().all(|path| !path.contains("api") && !path.contains("crd")), "{:?}", files.keys());
    assert_eq!(files["src/lib.rs"], "//! The empty operator.\n\npub mod operator;\n");
}

#[test]
fn the_windlass_dependency_follows_the_source() {
    let manifest = |source: Source| {
        let mut options = ProjectOptions::new("a", "example.com");
        options.windlass = source;
        generate(&Project::new(options).unwrap())["Cargo.toml"].clone()
    };
    assert!(manifest(Source::Version("0.1".into())).contains("windlass-testing = \"0.1\"\n"));
    assert!(manifest(Source::Path("../windlass/".into())).contains("{ path = \"../windlass/crates/windlass\" }"));
    let git = |rev: Option<&str>| Source::Git(GitSource { url: "https://a/b".into(), rev: rev.map(str::to_owned) });
    assert!(manifest(git(None)).contains("windlass = { git = \"https://a/b\" }"));
    let pinned = "{ git = \"https://a/b\", rev = \"5ea7566\" }\n";
    for name in ["windlass", "windlass-testing"] {
        assert!(manifest(git(Some("5ea7566"))).contains(&format!("{name} = {pinned}")));
    }
}

#[test]
fn crds_in_reserved_groups_are_annotated_as_unapproved() {
    for (domain, expected) in [("k8s.io", true), ("x.kubernetes.io", true), ("myk8s.io", false)] {
        let mut project = Project::new(ProjectOptions::new("a", domain)).unwrap();
        project.create_api(ApiOptions::new("shop", "v1", "Book")).unwrap();
        let types = &generate(&project)["src/api/book/v1.rs"];
        assert_eq!(types.contains("api-approved.kubernetes.io"), expected, "{domain}");
    }
}

#[test]
fn types_of_a_new_version_include_user_edits() {
    let files = generate(&everything());
    let edited = files["src/api/book/v1.rs"].replace("pub stock: i64", "pub stock: i64,\n    pub mine: i64");
    let copied = copy_version(&edited, "Book", "v1", "v2");
    assert!(copied.starts_with("//! Book v2.\n"));
    assert!(copied.contains("version = \"v2\"") && !copied.contains("version = \"v1\""));
    assert!(copied.contains("pub mine: i64"));
}

#[test]
fn objects_become_structs_named_after_their_path() {
    let files = generate(&everything());
    let types = &files["src/api/book/v1.rs"];
    for part in [
        "    pub shelf: BookShelf,\n",
        "    pub copies: Vec<BookCopies>,\n",
        "    pub prices: BTreeMap<String, BookPrices>,\n",
        "    pub limits: BTreeMap<String, Quantity>,\n",
        "pub struct BookShelf {\n    /// The row.\n    #[serde(default = \"default_shelf_row\")]\n",
        "fn default_shelf_row() -> i32 {\n    1\n}\n",
        "    pub label: Option<BookShelfLabel>,\n",
        "pub enum BookShelfSide {\n",
        "    pub observed_generation: Option<i64>,\n    /// The sold.\n",
        "    pub phase: Option<BookStatusPhase>,\n",
        "    pub readers: Vec<BookStatusReaders>,\n",
        "\"jsonPath\": \".status.phase\"",
        "fn quantity_map_schema(",
        "fn time_list_schema(",
        "fn duration_map_schema(",
    ] {
        assert!(types.contains(part), "{part} in {types}");
    }
    let sample = &files["deploy/samples/book_v1.yaml"];
    let lines = "  shelf:\n    row: 1\n    side: left\n  copies:\n    - number: 1\n    - number: 1\n  prices:\n    \
                 example:\n      amount: 1.0\n";
    assert!(sample.ends_with(lines), "{sample}");
    assert!(sample.contains("  limits:\n    example: \"1Gi\"\n"), "{sample}");
}

#[test]
fn further_controllers_have_modules_names_and_tests() {
    let files = generate(&everything());
    let controller = &files["src/controller/book_backup.rs"];
    assert!(controller.contains("Controller::new(\"book-backup\", reconcile)"), "{controller}");
    assert!(!controller.contains("BookStatus"), "only one controller writes the status: {controller}");
    let operator = &files["src/operator.rs"];
    assert!(operator.contains(".controller(controller::book_backup::controller())"), "{operator}");
    assert!(!operator.contains("controller::config_map::"), "{operator}");
    let tests = &files["tests/it/config_map.rs"];
    assert!(tests.contains("a_config_map_is_reconciled_by_watch_dog()"), "{tests}");
    assert!(tests.contains(".event(\"WatchDogReconciled\")"), "{tests}");
}
