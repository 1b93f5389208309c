//! `windlass generate`: generated files, stale files, and files that are left alone.

use std::{env, fs, process::Command};

use serde_json::{Value, json};
use windlass_schema::yaml;

use crate::{
    golden::{Golden, checked_in, program},
    process::output,
};

/// Placeholder for any watched namespace.
const WATCHED: &str = "--watch-namespaces=windlass-watched";

/// The golden files of windlass-scaffold are generated from the current manifests of the operator.
#[test]
fn the_recorded_manifests_are_up_to_date() {
    let manifests = |flags: &[&str]| -> Value {
        let image = ["--image", "registry.example.com/guestbook:v1", "--namespace", "guestbook-system"];
        let said = output(
            Command::new(program()).args(["manifests", "-o", "json", "--network-policy"]).args(image).args(flags),
        );
        let list: Value = serde_json::from_slice(&said.stdout).unwrap();
        list["items"].clone()
    };
    let file = |path: &str| -> Vec<Value> {
        let text = fs::read_to_string(checked_in().join("guestbook").join(path)).unwrap();
        yaml::documents(&text).iter().map(|(_, document)| yaml::to_json_value(document).unwrap()).collect()
    };
    let said = json!({
        "manifests": manifests(&[]),
        "withCertManager": manifests(&["--cert-manager"]),
        "watched": manifests(&["--only=rbac", WATCHED]),
        "watchedWithCertManager": manifests(&["--only=rbac", WATCHED, "--cert-manager"]),
        "production": manifests(&["--cert-manager", "--replicas=3", "--shards", "--watch-namespaces=team-a,team-b"]),
        "roles": file("deploy/rbac/guestbook.yaml"),
        "samples": file("deploy/samples/guestbook_v1.yaml"),
    });
    let recorded = checked_in().join("packaged/input.json");
    if env::var_os("UPDATE").is_some() {
        fs::write(&recorded, format!("{said:#}\n")).unwrap();
    }
    let there: Value = serde_json::from_str(&fs::read_to_string(&recorded).unwrap()).unwrap();
    assert!(there == said, "rewrite {} with `UPDATE=1 cargo test -p windlass-cli`", recorded.display());
}

#[test]
fn generating_twice_changes_nothing() {
    let golden = Golden::new();
    let stale = golden.run(&["generate", "--check"]);
    assert_eq!((stale.code, stale.out.as_str()), (Some(1), ""));
    assert!(stale.err.contains("dist/chart/Chart.yaml: is missing\n"), "{}", stale.err);
    assert!(stale.err.contains("\nhint: run `windlass generate`"), "{}", stale.err);
    assert!(!golden.root().join("dist").exists());

    let said = golden.must(&["generate"]);
    for path in [
        "deploy/crd/crds.yaml",
        "deploy/rbac/rbac.yaml",
        "deploy/webhook/webhooks.yaml",
        "deploy/manager/manager.yaml",
        "dist/install.yaml",
        "dist/chart/values.yaml",
        "dist/chart/templates/crds/guestbooks.webapp.example.com.yaml",
        "bundle/manifests/guestbook.clusterserviceversion.yaml",
        "bundle.Dockerfile",
        "dist/grafana/guestbook.json",
    ] {
        assert!(said.err.contains(&format!("created {path}\n")), "{path} in {}", said.err);
        assert!(!golden.read(path).is_empty());
    }
    assert_eq!(golden.must(&["generate", "--check"]).err, "everything is up to date\n");
    assert_eq!(golden.must(&["generate"]).err, "everything is up to date\n");
}

#[test]
fn stale_files_are_reported_and_user_files_are_kept() {
    let golden = Golden::new();
    golden.must(&["generate"]);
    golden.edit("dist/chart/values.yaml", "replicas: 1", "replicas: 3");
    golden.edit("dist/chart/Chart.yaml", "version: 0.1.0", "version: 0.0.1");
    golden.edit("deploy/bundle/clusterserviceversion.yaml", "displayName: Guestbook", "displayName: Our guests");
    golden.edit("deploy/crd/crds.yaml", "served: true", "served: false");
    fs::write(golden.root().join("dist/chart/templates/mine.yaml"), "# mine\n").unwrap();
    let old = golden.read("dist/chart/templates/rbac.yaml");
    fs::write(golden.root().join("dist/chart/templates/old.yaml"), old).unwrap();

    let said = golden.run(&["generate", "--check"]);
    assert_eq!(said.code, Some(1));
    for line in [
        "deploy/crd/crds.yaml: +1 -1 lines\n",
        "dist/chart/Chart.yaml: +1 -1 lines\n",
        "dist/chart/templates/old.yaml: is no longer generated\n",
        "bundle/manifests/guestbook.clusterserviceversion.yaml: +1 -1 lines\n",
    ] {
        assert!(said.err.contains(line), "{line} in {}", said.err);
    }
    assert!(!said.err.contains("values.yaml") && !said.err.contains("mine.yaml"), "{}", said.err);

    let shown = golden.must(&["generate", "--dry-run", "--only", "crds"]);
    assert!(shown.out.contains("-") && shown.out.contains("+++ b/deploy/crd/crds.yaml"), "{}", shown.out);
    assert!(!shown.out.contains("chart"), "{}", shown.out);

    golden.must(&["generate"]);
    assert!(golden.read("dist/chart/values.yaml").contains("replicas: 3"));
    assert!(golden.read("dist/chart/Chart.yaml").contains("\nversion: 0.1.0\n"));
    assert!(golden.read("bundle/manifests/guestbook.clusterserviceversion.yaml").contains("displayName: Our guests"));
    assert_eq!(golden.read("dist/chart/templates/mine.yaml"), "# mine\n");
    assert!(!golden.root().join("dist/chart/templates/old.yaml").exists());
    assert_eq!(golden.must(&["generate", "--check"]).err, "everything is up to date\n");
}

#[test]
fn image_and_namespace_are_saved_in_the_kustomization() {
    let golden = Golden::new();
    golden.must(&["generate", "--image", "registry.example.com/guests:v2", "--namespace", "guests"]);
    let root = golden.read("deploy/default/kustomization.yaml");
    assert!(
        root.contains("namespace: guests\n") && root.contains("newName: registry.example.com/guests\n    newTag: v2\n"),
        "{root}"
    );
    let installer = golden.read("dist/install.yaml");
    assert!(installer.contains("image: registry.example.com/guests:v2\n"), "{installer}");
    assert!(!installer.contains("guestbook-system") && !installer.contains("ServiceMonitor"), "{installer}");
    assert_eq!(golden.must(&["generate", "--check"]).err, "everything is up to date\n");

    let said = golden.run(&["generate", "--image", "No Image"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    golden.edit("deploy/default/kustomization.yaml", "images:", "pictures:");
    let said = golden.run(&["generate", "--image", "guests:v3"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("deploy/default/kustomization.yaml has no place for the image"), "{}", said.err);
}

#[test]
fn overlays_are_what_differs_from_the_default_deployment() {
    let golden = Golden::new();
    let said = golden.run(&["create", "overlay", "production"]);
    assert!(said.err.contains("the overlay production changes nothing\nhint: give --cert-manager"), "{}", said.err);
    golden.must(&["create", "overlay", "production", "--replicas", "3", "--watch-namespaces", "team-a,team-b"]);
    golden.must(&["create", "overlay", "sharded", "--shards"]);
    let said = golden.must(&["generate", "--only", "overlays"]);
    assert!(said.err.contains("created deploy/overlays/production/kustomization.yaml\n"), "{}", said.err);
    assert!(!said.err.contains("chart"), "{}", said.err);
    let patches = golden.read("deploy/overlays/production/patches.yaml");
    for part in ["replicas: 3\n", "- --namespace=team-a,team-b\n"] {
        assert!(patches.contains(part), "{part} in {patches}");
    }
    let resources = golden.read("deploy/overlays/production/resources.yaml");
    for part in ["kind: PodDisruptionBudget\n", "kind: Role\n", "namespace: team-b\n"] {
        assert!(resources.contains(part), "{part} in {resources}");
    }
    let sharded = golden.read("deploy/overlays/sharded/patches.yaml");
    assert!(sharded.contains("- --shards\n") && !sharded.contains("image:"), "{sharded}");
    assert_eq!(golden.must(&["generate", "--only", "overlays", "--check"]).err, "everything is up to date\n");

    // They are in the namespace of the default deployment.
    golden.must(&["generate", "--only", "overlays", "--namespace", "guests"]);
    let resources = golden.read("deploy/overlays/production/resources.yaml");
    assert!(resources.contains("namespace: guests\n") && !resources.contains("guestbook-system"), "{resources}");

    golden.must(&["delete", "overlay", "sharded"]);
    let said = golden.must(&["generate", "--only", "overlays"]);
    assert!(said.err.contains("removed deploy/overlays/sharded/patches.yaml\n"), "{}", said.err);
    let said = golden.run(&["delete", "overlay", "sharded"]);
    assert!(
        said.err.contains("overlay sharded does not exist\nhint: overlays of this project: production"),
        "{}",
        said.err
    );
}

#[test]
fn a_new_version_of_the_bundle_replaces_the_one_on_disk() {
    let golden = Golden::new();
    let path = "bundle/manifests/guestbook.clusterserviceversion.yaml";
    golden.must(&["generate", "--only", "bundle"]);
    let first = golden.read(path);
    assert!(first.contains("createdAt: ") && !first.contains("replaces:"), "{first}");
    // As if an older version had been there.
    golden.edit(path, "version: \"0.1.0\"", "version: 0.0.9");
    golden.edit(path, "name: guestbook.v0.1.0", "name: guestbook.v0.0.9");
    golden.must(&["generate", "--only", "bundle"]);
    assert!(golden.read(path).contains("  replaces: guestbook.v0.0.9\n"), "{}", golden.read(path));
    assert_eq!(golden.must(&["generate", "--only", "bundle", "--check"]).err, "everything is up to date\n");
}
