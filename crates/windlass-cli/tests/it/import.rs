//! Types from CRDs: in a project, and printed.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::PostParams};

use crate::process::{Up, output, windlass};

fn definition(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../windlass-scaffold/testdata/import").join(name)
}

/// Exit code, standard output and standard error.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = output(windlass().args(arguments).current_dir(folder));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn imported_types_are_added_to_the_project_and_belong_to_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, err) = run(folder.path(), &["init", "shop", "--domain", "example.com"]);
    assert_eq!(code, Some(0), "{err}");
    let root = folder.path().join("shop");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let certificate = definition("certificate.yaml");
    let import = ["import", "crd", certificate.to_str().unwrap(), "--controller"];

    let (code, out, err) = run(&root, &[&import[..], &["--dry-run"]].concat());
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("+++ b/src/api/certificate/v1.rs") && out.contains("+  origin: imported"), "{out}");
    assert!(!root.join("src/api").exists());

    let (code, _, err) = run(&root.join("src"), &import);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("created src/api/certificate/v1.rs"), "{err}");
    assert!(read("src/api/certificate/v1.rs").contains("pub struct CertificateSpec"));
    assert!(read("src/operator.rs").contains(".controller(controller::certificate::controller())"));
    assert!(!read("src/operator.rs").contains("define::<api::certificate"), "the CRD is not the project's");
    assert!(read("tests/it/main.rs").contains(".with_crd::<api::certificate::Certificate>()"));
    let (code, _, err) = run(&root, &import);
    assert_eq!((code, err.as_str()), (Some(0), "nothing to do\n"));

    // Other commands leave them alone, and another import asks.
    fs::write(root.join("src/api/certificate/v1.rs"), "// mine\n").unwrap();
    let (code, _, err) = run(&root, &["create", "api", "--version", "v1", "--kind", "Book"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(read("src/api/certificate/v1.rs"), "// mine\n");
    let (code, _, err) = run(&root, &import);
    assert_eq!(code, Some(1));
    assert!(err.contains("edits would be lost") && err.contains("hint: "), "{err}");
    let (code, _, err) = run(&root, &["edit", "--kind", "Certificate", "--field", "a:int"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("error: Certificate is imported\nhint: edit its types directly"), "{err}");
    let (code, _, err) = run(&root, &[&import[..], &["--force"]].concat());
    assert_eq!(code, Some(0), "{err}");
    assert!(read("src/api/certificate/v1.rs").contains("pub struct CertificateSpec"));
}

#[test]
fn types_are_printed_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let crontab = definition("cron_tab.yaml");
    let import = ["import", "crd", crontab.to_str().unwrap(), "--print"];
    let (code, out, err) = run(folder.path(), &[&import[..], &["--version", "v1"]].concat());
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("//! CronTab v1.\n"), "{out}");
    let (_, both, _) = run(folder.path(), &import);
    assert!(both.contains("// crontabs.stable.example.org-v1beta1.rs\n"), "{both}");
    let (code, _, err) = run(folder.path(), &[&import[..], &["--version", "v7"]].concat());
    assert_eq!(code, Some(1));
    assert!(err.ends_with("hint: available versions: v1beta1, v1\n"), "{err}");
    let (code, _, err) = run(folder.path(), &import[..3]);
    assert_eq!(code, Some(1));
    assert!(err.contains("is not in a project"), "{err}");
    let (code, _, err) = run(folder.path(), &["import", "crd", "--print"]);
    assert_eq!(code, Some(2), "{err}");
}

#[test]
fn v1beta1_crds_are_read_from_standard_input() {
    let text = "
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  version: v1
  names: {kind: Foo, plural: foos}
  scope: Namespaced
  preserveUnknownFields: false
  validation:
    openAPIV3Schema:
      type: object
      required: [spec]
      properties:
        spec:
          type: object
          properties:
            size: {type: integer, format: int32}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: passed-over}
";
    let mut child = windlass()
        .args(["import", "crd", "-", "--print"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("pub size: Option<i32>,"), "{out}");
}

#[tokio::test]
async fn crds_of_a_cluster_are_imported_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(&folder.path().join("data"), &["--store", "memory", "--controllers", "", "--nodes", "0"]);
    let text = fs::read(definition("price_list.yaml")).unwrap();
    let crd: CustomResourceDefinition =
        serde_json::from_value(windlass_schema::yaml::parse(&text).unwrap().value).unwrap();
    Api::all(up.admin().await).create(&PostParams::default(), &crd).await.unwrap();
    let kubeconfig = folder.path().join("data/kubeconfig");
    let import = |name: &str| {
        let kubeconfig = kubeconfig.to_str().unwrap();
        run(folder.path(), &["import", "crd", "--print", "--kubeconfig", kubeconfig, "--from-cluster", name])
    };
    let (code, out, err) = import("pricelists.shop.example.org");
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("no_spec") && out.contains("pub currency: PriceTableCurrency"), "{out}");
    let (code, _, err) = import("pricetable");
    assert_eq!(code, Some(1));
    assert!(err.ends_with("hint: did you mean pricelists.shop.example.org?\n"), "{err}");
    up.stop("TERM");
}
