use expect_test::expect;

use super::*;
use crate::{ApiOptions, Edits, VersionOptions};

fn project() -> Project {
    let mut project = Project::new(ProjectOptions::new("bookshop", "example.com")).unwrap();
    let options = ApiOptions::new("shop", "v1", "Book").field("pages:int32=1..5000").unwrap();
    project.create_api(options).unwrap();
    project
}

#[test]
fn the_project_file_round_trips() {
    let project = project();
    let text = project.write();
    expect![[r##"
        # Scaffold metadata, managed by windlass. Change it with `windlass edit`.
        scaffold: 3
        projectName: bookshop
        domain: example.com
        description: The bookshop operator
        license: apache2
        windlass:
          version: "0.1"
        resources:
        - group: shop.example.com
          kind: Book
          plural: books
          module: book
          namespaced: true
          origin: own
          storageVersion: v1
          versions:
          - name: v1
            fields:
            - pages:int32=1..5000
          controller: true
          webhooks:
            defaulting: false
            validating: false
            conversion: false
    "##]]
    .assert_eq(&text);
    assert_eq!(Project::read(&text), Ok(project));
}

#[test]
fn errors_in_the_project_file_have_a_line_number() {
    let text = project().write();
    for (from, to, expected) in [
        ("domain: example.com", "domain: example.com\nmoon: full", "PROJECT:5: "),
        ("pages:int32", "pages:integer", "unknown type \"integer\""),
        ("kind: Book", "kind: ../../Book", "must consist of letters and digits in CamelCase"),
        ("module: book", "module: ../book", "is not a module name"),
        ("storageVersion: v1", "storageVersion: v2", "Book has no version v2"),
        ("scaffold: 3", "scaffold: 99", "this windlass uses scaffold"),
    ] {
        assert!(text.contains(from), "{from} in {text}");
        let error = Project::read(&text.replace(from, to)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.hint().is_empty());
    }
}

#[test]
fn groups_end_with_the_domain() {
    let project = project();
    for (group, expected) in [
        ("shop", "shop.example.com"),
        ("", "example.com"),
        ("example.com", "example.com"),
        ("shop.example.com", "shop.example.com"),
        ("myexample.com", "myexample.com.example.com"),
    ] {
        assert_eq!(project.own_group(group), expected);
    }
}

#[test]
fn resources_are_found_by_kind_and_group() {
    let mut project = project();
    assert_eq!(project.resource(None, "Book").unwrap().group, "shop.example.com");
    assert_eq!(project.resource(Some("shop"), "Book").unwrap().plural, "books");
    assert_eq!(project.resource(None, "Shelf").unwrap_err().hint(), "kinds of this project: Book (shop.example.com)");
    project.create_api(ApiOptions::new("library", "v1", "Book")).unwrap();
    assert_eq!(project.resource(None, "Book").unwrap_err().to_string(), "several groups have the kind Book");
    assert_eq!(project.resource(Some("library"), "Book").unwrap().module, "library_book");
    let version = VersionOptions { group: Some("shop".to_owned()), ..VersionOptions::new("v2", "Book") };
    project.create_version(version).unwrap();
    assert_eq!(project.resource(Some("shop"), "Book").unwrap().versions.len(), 2);
}

#[test]
fn sources_that_cargo_would_reject_are_rejected() {
    let of = |windlass: Source| Project::new(ProjectOptions { windlass, ..ProjectOptions::new("shop", "example.com") });
    for version in ["0.1", "=0.1.2", "^1", ">=0.1, <0.3", "*", "1.0.0-rc.1"] {
        assert!(of(Source::Version(version.to_owned())).is_ok(), "{version}");
    }
    for version in ["nonsense", "", "v1", "1.2.3.4"] {
        let error = of(Source::Version(version.to_owned())).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{version:?} is not a version requirement: ")), "{error}");
        assert!(error.hint().contains("0.1"));
    }
    let git =
        |url: &str, rev: Option<&str>| Source::Git(GitSource { url: url.to_owned(), rev: rev.map(str::to_owned) });
    for url in ["https://example.com/windlass", "ssh://git@example.com/windlass.git", "file:///src/windlass"] {
        assert!(of(git(url, None)).is_ok(), "{url}");
    }
    for url in ["not a url", "", "https://", "git@example.com:windlass", "https://example.com/a b"] {
        let error = of(git(url, None)).unwrap_err();
        assert!(error.hint().starts_with("write it as https://"), "{error}");
        let edits = Edits { windlass: Some(git(url, None)), ..Edits::default() };
        assert_eq!(of(Source::Version("0.1".to_owned())).unwrap().edit(edits), Err(error));
    }
    assert!(of(git("https://example.com/windlass", Some("5ea7566"))).is_ok());
    for rev in ["", "a b"] {
        assert!(of(git("https://example.com/windlass", Some(rev))).is_err(), "{rev:?}");
    }
}

#[test]
fn the_source_of_windlass_round_trips_through_the_project_file() {
    let git = |rev: Option<&str>| GitSource { url: "https://example.com/w".to_owned(), rev: rev.map(str::to_owned) };
    for windlass in [
        Source::Version("0.1".to_owned()),
        Source::Path("../windlass".to_owned()),
        Source::Git(git(None)),
        Source::Git(git(Some("5ea7566"))),
    ] {
        let project = Project::new(ProjectOptions { windlass, ..ProjectOptions::new("shop", "example.com") }).unwrap();
        assert_eq!(Project::read(&project.write()).unwrap(), project);
    }
    let text = Project::new(ProjectOptions::new("shop", "example.com")).unwrap().write();
    let both = text.replace("windlass:\n", "windlass:\n  path: ../windlass\n");
    let error = Project::read(&both).unwrap_err().to_string();
    assert!(error.contains("exactly one of version, path and git"), "{error}");
}
