//! The release workflow: its scripts, with programs that publish nothing.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use windlass_scaffold::generate;

use crate::golden;

const OLD: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
/// The SHA-256 of `index`.
const NEW: &str = "sha256:1bc04b5291c26a46d918139138b992d2de976d6851d0893b0476b85bfbdfc6e6";

fn workflow() -> Value {
    let mut project = golden::project().0;
    project.create_release_workflow().unwrap();
    serde_saphyr::from_str(&generate(&project)[".github/workflows/release.yml"]).unwrap()
}

/// An empty directory.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn nothing_is_published_before_the_tests_pass() {
    let jobs = &workflow()["jobs"];
    assert_eq!((&jobs["image"]["needs"], &jobs["release"]["needs"]), (&"test".into(), &"image".into()));
    let tests = jobs["test"]["steps"].as_array().unwrap();
    assert!(tests.iter().any(|step| step["run"].as_str().is_some_and(|run| run.starts_with("cargo test"))));
}

/// The chart may have been generated for an older image.
#[test]
fn installer_and_chart_have_the_published_image() {
    let folder = folder("release");
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).unwrap();
    for (name, text) in [("docker", "#!/bin/sh\nprintf index\n"), ("helm", "#!/bin/sh\necho \"$@\" >> helm.log\n")] {
        let file = programs.join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::create_dir_all(folder.join("dist/chart")).unwrap();
    for name in ["install.yaml", "chart/values.yaml"] {
        let text = fs::read_to_string(golden::folder("packaged/guestbook/dist").join(name)).unwrap();
        let text = text.replace("  digest: \"\"", &format!("  digest: \"{OLD}\""));
        fs::write(folder.join("dist").join(name), text).unwrap();
    }
    fs::write(folder.join("guestbook-0.1.0.tgz"), "").unwrap();

    let path = env::join_paths([programs].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap()))).unwrap();
    let variables = folder.join("variables");
    fs::write(&variables, "").unwrap();
    let workflow = workflow();
    for step in workflow["jobs"]["release"]["steps"].as_array().unwrap() {
        let (Some(name), Some(script)) = (step["name"].as_str(), step["run"].as_str()) else { continue };
        if name == "Publish the release" {
            continue;
        }
        let known = fs::read_to_string(&variables).unwrap();
        let done = Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c"])
            .arg(script.replace("${{ secrets.GITHUB_TOKEN }}", "token"))
            .current_dir(&folder)
            .env("PATH", &path)
            .env("GITHUB_ENV", &variables)
            .envs([("IMAGE", "ghcr.io/us/guestbook"), ("GITHUB_REF_NAME", "v0.1.0"), ("GITHUB_ACTOR", "us")])
            .envs(known.lines().filter_map(|line| line.split_once('=')))
            .output()
            .unwrap();
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    }

    let values = fs::read_to_string(folder.join("dist/chart/values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&values).unwrap();
    let image = &values["image"];
    let expected = ["ghcr.io/us/guestbook", "v0.1.0", NEW].map(Value::from);
    assert_eq!(["repository", "tag", "digest"].map(|field| image[field].clone()), expected);
    assert_eq!(image["pullPolicy"], "IfNotPresent");
    let installer = fs::read_to_string(folder.join("install.yaml")).unwrap();
    assert!(installer.contains(&format!("image: ghcr.io/us/guestbook@{NEW}\n")), "{installer}");
    assert!(!installer.contains("registry.example.com"), "{installer}");
    let published = fs::read_to_string(folder.join("helm.log")).unwrap();
    assert!(
        published.ends_with("package dist/chart\npush guestbook-0.1.0.tgz oci://ghcr.io/us/charts\n"),
        "{published}"
    );
}
