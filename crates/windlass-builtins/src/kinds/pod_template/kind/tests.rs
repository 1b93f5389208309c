use serde_json::json;

use super::*;
use crate::kinds::tests::workloads::{changed, check_create, check_update, created, template};

#[test]
fn a_pod_template_is_defaulted_and_validated() {
    let valid = json!({"metadata": {"name": "t"}, "template": template()});
    let made = created(&PodTemplate, &valid);
    assert_eq!(made["template"]["spec"]["restartPolicy"], "Always");
    let renamed = changed(&made, &json!({"/template/spec/hostname": "h"}));
    assert!(crate::kinds::facts("", "podtemplates").generation.changes(&renamed, &made));
    check_create(
        &PodTemplate,
        &valid,
        &[
            (json!({"/template/spec/containers": []}), &["template.spec.containers: Required value"]),
            (
                json!({"/template/spec/restartPolicy": "X"}),
                &[
                    "template.spec.restartPolicy: Unsupported value: \"X\": supported values: \"Always\", \"OnFailure\", \"Never\"",
                ],
            ),
        ],
    );
    check_update(
        &PodTemplate,
        &made,
        &[
            (json!({"/template/spec/containers/0/image": "j"}), &[]),
            (json!({"/template/spec/containers": []}), &["template.spec.containers: Required value"]),
        ],
    );
}
