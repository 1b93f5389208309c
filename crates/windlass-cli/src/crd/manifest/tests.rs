use super::{comments, is_blank, join, split, upgrade};

const OLD: &str = "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: as.b.c}\n\
    spec: {group: b.c, version: v1, scope: Cluster, names: {plural: as, kind: A}}\n";

#[test]
fn documents_are_split_at_three_dashes_that_stand_alone() {
    for (text, count) in [
        ("a: 1", 1),
        ("---\na: 1\n", 2),
        ("a: 1\n--- # two\nb: 2\n---", 3),
        ("a: |\n  ---\n  b\n", 1),
        ("a: ---\n----\n", 1),
        ("a: 1\r\n---\r\nb: 2\r\n", 2),
    ] {
        let documents = split(text);
        assert_eq!(documents.len(), count, "{text:?}");
        assert_eq!(documents.join("---"), text);
    }
    assert!(is_blank("\n# only\n%YAML 1.1\n"));
    assert_eq!(comments(" # x\n\n# y\na: 1\n# z\n"), " # x\n\n# y\n");
    assert_eq!(join(["a: 1", "", "---\nb: 2\n", "c: 3\n"]), "a: 1\n---\nb: 2\n---\nc: 3\n");
}

#[test]
fn other_documents_and_comments_stay() {
    let other = "# mine\nkind: ConfigMap # with a comment\nmetadata: {name: x}\n";
    let manifest = upgrade(&format!("# license\n{OLD}---\n{other}")).unwrap();
    assert_eq!(manifest.upgraded, 1);
    assert!(
        manifest.text.starts_with("# license\napiVersion: apiextensions.k8s.io/v1\nkind: Custom"),
        "{}",
        manifest.text
    );
    assert!(manifest.text.ends_with(&format!("---\n{other}")), "{}", manifest.text);
    assert_eq!(manifest.account.last().unwrap(), "ConfigMap x is no definition and was left as it is");
    let same = upgrade(other).unwrap();
    assert_eq!((same.upgraded, same.text.as_str()), (0, other));
    let again = upgrade(&manifest.text).unwrap();
    assert_eq!((again.upgraded, again.text.as_str()), (0, manifest.text.as_str()));
    assert_eq!(again.account[0], "as.b.c: is of apiextensions.k8s.io/v1 and was left as it is");
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
fn a_template_is_refused() {
    let error = upgrade("a: 1\n---\n{{ if .Values.crd }}\n").unwrap_err();
    assert!(format!("{error:#}").starts_with("document 2: "), "{error:#}");
}
