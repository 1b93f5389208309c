//! The golden project: `windlass init`, `create api`, `create webhook`.
//!
//! `UPDATE=1 cargo test -p windlass-scaffold` rewrites it; `cargo xtask scaffold` compiles it and runs its tests.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use windlass_scaffold::{
    ApiOptions, Files, Project, ProjectOptions, WebhookOptions, Webhooks, difference, fingerprint, generate,
};

/// The project with all its files.
pub(crate) fn project() -> (Project, Files) {
    let mut options = ProjectOptions::new("guestbook", "example.com");
    options.description = Some("Runs guestbooks".to_owned());
    let mut project = Project::new(options).unwrap();
    let guestbook = ApiOptions::new("webapp", "v1", "Guestbook")
        .field("size:int32=1..10,default=1,doc=Number of replicas.")
        .and_then(|options| options.field("configMapName:string=1..63,doc=Name of the ConfigMap with the settings."))
        .and_then(|options| {
            options.field("type:enum(Phone|Address|Name),default=Phone,doc=Kind of entry that guests leave.")
        });
    project.create_api(guestbook.unwrap()).unwrap();
    let webhooks = Webhooks { defaulting: true, validating: true, conversion: false };
    project.create_webhook(WebhookOptions { group: None, kind: "Guestbook".to_owned(), webhooks }).unwrap();
    let mut files = generate(&project);
    project.files = files.iter().map(|(path, text)| (path.clone(), fingerprint(text))).collect();
    files.insert("PROJECT".to_owned(), project.write());
    (project, files)
}

/// A directory of golden files.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

fn read(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        match entry.file_type().unwrap().is_dir() {
            true => read(&entry.path(), &format!("{path}/"), files),
            false => {
                files.insert(path, fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
}

#[test]
fn the_golden_project_is_up_to_date() {
    check("guestbook", &project().1);
}

/// Compares a directory with the expected files, or rewrites it.
#[track_caller]
pub(crate) fn check(name: &str, wanted: &Files) {
    let folder = folder(name);
    let mut there = BTreeMap::new();
    if folder.exists() {
        read(&folder, "", &mut there);
    }
    if env::var_os("UPDATE").is_some() {
        let _ = fs::remove_dir_all(&folder);
        for (path, text) in wanted {
            let file = folder.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        return;
    }
    let paths = wanted.keys().chain(there.keys());
    let different = paths.filter(|path| wanted.get(*path) != there.get(*path));
    let differences: String = different
        .map(|path| difference(path, there.get(path).map(String::as_str), wanted.get(path).map(String::as_str)))
        .collect();
    assert!(differences.is_empty(), "{differences}\nrewrite the files with `UPDATE=1 cargo test -p windlass-scaffold`");
}
