use proptest::prelude::*;
use serde_json::json;

use super::*;

fn mounts(pairs: &[(&str, &str)]) -> Mounts {
    let mut mounts = Mounts::default();
    pairs.iter().for_each(|(path, real)| mounts.add(path, PathBuf::from(real)));
    mounts
}

#[test]
fn a_mount_path_is_rewritten_where_it_is_a_whole_path() {
    let mounts = mounts(&[("/data", "/p/d"), ("/data/inner", "/p/i"), ("/etc/redis/", "/p/e")]);
    for (text, expected) in [
        ("/data", "/p/d"),
        ("/data/", "/p/d/"),
        ("/data/x", "/p/d/x"),
        ("/data/inner/x", "/p/i/x"),
        ("/database", "/database"),
        ("--dir=/data", "--dir=/p/d"),
        ("--config=/etc/redis/redis.conf", "--config=/p/e/redis.conf"),
        ("echo a > /data/x; cat '/data/y'", "echo a > /p/d/x; cat '/p/d/y'"),
        ("/srv/data", "/srv/data"),
        ("http://host/data", "http://host/data"),
        ("/data:/data", "/p/d:/p/d"),
        ("é/data", "é/data"),
    ] {
        assert_eq!(mounts.rewrite(text), expected, "{text}");
    }
}

#[test]
fn a_file_is_mounted_without_a_slash() {
    let container = serde_json::from_value(json!({"name": "c", "volumeMounts": [
        {"name": "hosts", "mountPath": "/etc/hosts"}, {"name": "hosts", "mountPath": "/b", "subPath": "b"}]}));
    let directories = BTreeMap::from([("hosts".to_owned(), PathBuf::from("/h"))]);
    let mut mounts = Mounts::of(&container.unwrap(), &directories, &Environment::new());
    let real: Vec<String> = mounts.take().map(|(path, real)| format!("{path} {}", real.display())).collect();
    assert_eq!(real, ["/b /h/b", "/etc/hosts /h"]);
}

#[test]
fn files_change_atomically() {
    let directory = tempfile::tempdir().unwrap();
    let files = |pairs: &[(&str, &str)]| -> Files {
        pairs.iter().map(|(path, text)| (PathBuf::from(path), (text.as_bytes().to_vec(), 0o600))).collect()
    };
    let read = |path: &str| fs::read_to_string(directory.path().join(path)).ok();
    project(directory.path(), &files(&[("a", "1"), ("sub/b", "2")])).unwrap();
    assert_eq!((read("a").as_deref(), read("sub/b").as_deref()), (Some("1"), Some("2")));
    let first = fs::read_link(directory.path().join(DATA)).unwrap();
    project(directory.path(), &files(&[("a", "1"), ("sub/b", "2")])).unwrap();
    assert_eq!(fs::read_link(directory.path().join(DATA)).unwrap(), first);
    project(directory.path(), &files(&[("a", "3")])).unwrap();
    assert_eq!((read("a").as_deref(), read("sub/b")), (Some("3"), None));
    assert!(!directory.path().join(first).exists());
}

#[test]
fn the_volumes_of_a_pod_are_directories_with_their_contents() {
    let directory = tempfile::tempdir().unwrap();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {"containers": [], "volumes": [
            {"name": "empty", "emptyDir": {}},
            {"name": "map", "configMap": {"name": "m", "items": [{"key": "k", "path": "dir/file"}]}},
            {"name": "all", "projected": {"sources": [
                {"secret": {"name": "s"}},
                {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            ]}},
        ]},
    }))
    .unwrap();
    let mut sources = Sources::default();
    let prepared = |sources: &Sources| prepare(&pod, sources, directory.path(), directory.path());
    let missing = prepared(&sources).unwrap_err();
    assert_eq!(missing, "MountVolume.SetUp failed for volume \"map\" : configmap \"m\" not found");
    sources.config_maps.insert("m".into(), serde_json::from_value(json!({"data": {"k": "v", "other": "w"}})).unwrap());
    sources.secrets.insert("s".into(), serde_json::from_value(json!({"data": {"password": "aHVudGVy"}})).unwrap());
    let directories = prepared(&sources).unwrap();
    assert!(directories["empty"].is_dir());
    assert_eq!(fs::read_to_string(directories["map"].join("dir/file")).unwrap(), "v");
    assert!(!directories["map"].join("other").exists());
    assert_eq!(fs::read_to_string(directories["all"].join("password")).unwrap(), "hunter");
    assert_eq!(fs::read_to_string(directories["all"].join("labels")).unwrap(), "app=\"x\"");
}

#[test]
fn other_users_cannot_read_volumes() {
    let directory = tempfile::tempdir().unwrap();
    // The API server fills in 420, which is 0644.
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [], "volumes": [
            {"name": "empty", "emptyDir": {}},
            {"name": "claimed", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "usual", "secret": {"secretName": "s", "defaultMode": 0o644, "items": [
                {"key": "password", "path": "deep/password"}, {"key": "password", "path": "tool", "mode": 0o555}]}},
            {"name": "own", "projected": {"defaultMode": 0o440, "sources": [{"secret": {"name": "s"}}]}},
            {"name": "map", "configMap": {"name": "m", "defaultMode": 0o644}},
        ]},
    }))
    .unwrap();
    let mut sources = Sources::default();
    sources.secrets.insert("s".into(), serde_json::from_value(json!({"data": {"password": "aHVudGVy"}})).unwrap());
    sources.config_maps.insert("m".into(), serde_json::from_value(json!({"data": {"k": "v"}})).unwrap());
    sources.claims.insert("c".into(), serde_json::from_value(json!({"metadata": {"uid": "u"}})).unwrap());
    let (volumes, claims) = (directory.path().join("pods/volumes"), directory.path().join("claims"));
    let prepared = prepare(&pod, &sources, &volumes, &claims).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for path in [
        &directory.path().join("pods"),
        &volumes,
        &claims,
        &prepared["claimed"],
        &prepared["usual"].join(DATA),
        &prepared["usual"].join("deep"),
        &prepared["own"].join(DATA),
        &prepared["map"].join(DATA),
    ] {
        assert_eq!(mode(path), 0o700, "{}", path.display());
    }
    for (path, expected) in [
        (prepared["empty"].clone(), 0o777),
        (prepared["usual"].clone(), 0o777),
        (prepared["usual"].join("deep/password"), 0o644),
        (prepared["usual"].join("tool"), 0o555),
        (prepared["own"].join("password"), 0o440),
        (prepared["map"].join("k"), 0o644),
    ] {
        assert_eq!(mode(&path), expected, "{}", path.display());
    }

    // Files of an earlier version are replaced.
    let file = prepared["map"].join("k");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    prepare(&pod, &sources, &volumes, &claims).unwrap();
    assert_eq!(mode(&file), 0o644);
}

#[test]
fn only_labels_and_annotations_change_while_a_pod_runs() {
    let item = |path: &str| json!([{"path": "f", "fieldRef": {"fieldPath": path}}]);
    for (path, expected) in
        [("metadata.labels", true), ("metadata.annotations['a']", true), ("metadata.namespace", false)]
    {
        let own = json!({"name": "v", "downwardAPI": {"items": item(path)}});
        let projected = json!({"name": "v", "projected": {"sources": [{"downwardAPI": {"items": item(path)}}]}});
        for volume in [own, projected] {
            let pod: Pod =
                serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [], "volumes": [volume]}}))
                    .unwrap();
            assert_eq!(show_metadata(&pod), expected, "{path}");
        }
    }
}

#[test]
fn paths_that_lead_outside_a_volume_are_rejected() {
    for path in ["../x", "/x", "a/../../x"] {
        assert!(put(&mut Files::new(), path, Vec::new(), None).is_err(), "{path}");
    }
}

proptest! {
    #[test]
    fn no_text_panics_when_rewritten(text in "[/a-cé =.]{0,40}") {
        mounts(&[("/a", "/x"), ("/a/b", "/y")]).rewrite(&text);
    }
}
