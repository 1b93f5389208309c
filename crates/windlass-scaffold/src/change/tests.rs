use super::*;
use crate::ProjectOptions;

fn project() -> Project {
    Project::new(ProjectOptions::new("shop", "example.com")).unwrap()
}

fn with_book() -> Project {
    let mut project = project();
    project.create_api(ApiOptions::new("shop", "v1", "Book").field("pages:int32").unwrap()).unwrap();
    project
}

fn controller(group: Option<&str>, version: Option<&str>, kind: &str) -> ControllerOptions {
    ControllerOptions {
        group: group.map(str::to_owned),
        version: version.map(str::to_owned),
        kind: kind.to_owned(),
        plural: None,
        namespaced: true,
        fields: Vec::new(),
    }
}

fn webhook(kind: &str, defaulting: bool, conversion: bool) -> WebhookOptions {
    let webhooks = Webhooks { defaulting, validating: false, conversion };
    WebhookOptions { group: None, kind: kind.to_owned(), webhooks }
}

#[track_caller]
fn refused(result: Result<(), ScaffoldError>, message: &str, hint: &str) {
    let error = result.unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
    assert!(error.hint().contains(hint), "{}", error.hint());
}

#[test]
fn kinds_and_plurals_are_unique() {
    let mut project = with_book();
    let again = ApiOptions::new("shop", "v1", "Book");
    refused(project.create_api(again), "Book of shop.example.com already exists", "windlass edit");
    let later = ApiOptions::new("shop", "v2", "Book");
    refused(project.create_api(later), "already exists", "windlass create version");
    let same = ApiOptions { plural: Some("books".to_owned()), ..ApiOptions::new("shop", "v1", "Tome") };
    refused(project.create_api(same), "the plural books in shop.example.com", "--plural");
    let twice = ApiOptions::new("shop", "v1", "Pen").field("a:int").unwrap().field("a:string").unwrap();
    refused(project.create_api(twice), "the field a already exists", "another name");
}

#[test]
fn modules_are_named_after_the_kind_unless_the_name_is_in_use() {
    let mut project = with_book();
    for (group, kind, module) in [
        ("library", "Book", "library_book"),
        ("shop", "Type", "shop_type"),
        ("shop", "Main", "shop_main"),
        ("shop", "Core", "shop_core"),
        ("2nd", "Book", "the_book"),
        ("3rd", "Book", "the_book_2"),
    ] {
        project.create_api(ApiOptions::new(group, "v1", kind)).unwrap();
        assert_eq!(project.resources.last().unwrap().module, module);
    }
}

#[test]
fn a_new_version_copies_the_storage_version_and_is_converted() {
    let mut project = with_book();
    let options =
        VersionOptions { fields: vec!["isbn:string?".parse().unwrap()], ..VersionOptions::new("v1beta1", "Book") };
    project.create_version(options).unwrap();
    let book = &project.resources[0];
    assert_eq!(book.versions.iter().map(|version| version.name.as_str()).collect::<Vec<_>>(), ["v1beta1", "v1"]);
    assert_eq!((book.storage_version.as_str(), book.webhooks.conversion), ("v1", true));
    assert_eq!(book.versions[0].fields.len(), 2);
    refused(project.create_version(VersionOptions::new("v1", "Book")), "Book v1 already exists", "--version");
    let from = VersionOptions { from: Some("v3".to_owned()), ..VersionOptions::new("v2", "Book") };
    refused(project.create_version(from), "Book v3 does not exist", "versions: v1beta1, v1");
    refused(
        project.delete_api(None, "Book", Some("v1")),
        "v1 is the storage version of Book",
        "change the storage version first",
    );
    project.set_storage(None, "Book", "v1beta1").unwrap();
    project.delete_api(None, "Book", Some("v1")).unwrap();
    assert!(!project.resources[0].webhooks.conversion);
    project.delete_api(None, "Book", Some("v1beta1")).unwrap();
    assert!(project.resources.is_empty());
}

#[test]
fn webhooks_are_added_to_own_and_built_in_kinds() {
    let mut project = with_book();
    refused(project.create_webhook(webhook("Book", false, false)), "no webhook is selected", "--defaulting");
    refused(project.create_webhook(webhook("Book", false, true)), "one version", "create version");
    project.create_webhook(webhook("Book", true, false)).unwrap();
    refused(project.create_webhook(webhook("Book", true, false)), "already exists", "nothing to do");
    project.create_webhook(webhook("Pod", true, false)).unwrap();
    assert_eq!((project.resources[1].origin, project.resources[1].controller), (Origin::Builtin, false));
    refused(project.create_webhook(webhook("Moon", true, false)), "nor a built-in kind", "kinds of this project: Book");
}

#[test]
fn controllers_are_for_own_built_in_and_foreign_kinds() {
    let mut project = with_book();
    refused(project.create_controller(controller(None, None, "Book")), "already exists", "edit it");
    let api = ApiOptions { controller: false, ..ApiOptions::new("shop", "v1", "Pen") };
    project.create_api(api).unwrap();
    project.create_controller(controller(None, None, "Pen")).unwrap();
    assert!(project.resources[1].controller);
    project.create_controller(controller(Some("apps"), Some("v1"), "Deployment")).unwrap();
    project.create_controller(controller(Some("core"), None, "Pod")).unwrap();
    project.create_controller(controller(Some("cert-manager.io"), Some("v1"), "Certificate")).unwrap();
    assert_eq!(project.resources[4].origin, Origin::Foreign);
    refused(project.create_controller(controller(None, None, "Moon")), "neither a kind of this project", "--group");
    refused(
        project.create_controller(controller(Some("apps"), Some("v1"), "Moon")),
        "Moon of apps/v1 is neither",
        "full group",
    );
    refused(project.create_controller(controller(Some("apps"), Some("v7"), "StatefulSet")), "apps/v7", "of apps/v1");
}

#[test]
fn fields_are_added_changed_and_removed() {
    let mut project = with_book();
    let fields = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Field>>();
    project.edit_fields(None, "Book", None, fields(&["pages:int64", "isbn:string"]), &[]).unwrap();
    let texts: Vec<String> = project.resources[0].versions[0].fields.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["pages:int64", "isbn:string"]);
    project.edit_fields(None, "Book", Some("v1"), Vec::new(), &["pages".to_owned()]).unwrap();
    let missing = project.edit_fields(None, "Book", None, Vec::new(), &["pages".to_owned()]);
    refused(missing, "field pages of Book does not exist", "isbn");
}
