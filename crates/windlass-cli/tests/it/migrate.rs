//! `windlass migrate`, and where it is suggested.

use std::process::Output;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use serde_json::{Value, json};

use crate::{
    golden::Golden,
    process::{Up, output, windlass},
};

const CRD: &str = "shelves.shop.example.com";

fn definition(storage: &str) -> Value {
    let version = |name: &str| {
        json!({"name": name, "served": true, "storage": name == storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": CRD},
        "spec": {"group": "shop.example.com", "scope": "Namespaced",
            "names": {"kind": "Shelf", "plural": "shelves"}, "versions": [version("v1"), version("v2")]},
    })
}

fn text(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn stored_objects_are_rewritten_in_the_storage_version() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(&folder.path().join("plane"), &["--controllers", "", "--nodes", "0"]);
    let kubeconfig = folder.path().join("plane/kubeconfig");
    let migrate = |arguments: &[&str]| {
        let mut command = windlass();
        command.arg("migrate").args(arguments).arg("--kubeconfig").arg(&kubeconfig).current_dir(folder.path());
        text(&output(&mut command))
    };
    let client = up.admin().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let define = async |storage: &str| {
        let params = PatchParams::apply("test").force();
        definitions.patch(CRD, &params, &Patch::Apply(definition(storage))).await.unwrap();
    };
    define("v1").await;
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("shop.example.com", "v1", "Shelf"), "shelves");
    let shelves: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
    for name in ["a", "b", "c"] {
        shelves.create(&PostParams::default(), &DynamicObject::new(name, &resource)).await.unwrap();
    }
    define("v2").await;

    let (code, out, err) = migrate(&[CRD, "--dry-run"]);
    let expected = format!("{CRD}: objects may be stored as v1; the storage version is v2\n");
    assert_eq!((code, out), (Some(0), expected), "{err}");
    let (code, out, err) = migrate(&[CRD, "--no-wait"]);
    let expected = format!("{CRD}: 3 objects are stored as v2; removed v1 from the stored versions\n");
    assert_eq!((code, out), (Some(0), expected), "{err}");
    let stored = definitions.get(CRD).await.unwrap().status.unwrap().stored_versions.unwrap();
    assert_eq!(stored, ["v2"]);
    for arguments in [&[CRD][..], &[CRD, "--dry-run"]] {
        let (code, out, err) = migrate(arguments);
        assert_eq!((code, out), (Some(0), format!("{CRD}: all objects are stored as v2\n")), "{err}");
    }
    // With others stored, the change must have been a while ago.
    define("v1").await;
    let mut waiting = windlass();
    waiting.args(["migrate", CRD, "--kubeconfig"]).arg(&kubeconfig).current_dir(folder.path());
    let mut waiting = waiting.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(waiting.stderr.take().unwrap()));
    let line = lines.find(|line| line.as_ref().unwrap().contains(CRD)).unwrap().unwrap();
    assert!(line.starts_with(&format!("{CRD}: waiting ")), "{line}");
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    let stored = definitions.get(CRD).await.unwrap().status.unwrap().stored_versions.unwrap();
    assert_eq!(stored, ["v2", "v1"], "it did not begin");
    let (code, out, err) = migrate(&["moons.shop.example.com"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("moons.shop.example.com"), "{err}");
}

#[tokio::test]
async fn without_names_the_crds_of_the_project_are_migrated() {
    let golden = Golden::new();
    let _up = Up::start(&golden.beside("plane"), &["--controllers", "", "--nodes", "0"]);
    let kubeconfig = golden.beside("plane/kubeconfig");
    let cluster = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    golden.must(&[&["install"][..], &cluster].concat());
    let said = golden.must(&[&["migrate"][..], &cluster].concat());
    assert_eq!(said.out, "guestbooks.webapp.example.com: all objects are stored as v1\n");
}

#[test]
fn a_new_storage_version_comes_with_a_hint() {
    let golden = Golden::new();
    let hint = |from: &str| {
        format!("\n  windlass migrate guestbooks.webapp.example.com    # existing objects are still stored as {from}\n")
    };
    let said = golden.must(&["create", "version", "--kind", "Guestbook", "--version", "v2"]);
    assert!(!said.err.contains("windlass migrate"), "{}", said.err);
    let storage = ["edit", "--kind", "Guestbook", "--storage-version", "v2"];
    let said = golden.must(&[&storage[..], &["--dry-run"]].concat());
    assert!(!said.err.contains("windlass migrate"), "{}", said.err);
    let said = golden.must(&storage);
    assert!(said.err.contains(&hint("v1")), "{}", said.err);
    let said = golden.must(&["create", "version", "--kind", "Guestbook", "--version", "v3", "--storage"]);
    assert!(said.err.contains(&hint("v2")), "{}", said.err);
}
