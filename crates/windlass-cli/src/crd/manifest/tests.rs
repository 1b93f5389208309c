use super::{comments, join, upgrade};

const OLD: &str = "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: as.b.c}\n\
    spec: {group: b.c, version: v1, scope: Cluster, names: {plural: as, kind: A}}\n";

#[test]
fn comments_are_found_and_texts_are_joined() {
    assert_eq!(comments(" # x\n\n# y\na: 1\n# z\n"), " # x\n\n# y\n");
    assert_eq!(join(["a: 1", "", "---\nb: 2\n", "c: 3\n"]), "a: 1\n---\nb: 2\n---\nc: 3\n");
}

#[test]
fn other_documents_and_comments_are_kept() {
    let other = "# mine\nkind: ConfigMap # with a comment\nmetadata: {name: x}\n";
    let manifest = upgrade(&format!("# license\n{OLD}---\n{other}")).unwrap();
    assert_eq!(manifest.upgraded, 1);
    assert!(
        manifest.text.starts_with("# license\napiVersion: apiextensions.k8s.io/v1\nkind: Custom"),
        "{}",
        manifest.text
    );
    assert!(manifest.text.ends_with(&format!("---\n{other}")), "{}", manifest.text);
    assert_eq!(manifest.account.last().unwrap(), "ConfigMap x: not a CustomResourceDefinition, unchanged");
    let same = upgrade(other).unwrap();
    assert_eq!((same.upgraded, same.text.as_str()), (0, other));
    let again = upgrade(&manifest.text).unwrap();
    assert_eq!((again.upgraded, again.text.as_str()), (0, manifest.text.as_str()));
    assert_eq!(again.account[0], "as.b.c: already apiextensions.k8s.io/v1, unchanged");
}

#[test]
fn the_items_of_a_list_are_upgraded() {
    let items = OLD.lines().map(|line| format!("  {line}\n")).collect::<String>();
    let list = format!("apiVersion: v1\nkind: List\nitems:\n-{}", &items[1..]);
    let manifest = upgrade(&list).unwrap();
    assert_eq!(manifest.upgraded, 1);
    assert!(manifest.text.contains("- apiVersion: apiextensions.k8s.io/v1\n"), "{}", manifest.text);
}

#[test]
fn templates_are_rejected() {
    let error = upgrade("a: 1\n---\n{{ if .Values.crd }}\n").unwrap_err();
    assert!(format!("{error:#}").starts_with("document 2: "), "{error:#}");
}
