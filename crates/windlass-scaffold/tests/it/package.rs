//! Packages generated from the manifests of the golden project's operator. `cargo xtask scaffold` validates them with
//! API servers and Helm.

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};
use windlass_scaffold::{
    Files, Overlay, Project, ProjectOptions,
    package::{CATALOG, Image, Package, Product, Variant, lost_in_bundle},
};
use windlass_schema::yaml;

use crate::golden;

/// Output of the operator.
struct Input {
    project: Project,
    image: Image,
    said: Value,
}

impl Input {
    fn new() -> Self {
        let text = fs::read_to_string(golden::folder("packaged/input.json")).unwrap();
        Self {
            project: golden::project().0,
            image: "registry.example.com/guestbook:v1".parse().unwrap(),
            said: serde_json::from_str(&text).unwrap(),
        }
    }

    fn list(&self, name: &str) -> &[Value] {
        self.said[name].as_array().unwrap()
    }

    fn package(&self) -> Package<'_> {
        Package {
            project: &self.project,
            version: "0.1.0",
            image: &self.image,
            install: self.list("manifests"),
            manifests: self.list("manifests"),
            with_cert_manager: self.list("withCertManager"),
            watched: self.list("watched"),
            watched_with_cert_manager: self.list("watchedWithCertManager"),
            variants: &[],
            roles: self.list("roles"),
            samples: self.list("samples"),
            catalog: None,
            previous: None,
            now: "2026-01-31T12:00:00Z",
        }
    }
}

fn files(package: &Package<'_>) -> Files {
    let made = Product::ALL.iter().flat_map(|product| product.files(package));
    made.map(|file| (file.path, file.text)).collect()
}

#[test]
fn packages_match_the_golden_files() {
    let input = Input::new();
    let overlay = Overlay {
        name: "production".to_owned(),
        cert_manager: true,
        replicas: Some(3),
        shards: true,
        watch_namespaces: vec!["team-a".to_owned(), "team-b".to_owned()],
    };
    let variant = Variant { overlay: &overlay, default: input.list("manifests"), manifests: input.list("production") };
    golden::check("packaged/guestbook", &files(&Package { variants: &[variant], ..input.package() }));
}

/// Applies the patches of an overlay as kustomize does, for the fields that they contain.
fn applied(old: &Value, patch: &Value) -> Value {
    let (Some(fields), Some(patch)) = (old.as_object(), patch.as_object()) else { return patch.clone() };
    let mut new = fields.clone();
    for (field, value) in patch {
        let value = match (field.as_str(), new.get(field)) {
            (_, _) if value.is_null() => {
                new.remove(field);
                continue;
            }
            ("containers", Some(old)) => Value::from(vec![applied(&old[0], &value[0])]),
            (_, Some(old)) => applied(old, value),
            (_, None) => value.clone(),
        };
        new.insert(field.clone(), value);
    }
    new.into()
}

#[test]
fn the_default_deployment_with_an_overlay_is_that_of_the_operator() {
    let input = Input::new();
    let overlay = Overlay { name: "a".to_owned(), replicas: Some(3), ..Overlay::default() };
    let variant = Variant { overlay: &overlay, default: input.list("manifests"), manifests: input.list("production") };
    let made = files(&Package { variants: &[variant], ..input.package() });
    let documents = |file: &str| -> Vec<Value> {
        let text = &made[&format!("deploy/overlays/a/{file}.yaml")];
        yaml::documents(text).iter().map(|(_, document)| serde_saphyr::from_str(document).unwrap()).collect()
    };
    let identity = |one: &Value| {
        (one["kind"].to_string(), one["metadata"]["namespace"].to_string(), one["metadata"]["name"].to_string())
    };
    let mut objects: BTreeMap<_, Value> =
        input.list("manifests").iter().map(|one| (identity(one), one.clone())).collect();
    let kustomization = &documents("kustomization")[0];
    assert_eq!(kustomization["patches"][0], json!({ "path": "patches.yaml" }));
    for entry in &kustomization["patches"].as_array().unwrap()[1..] {
        let patch: Value = serde_saphyr::from_str(entry["patch"].as_str().unwrap()).unwrap();
        assert_eq!(patch["$patch"], "delete");
        assert!(objects.remove(&identity(&patch)).is_some(), "{patch}");
        let target = &entry["target"];
        let api_version = format!("{}/{}", target["group"].as_str().unwrap(), target["version"].as_str().unwrap());
        assert_eq!(patch["apiVersion"], api_version);
        assert_eq!(identity(&json!({ "kind": target["kind"], "metadata": target })), identity(&patch));
    }
    for patch in documents("patches") {
        let key = identity(&patch);
        assert!(objects.contains_key(&key), "{patch}");
        assert!(patch.get("$patch").is_none(), "{patch}");
        objects.insert(key.clone(), applied(&objects[&key], &patch));
    }
    for resource in documents("resources") {
        assert!(objects.insert(identity(&resource), resource).is_none());
    }
    let wanted: BTreeMap<_, Value> = input.list("production").iter().map(|one| (identity(one), one.clone())).collect();
    assert_eq!(objects, wanted);
}

fn version(package: &Package<'_>) -> Value {
    serde_saphyr::from_str(&files(package)["bundle/manifests/guestbook.clusterserviceversion.yaml"]).unwrap()
}

#[test]
fn a_new_version_of_the_bundle_replaces_the_older_one() {
    let input = Input::new();
    let first = version(&input.package());
    assert_eq!(first["metadata"]["annotations"]["createdAt"], "2026-01-31T12:00:00Z");
    assert!(first["spec"].get("replaces").is_none());
    // The same version again: nothing changes.
    let later = Package { previous: Some(&first), now: "2027-01-01T00:00:00Z", ..input.package() };
    assert_eq!(version(&later), first);
    let second = version(&Package { version: "0.2.0", ..later });
    assert_eq!(second["spec"]["replaces"], "guestbook.v0.1.0");
    assert_eq!(second["metadata"]["annotations"]["createdAt"], "2027-01-01T00:00:00Z");
    assert_eq!(version(&Package { version: "0.2.0", previous: Some(&second), ..later }), second);
    // The catalog decides, and an older version replaces nothing.
    let catalog = json!({ "spec": { "replaces": "guestbook.v0.0.9" } });
    assert_eq!(
        version(&Package { catalog: Some(&catalog), version: "0.2.0", ..later })["spec"]["replaces"],
        "guestbook.v0.0.9"
    );
    assert!(version(&Package { version: "0.0.1", ..later })["spec"].get("replaces").is_none());
}

#[test]
fn the_bundle_names_images_with_digests() {
    let input = Input::new();
    assert!(version(&input.package())["spec"].get("relatedImages").is_none());
    let image: Image = format!("registry.example.com/guestbook@sha256:{}", "ab".repeat(32)).parse().unwrap();
    let mut manifests = input.list("withCertManager").to_vec();
    let deployment = manifests.iter_mut().find(|one| one["kind"] == "Deployment").unwrap();
    let variables = deployment.pointer_mut("/spec/template/spec/containers/0/env").unwrap().as_array_mut().unwrap();
    variables.push(json!({ "name": "RELATED_IMAGE_DATA_BASE", "value": "db@sha256:12" }));
    let images = version(&Package { image: &image, with_cert_manager: &manifests, ..input.package() });
    let expected = json!([
        { "name": "guestbook", "image": image.to_string() },
        { "name": "data-base", "image": "db@sha256:12" },
    ]);
    assert_eq!(images["spec"]["relatedImages"], expected);
}

#[test]
fn install_modes_follow_from_the_scope() {
    let input = Input::new();
    let modes = |version: &Value| -> Vec<bool> {
        let modes = version["spec"]["installModes"].as_array().unwrap();
        modes.iter().map(|mode| mode["supported"].as_bool().unwrap()).collect()
    };
    let changed = |list: &str, place: &str, value: Value| -> Vec<Value> {
        let mut list = input.list(list).to_vec();
        let definition = list.iter_mut().find(|one| one["kind"] == "CustomResourceDefinition").unwrap();
        let (parent, field) = place.rsplit_once('/').unwrap();
        definition.pointer_mut(parent).unwrap()[field] = value;
        list
    };
    let anywhere = version(&input.package());
    assert_eq!(modes(&anywhere), [true; 4]);
    let install = &anywhere["spec"]["install"]["spec"];
    // OLM makes Roles cluster-wide where it has to. Reviews always are.
    let of_cluster = |version: &Value| -> Vec<Value> {
        let rules = version["spec"]["install"]["spec"]["clusterPermissions"][0]["rules"].as_array().unwrap();
        rules.iter().map(|rule| rule["resources"][0].clone()).collect()
    };
    assert_eq!(of_cluster(&anywhere), ["tokenreviews", "subjectaccessreviews"]);
    let container = &install["deployments"][0]["spec"]["template"]["spec"]["containers"][0];
    let variable = container["env"].as_array().unwrap().last().unwrap();
    assert_eq!(variable["name"], "WATCH_NAMESPACE");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");

    let cluster = changed("manifests", "/spec/scope", "Cluster".into());
    let cluster = version(&Package { manifests: &cluster, ..input.package() });
    assert_eq!(modes(&cluster), [false, false, false, true]);
    assert!(of_cluster(&cluster).len() > 2);

    let webhook = json!({ "webhook": { "clientConfig": { "service": { "path": "/convert" } } } });
    let converted = changed("manifests", "/spec/conversion", webhook);
    let converted = version(&Package { manifests: &converted, ..input.package() });
    assert_eq!(modes(&converted), [false, false, false, true]);
    // The API server must reach the conversion webhook before the caches are synced.
    let probe = converted
        .pointer("/spec/install/spec/deployments/0/spec/template/spec/containers/0/readinessProbe/httpGet/path");
    assert_eq!(probe.unwrap(), "/readyz?exclude=informer-sync");
}

#[test]
fn properties_of_webhooks_that_a_bundle_cannot_have_are_found() {
    let input = Input::new();
    assert_eq!(lost_in_bundle(&input.package()), [""; 0]);
    let mut manifests = input.list("withCertManager").to_vec();
    let webhooks = manifests.iter_mut().find(|one| one["kind"] == "ValidatingWebhookConfiguration").unwrap();
    webhooks["webhooks"][0]["matchConditions"] = json!([{ "name": "a", "expression": "true" }]);
    let lost = lost_in_bundle(&Package { with_cert_manager: &manifests, ..input.package() });
    assert_eq!(lost.len(), 1);
    assert!(lost[0].starts_with("matchConditions of "), "{lost:?}");
}

#[test]
fn package_files_are_in_their_directories_and_marked_as_generated() {
    let input = Input::new();
    for product in Product::ALL {
        for file in product.files(&input.package()) {
            let path = &file.path;
            assert!(product.places().iter().any(|place| path.starts_with(place)), "{path}");
            let head: String = file.text.lines().take(20).collect();
            let is_generated = head.contains("Generated by `windlass generate`. DO NOT EDIT");
            // JSON schemas have no place for a comment.
            let silent = path.ends_with("values.schema.json") || path.ends_with(".json");
            let begun = !matches!(file.ownership, windlass_scaffold::package::Ownership::Generated);
            assert!(silent || is_generated != begun, "{path}:\n{head}");
        }
    }
}

#[test]
fn the_chart_contains_no_names_of_the_manifests() {
    let input = Input::new();
    let chart = Product::Chart.files(&input.package());
    for file in chart.iter().filter(|file| file.path.contains("/templates/")) {
        for fixed in ["guestbook-system", "registry.example.com", "windlassX", "app.kubernetes.io/managed-by: windlass"]
        {
            assert!(!file.text.contains(fixed), "{fixed} in {}:\n{}", file.path, file.text);
        }
    }
}

#[test]
fn secure_metrics_of_a_package_can_be_switched_off() {
    let input = Input::new();
    let secure = files(&input.package());
    let reader = "bundle/manifests/guestbook-metrics-reader_rbac.authorization.k8s.io_v1_clusterrole.yaml";
    assert!(secure[reader].contains("nonResourceURLs"));
    assert!(secure["dist/chart/values.yaml"].contains("  secure: true\n"));
    let version = &secure["bundle/manifests/guestbook.clusterserviceversion.yaml"];
    assert!(version.contains("--metrics-secure") && !version.contains("nonResourceURLs"), "{version}");

    // As `Operator::plain_metrics` generates them.
    let without = |list: &str| -> Vec<Value> {
        let is_role = |object: &Value| object["metadata"]["name"].as_str().unwrap().contains("-metrics-");
        let mut list: Vec<Value> = input.list(list).iter().filter(|object| !is_role(object)).cloned().collect();
        for object in &mut list {
            let arguments = object.pointer_mut("/spec/template/spec/containers/0/args").and_then(Value::as_array_mut);
            arguments.into_iter().for_each(|arguments| arguments.retain(|argument| argument != "--metrics-secure"));
        }
        list
    };
    let [manifests, with_cert_manager, watched, watched_with_cert_manager] =
        ["manifests", "withCertManager", "watched", "watchedWithCertManager"].map(without);
    let package = Package {
        manifests: &manifests,
        with_cert_manager: &with_cert_manager,
        watched: &watched,
        watched_with_cert_manager: &watched_with_cert_manager,
        ..input.package()
    };
    let plain = files(&package);
    assert!(!plain.contains_key(reader));
    assert!(plain["dist/chart/values.yaml"].contains("  secure: false\n"));
    assert!(!plain["bundle/manifests/guestbook.clusterserviceversion.yaml"].contains("tokenreviews"));
}

#[test]
fn catalog_metadata_is_in_the_bundle() {
    let input = Input::new();
    let catalog: Value = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "spec": {"displayName": "Our guests", "maturity": "stable", "icon": [{"base64data": "eA==", "mediatype": "image/png"}]},
    });
    let package = Package { catalog: Some(&catalog), ..input.package() };
    let files = files(&package);
    let version = &files["bundle/manifests/guestbook.clusterserviceversion.yaml"];
    for line in
        ["displayName: Our guests", "base64data: eA==", "name: guestbook.v0.1.0", "type: MutatingAdmissionWebhook"]
    {
        assert!(version.contains(line), "{line} in {version}");
    }
    assert!(files["bundle/metadata/annotations.yaml"].contains("channels.v1: stable\n"));
    assert!(files["bundle.Dockerfile"].contains("channel.default.v1=stable\n"));
    assert!(files.contains_key(CATALOG));
}

#[test]
fn a_project_without_resources_and_webhooks_has_a_chart_without_them() {
    let input = Input::new();
    let project = Project::new(ProjectOptions::new("guestbook", "example.com")).unwrap();
    let without = ["CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
    let plain: Vec<Value> = input
        .list("withCertManager")
        .iter()
        .filter(|object| !without.iter().any(|kind| object["kind"] == *kind))
        .filter(|object| object["metadata"]["name"] != "guestbook-webhook")
        .cloned()
        .collect();
    let package = Package {
        project: &project,
        manifests: &plain,
        with_cert_manager: &plain,
        watched: input.list("watchedWithCertManager"),
        roles: &[],
        samples: &[],
        ..input.package()
    };
    let files = files(&package);
    for (path, text) in files.iter().filter(|(path, _)| path.starts_with("dist/chart/")) {
        assert!(!path.contains("crd") && !path.contains("webhook") && !path.contains("certificate"), "{path}");
        assert!(!text.contains(".Values.webhooks") && !text.contains(".Values.crds"), "{path}:\n{text}");
    }
    let version = &files["bundle/manifests/guestbook.clusterserviceversion.yaml"];
    assert!(!version.contains("webhookdefinitions"), "{version}");
}
