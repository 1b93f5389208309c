//! `windlass crd upgrade` on manifests from the wild.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    process::{Output, Stdio},
};

use serde_json::{Value, json};
use windlass_schema::yaml;

use crate::process::{output, windlass};

/// A CRD with only the required fields.
const MINIMAL: &str = "\
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata:
  name: crontabs.stable.example.com
spec:
  group: stable.example.com
  version: v1
  scope: Namespaced
  names:
    plural: crontabs
    singular: crontab
    kind: CronTab
";

/// Short names one level too high, as in some tutorials.
const MISPLACED: &str = "\
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata:
  name: verticalpodautoscalers.autoscaling.k8s.io
spec:
  group: autoscaling.k8s.io
  scope: Namespaced
  names:
    plural: verticalpodautoscalers
    singular: verticalpodautoscaler
    kind: VerticalPodAutoscaler
  shortNames:
  - vpa
  version: v1beta1
  versions:
  - name: v1beta1
    served: false
    storage: false
  - name: v1
    served: true
    storage: true
";

/// Schema, subresources and columns for all versions.
const TOP_LEVEL: &str = "\
# Backups, once a day.
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata:
  name: backups.stable.example.com
spec:
  group: stable.example.com
  versions:
  - name: v1
    served: true
    storage: true
  - name: v1alpha1
    served: true
    storage: false
  scope: Namespaced
  names: {plural: backups, kind: Backup}
  preserveUnknownFields: false
  subresources:
    status: {}
    scale: {specReplicasPath: .spec.copies, statusReplicasPath: .status.copies}
  additionalPrinterColumns:
  - name: Copies
    type: integer
    JSONPath: .spec.copies
  validation:
    openAPIV3Schema:
      properties:
        spec:
          required: [copies]
          properties:
            copies: {type: integer, minimum: 1}
            schedule: {type: string}
        status:
          type: object
          properties:
            copies: {type: integer}
";

const NETWORK: &str = "\
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata:
  name: networks.samplecrd.k8s.io
spec:
  group: samplecrd.k8s.io
  version: v1
  names:
    kind: Network
    plural: networks
  scope: Namespaced
  validation:
    openAPIV3Schema:
      properties:
        spec:
          properties:
            cidr:
              type: string
            gateway:
              type: string
";

fn upgrade(arguments: &[&str], input: &str) -> Output {
    let mut command = windlass();
    command.args(["crd", "upgrade"]).args(arguments).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Converts a manifest from standard input, and returns the CRD and the report.
#[track_caller]
fn upgraded(manifest: &str) -> (Value, String) {
    let output = upgrade(&["-"], manifest);
    let account = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{account}");
    let definition = yaml::to_json_value(&String::from_utf8(output.stdout).unwrap()).unwrap();
    assert_eq!(definition["apiVersion"], "apiextensions.k8s.io/v1");
    (definition, account)
}

#[test]
fn a_minimal_crd_gets_a_version_and_a_schema() {
    let (definition, account) = upgraded(MINIMAL);
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    });
    assert_eq!(definition["spec"]["versions"], json!([version]));
    assert!(definition["metadata"].get("annotations").is_none());
    let name = "standard input: crontabs.stable.example.com";
    assert_eq!(
        account,
        format!(
            "{name}: spec.version v1 is now the only entry of spec.versions, served and stored\n\
             {name}: version v1 had no schema: it now has one that allows any field\n\
             converted 1 CustomResourceDefinition\n"
        )
    );
}

#[test]
fn misplaced_short_names_are_moved_and_reported() {
    let (definition, account) = upgraded(MISPLACED);
    assert_eq!(definition["spec"]["names"]["shortNames"], json!(["vpa"]));
    assert!(definition["spec"].get("shortNames").is_none());
    assert_eq!(definition["spec"]["versions"].as_array().unwrap().len(), 2);
    let approval = &definition["metadata"]["annotations"]["api-approved.kubernetes.io"];
    assert_eq!(approval, "unapproved, legacy upgrade");
    assert!(account.contains("spec.shortNames was moved to spec.names.shortNames"), "{account}");
    assert!(account.contains("the group autoscaling.k8s.io is reserved for Kubernetes"), "{account}");
}

#[test]
fn top_level_fields_are_copied_to_every_version() {
    let (definition, account) = upgraded(TOP_LEVEL);
    for version in definition["spec"]["versions"].as_array().unwrap() {
        assert_eq!(version["subresources"]["status"], json!({}));
        assert_eq!(version["subresources"]["scale"]["specReplicasPath"], ".spec.copies");
        let columns = json!([{"name": "Copies", "type": "integer", "jsonPath": ".spec.copies"}]);
        assert_eq!(version["additionalPrinterColumns"], columns);
        let schema = &version["schema"]["openAPIV3Schema"];
        assert_eq!((&schema["type"], &schema["properties"]["spec"]["type"]), (&json!("object"), &json!("object")));
        assert!(schema.get("x-kubernetes-preserve-unknown-fields").is_none());
    }
    assert!(
        account.contains("spec.validation, spec.subresources and spec.additionalPrinterColumns moved"),
        "{account}"
    );
    assert!(account.contains("the missing type was inferred from the other keywords at spec.versions[0].schema.openAPIV3Schema.properties[spec]"));
    assert!(String::from_utf8(upgrade(&["-"], TOP_LEVEL).stdout).unwrap().starts_with("# Backups, once a day.\n"));
}

#[test]
fn a_crd_in_a_reserved_group_keeps_unknown_fields_and_is_annotated() {
    let (definition, account) = upgraded(NETWORK);
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let spec = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"cidr": {"type": "string"}, "gateway": {"type": "string"}},
    });
    assert_eq!(schema["properties"]["spec"], spec);
    assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], true);
    let approval = &definition["metadata"]["annotations"]["api-approved.kubernetes.io"];
    assert_eq!(approval, "unapproved, legacy upgrade");
    assert!(account.contains("unknown fields were kept"), "{account}");
}

#[test]
fn files_are_replaced_together_and_other_documents_stay() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two, new) = (folder.path().join("1.yaml"), folder.path().join("2.yaml"), folder.path().join("new"));
    let other = "kind: ConfigMap   # mine\nmetadata: {name: x}\n";
    fs::write(&one, format!("{other}---\n{MINIMAL}---\n{NETWORK}")).unwrap();
    fs::write(&two, other).unwrap();
    fs::set_permissions(&one, fs::Permissions::from_mode(0o640)).unwrap();
    let (first, second) = (one.to_str().unwrap(), two.to_str().unwrap());

    let result = upgrade(&[first, second, "--output", new.to_str().unwrap()], "");
    assert_eq!((result.status.code(), result.stdout.is_empty()), (Some(0), true));
    let account = String::from_utf8(result.stderr).unwrap();
    assert!(
        account.contains(&format!("{second}: ConfigMap x: not a CustomResourceDefinition, unchanged\n")),
        "{account}"
    );
    assert!(account.ends_with("converted 2 CustomResourceDefinitions\n"), "{account}");

    assert_eq!(upgrade(&["--in-place", first, second], "").status.code(), Some(0));
    let written = fs::read_to_string(&one).unwrap();
    assert!(written.starts_with(&format!("{other}---\napiVersion: apiextensions.k8s.io/v1\n")), "{written}");
    assert_eq!(written.matches("v1beta1").count(), 0);
    assert_eq!(fs::metadata(&one).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_to_string(&two).unwrap(), other);
    assert_eq!(fs::read_to_string(&new).unwrap(), format!("{written}---\n{other}"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else must be left");
}

#[test]
fn nothing_is_written_unless_everything_can_be_upgraded() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good.yaml"), folder.path().join("bad.yaml"));
    fs::write(&good, MINIMAL).unwrap();
    fs::write(&bad, NETWORK.replace("type: string", "$ref: '#/a'")).unwrap();
    let (good_name, bad_name) = (good.to_str().unwrap(), bad.to_str().unwrap());
    for arguments in [&["--in-place", good_name, bad_name][..], &[good_name, bad_name]] {
        let output = upgrade(arguments, "");
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), true));
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            format!(
                "error: {bad_name}: networks.samplecrd.k8s.io: spec.versions[0].schema.openAPIV3Schema.properties[spec]\
                 .properties[cidr]: $ref is not supported\n\
                 hint: replace the reference with the schema it refers to\n"
            )
        );
    }
    assert_eq!(fs::read_to_string(&good).unwrap(), MINIMAL);
}

#[test]
fn wrong_input_is_reported_with_a_hint() {
    let said = |arguments: &[&str], input: &str, code: i32| {
        let output = upgrade(arguments, input);
        assert_eq!(output.status.code(), Some(code));
        String::from_utf8(output.stderr).unwrap()
    };
    let template = said(&["-"], "a: 1\n---\n{{ if .Values.crd }}\n", 1);
    assert!(template.starts_with("error: standard input: document 2: yaml: "), "{template}");
    assert!(template.ends_with("hint: use plain YAML or JSON; render templates first\n"), "{template}");
    assert!(said(&["/nowhere/x.yaml"], "", 1).starts_with("error: cannot read /nowhere/x.yaml: "));
    assert!(said(&["--in-place", "-"], "", 1).contains("standard input cannot be replaced"));
    assert!(said(&["-", "-"], "", 1).contains("standard input can only be read once"));
    assert!(said(&["--in-place", "--output", "x", "y"], "", 2).contains("cannot be used with"));
    let nothing = output(windlass().args(["crd", "upgrade"]));
    assert_eq!(nothing.status.code(), Some(2));
}
