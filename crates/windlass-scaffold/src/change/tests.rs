use super::*;
use crate::{Overlay, ProjectOptions};

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
        name: None,
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
fn rejected(result: Result<(), ScaffoldError>, message: &str, hint: &str) {
    let error = result.unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
    assert!(error.hint().contains(hint), "{}", error.hint());
}

#[test]
fn kinds_and_plurals_are_unique() {
    let mut project = with_book();
    let again = ApiOptions::new("shop", "v1", "Book");
    rejected(project.create_api(again), "Book of shop.example.com already exists", "windlass edit");
    let later = ApiOptions::new("shop", "v2", "Book");
    rejected(project.create_api(later), "already exists", "windlass create version");
    let same = ApiOptions { plural: Some("books".to_owned()), ..ApiOptions::new("shop", "v1", "Tome") };
    rejected(project.create_api(same), "the plural books in shop.example.com", "--plural");
    let twice = ApiOptions::new("shop", "v1", "Pen").field("a:int").unwrap().field("a:string").unwrap();
    rejected(project.create_api(twice), "the field a already exists", "another name");
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
    rejected(project.create_version(VersionOptions::new("v1", "Book")), "Book v1 already exists", "--version");
    let from = VersionOptions { from: Some("v3".to_owned()), ..VersionOptions::new("v2", "Book") };
    rejected(project.create_version(from), "Book v3 does not exist", "versions: v1beta1, v1");
    rejected(
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
    rejected(project.create_webhook(webhook("Book", false, false)), "no webhook is selected", "--defaulting");
    rejected(project.create_webhook(webhook("Book", false, true)), "one version", "create version");
    project.create_webhook(webhook("Book", true, false)).unwrap();
    rejected(project.create_webhook(webhook("Book", true, false)), "already exists", "nothing to do");
    project.create_webhook(webhook("Pod", true, false)).unwrap();
    assert_eq!((project.resources[1].origin, project.resources[1].controller), (Origin::Builtin, false));
    rejected(
        project.create_webhook(webhook("Moon", true, false)),
        "nor a built-in kind",
        "kinds of this project: Book",
    );
}

#[test]
fn controllers_are_for_own_built_in_and_foreign_kinds() {
    let mut project = with_book();
    rejected(project.create_controller(controller(None, None, "Book")), "already exists", "edit it");
    let api = ApiOptions { controller: false, ..ApiOptions::new("shop", "v1", "Pen") };
    project.create_api(api).unwrap();
    project.create_controller(controller(None, None, "Pen")).unwrap();
    assert!(project.resources[1].controller);
    project.create_controller(controller(Some("apps"), Some("v1"), "Deployment")).unwrap();
    project.create_controller(controller(Some("core"), None, "Pod")).unwrap();
    project.create_controller(controller(Some("cert-manager.io"), Some("v1"), "Certificate")).unwrap();
    assert_eq!(project.resources[4].origin, Origin::Foreign);
    rejected(project.create_controller(controller(None, None, "Moon")), "neither a kind of this project", "--group");
    rejected(
        project.create_controller(controller(Some("apps"), Some("v1"), "Moon")),
        "Moon of apps/v1 is neither",
        "full group",
    );
    rejected(project.create_controller(controller(Some("apps"), Some("v7"), "StatefulSet")), "apps/v7", "of apps/v1");
}

#[test]
fn a_kind_has_several_controllers_with_names() {
    let mut project = with_book();
    let named =
        |kind: &str, name: &str| ControllerOptions { name: Some(name.to_owned()), ..controller(None, None, kind) };
    project.create_controller(named("Book", "backup")).unwrap();
    project.create_controller(named("Pod", "watch-dog")).unwrap();
    rejected(project.create_controller(named("Book", "backup")), "src/controller/book_backup.rs already", "--name");
    rejected(project.create_controller(named("Book", "Back up")), "must consist of lower-case", "backup");
    assert_eq!((project.resources[0].controller, project.resources[1].controller), (true, false));
    let modules: Vec<String> = project.resources.iter().flat_map(Resource::controller_modules).collect();
    assert_eq!(modules, ["book", "book_backup", "pod_watch_dog"]);
    // The other way around, too.
    project.create_api(ApiOptions::new("shop", "v1", "BookBackup")).unwrap();
    assert_eq!(project.resources[2].module, "shop_book_backup");
    assert_eq!(Project::read(&project.write()).unwrap(), project);
}

fn fields(texts: &[&str]) -> Vec<Field> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn edit(project: &mut Project, add: &[&str], remove: &[&str]) -> Result<(), ScaffoldError> {
    let remove = remove.iter().map(|name| (*name).to_owned()).collect();
    project.edit_fields(None, "Book", None, FieldEdits { add: fields(add), remove, ..FieldEdits::default() })
}

fn texts(project: &Project) -> Vec<String> {
    project.resources[0].versions[0].fields.iter().map(ToString::to_string).collect()
}

#[test]
fn fields_are_added_changed_and_removed() {
    let mut project = with_book();
    edit(&mut project, &["pages:int64", "isbn:string"], &[]).unwrap();
    assert_eq!(texts(&project), ["pages:int64", "isbn:string"]);
    rejected(edit(&mut project, &["a:int", "a:string"], &[]), "the field a already exists", "once");
    edit(&mut project, &[], &["pages"]).unwrap();
    rejected(edit(&mut project, &[], &["pages"]), "field pages of Book does not exist", "isbn");
}

#[test]
fn objects_are_changed_with_their_fields() {
    let mut project = with_book();
    let orphan = edit(&mut project.clone(), &["cover.colour:string"], &[]);
    rejected(orphan, "the object cover, which has the field colour, does not exist", "--field cover:object");
    rejected(
        edit(&mut project.clone(), &["pages.first:int"], &[]),
        "pages cannot have the field first",
        "pages:object",
    );
    edit(&mut project, &["cover:object?", "cover.colour:enum(red|blue)", "prices:map[string]object"], &[]).unwrap();
    edit(&mut project, &["prices.amount:number"], &[]).unwrap();
    let twice = edit(&mut project.clone(), &["coverColour:enum(a|b)"], &[]);
    rejected(twice, "cover.colour and coverColour both need a Rust type BookCoverColour", "rename");
    assert_eq!(Project::read(&project.write()).unwrap(), project);
    edit(&mut project, &[], &["cover"]).unwrap();
    assert_eq!(texts(&project), ["pages:int32", "prices:map[string]object", "prices.amount:number"]);
}

#[test]
fn fields_of_the_status_are_optional() {
    let mut project = project();
    let book = ApiOptions::new("shop", "v1", "Book").status_field("sold:int32").unwrap();
    project.create_api(book).unwrap();
    assert_eq!(project.resources[0].versions[0].status_fields[0].to_string(), "sold:int32?");
    let add_status = |text: &str| FieldEdits {
        add_status: vec![text.parse::<Field>().unwrap().into_status().unwrap()],
        ..FieldEdits::default()
    };
    let known = project.clone().edit_fields(None, "Book", None, add_status("conditions:[]string"));
    rejected(known, "conditions of the status already exists", "every status");
    project.edit_fields(None, "Book", None, add_status("phase:enum(New|Old)")).unwrap();
    assert_eq!(project.resources[0].versions[0].status_fields.len(), 2);
    let error = "a:int,default=1".parse::<Field>().unwrap().into_status().unwrap_err();
    assert!(error.to_string().contains("no default"), "{error}");
    // A copy has the same fields.
    project.create_version(VersionOptions::new("v2", "Book")).unwrap();
    assert_eq!(project.resources[0].versions[1].status_fields.len(), 2);
}

#[test]
fn overlays_are_added_changed_and_removed() {
    let mut project = project();
    let overlay = |name: &str| Overlay { name: name.to_owned(), ..Overlay::default() };
    rejected(project.create_overlay(overlay("production")), "production changes nothing", "--replicas");
    rejected(project.create_overlay(overlay("../x")), "must consist of", "production");
    let none = Overlay { replicas: Some(0), ..overlay("a") };
    rejected(project.create_overlay(none), "0 replicas", "--replicas 1");
    project.create_overlay(Overlay { replicas: Some(2), ..overlay("production") }).unwrap();
    let whole = Overlay {
        cert_manager: true,
        replicas: Some(3),
        shards: true,
        watch_namespaces: vec!["a".to_owned(), "b".to_owned()],
        ..overlay("production")
    };
    project.create_overlay(whole).unwrap();
    let flags = ["--cert-manager", "--replicas=3", "--shards", "--watch-namespaces=a,b"];
    assert_eq!(project.overlay("production").unwrap().flags(), flags);
    assert_eq!(Project::read(&project.write()).unwrap(), project);
    rejected(project.delete_overlay("other"), "overlay other does not exist", "production");
    project.delete_overlay("production").unwrap();
    assert!(project.overlays.is_empty());
}

#[test]
fn an_api_server_serves_kinds_that_are_not_custom_resources() {
    let mut project = with_book();
    let alarm = ApiOptions { controller: false, ..ApiOptions::new("clock", "v1", "Alarm") };
    assert!(!project.has_extension());
    project.create_extension(alarm.clone()).unwrap();
    assert!(project.has_extension());
    let resource = project.resource(None, "Alarm").unwrap();
    assert_eq!((resource.group.as_str(), resource.origin), ("clock.example.com", Origin::Served));
    rejected(project.create_extension(alarm), "Alarm of clock.example.com already exists", "");
    // A group version has one server.
    let shelf = ApiOptions::new("shop", "v1", "Shelf");
    rejected(project.create_extension(shelf.clone()), "shop.example.com/v1 has custom resources: Book", "--version");
    project.create_extension(ApiOptions { version: "v2".to_owned(), ..shelf }).unwrap();
    rejected(project.create_webhook(webhook("Alarm", true, false)), "do not receive requests", "src/extension.rs");
    let version = VersionOptions::new("v2", "Alarm");
    rejected(project.create_version(version), "Alarm is not a custom resource", "windlass create extension");
    // Controllers may reconcile it.
    project.create_controller(controller(None, None, "Alarm")).unwrap();
    assert_eq!(Project::read(&project.write()).unwrap(), project);

    let mut long = Project::new(ProjectOptions::new("a".repeat(54), "example.com")).unwrap();
    rejected(
        long.create_extension(ApiOptions::new("", "v1", "Alarm")),
        "too long for the name of a Service",
        "shorter",
    );
}
