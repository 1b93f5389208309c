//! `windlass plan`.

use kube::{
    Api,
    api::PostParams,
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use serde_json::json;

use crate::{golden::Golden, process::Up};

#[tokio::test]
async fn the_exit_code_is_that_of_the_operator() {
    let golden = Golden::new();
    let up = Up::start(&golden.beside("plane"), &[]);
    let kubeconfig = golden.beside("plane/kubeconfig");
    let cluster = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let plan = |arguments: &[&str]| golden.run(&[&["plan"][..], &cluster, arguments].concat());

    let said = plan(&[]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.contains("guestbooks.webapp.example.com is not served"), "{}", said.out);
    let said = plan(&["--", "--install-crds", "-o", "json"]);
    assert_eq!(said.code, Some(2), "{}{}", said.out, said.err);
    let planned: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(planned["changes"][0]["name"], "guestbooks.webapp.example.com", "{planned}");

    golden.must(&[&["install"][..], &cluster].concat());
    let said = plan(&[]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    assert_eq!(said.out, "0 reconciled: 0 to create, 0 to update, 0 to delete, 0 to call, 0 failed\n");

    let kind = GroupVersionKind::gvk("webapp.example.com", "v1", "Guestbook");
    let resource = ApiResource::from_gvk_with_plural(&kind, "guestbooks");
    let guestbooks: Api<DynamicObject> = Api::namespaced_with(up.admin().await, "default", &resource);
    let guestbook = json!({"apiVersion": "webapp.example.com/v1", "kind": "Guestbook",
        "metadata": {"name": "guests"}, "spec": {"configMapName": "settings"}});
    let guestbook = serde_json::from_value(guestbook).unwrap();
    guestbooks.create(&PostParams::default(), &guestbook).await.unwrap();
    let said = plan(&[]);
    assert_eq!(said.code, Some(2), "{}{}", said.out, said.err);
    assert!(said.out.contains("~ Guestbook default/guests (controller guestbook)"), "{}", said.out);

    let said = plan(&["--", "--moon"]);
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "2 means that there are changes");
    let said = golden.run(&["plan", "--kubeconfig", "/nowhere/at/all"]);
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{}", said.err);
}
