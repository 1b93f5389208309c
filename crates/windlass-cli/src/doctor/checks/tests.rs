use std::path::PathBuf;

use super::*;

/// A machine without problems.
fn well() -> Facts {
    let said = |text: &str| Some(text.to_owned());
    Facts {
        tools: Tools {
            rustc: said("rustc 1.99.0 (abc 2026-01-01)"),
            cargo: said("cargo 1.99.0"),
            rustfmt: said("rustfmt 1.9.0"),
            clippy: said("clippy 0.1.99"),
            git: said("git version 2.50.0"),
            kubectl: said("v1.36.1"),
            engine: said("Docker version 29.0.0"),
            musl: Some(("x86_64-unknown-linux-musl".to_owned(), true)),
        },
        machine: Machine {
            free: Some(50_000_000_000),
            inotify_watches: Some(524_288),
            inotify_instances: Some(512),
            now: PAST + 1,
            port: Port::Free,
        },
        folder: Folder { path: "/data".into(), mode: Some(0o700), ..Folder::default() },
        cluster: Cluster {
            kubeconfig: Some("/home/me/.kube/config".into()),
            answer: Some(Ok(("v1.36.0".to_owned(), Some(1)))),
        },
        project: Some(ProjectFacts {
            root: "/home/me/greeter".into(),
            dependency: Some(env!("CARGO_PKG_VERSION").to_owned()),
            ..ProjectFacts::default()
        }),
        terminal: Terminal { is_terminal: true, columns: Some(100), colour: true, utf8: true },
    }
}

/// Findings that are not ok after a change.
fn findings(change: impl FnOnce(&mut Facts)) -> Vec<(&'static str, Level, String)> {
    let mut facts = well();
    change(&mut facts);
    let bad = all(&facts).into_iter().filter(|finding| finding.level != Level::Ok);
    bad.map(|finding| (finding.check, finding.level, format!("{}: {}", finding.said, finding.hint.unwrap()))).collect()
}

#[track_caller]
fn check(change: impl FnOnce(&mut Facts), check: &str, level: Level, words: &str) {
    let found = findings(change);
    let [(name, found_level, said)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((*name, *found_level), (check, level), "{said}");
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_machine_without_problems_has_only_ok_findings() {
    assert_eq!(findings(|_| {}), []);
    let names: Vec<&str> = all(&well()).iter().map(|finding| finding.check).collect();
    let expected = "rust cargo rustfmt clippy git kubectl images static disk inotify port data clock cluster project \
                    dependency terminal";
    assert_eq!(names.join(" "), expected);
    assert_eq!(findings(|facts| facts.project = None), []);
    assert_eq!(findings(|facts| facts.folder.mode = None), []);
    assert_eq!(findings(|facts| facts.cluster = Cluster::default()), []);
    assert_eq!(findings(|facts| facts.machine.port = Port::Ours), []);
    assert_eq!(findings(|facts| facts.terminal = Terminal::default()), []);
    // Unknown facts are not reported.
    assert_eq!(findings(|facts| facts.machine.free = None), []);
    assert_eq!(findings(|facts| facts.machine.inotify_watches = None), []);
}

#[test]
fn rust_is_required_in_projects_and_recommended_elsewhere() {
    check(|facts| facts.tools.rustc = None, "rust", Level::Problem, "https://rustup.rs");
    check(|facts| facts.tools.cargo = None, "cargo", Level::Problem, "https://rustup.rs");
    let outside = |facts: &mut Facts| (facts.project, facts.tools.rustc) = (None, None);
    check(outside, "rust", Level::Warning, "projects cannot be built");
    let old = |facts: &mut Facts| facts.tools.rustc = Some("rustc 1.70.0 (old)".to_owned());
    check(old, "rust", Level::Problem, "rustc 1.70.0 (old) is older than 1.");
}

#[test]
fn missing_optional_tools_are_warnings() {
    use Level::Warning;
    check(|facts| facts.tools.rustfmt = None, "rustfmt", Warning, "rustup component add rustfmt");
    check(|facts| facts.tools.clippy = None, "clippy", Warning, "rustup component add clippy");
    check(|facts| facts.tools.git = None, "git", Warning, "install git");
    check(|facts| facts.tools.engine = None, "images", Warning, "install docker or podman");
    check(|facts| facts.tools.kubectl = None, "kubectl", Warning, "kubernetes.io/docs");
    check(|facts| facts.tools.kubectl = Some("v1.30.2".into()), "kubectl", Warning, "v1.30.2 is more than one version");
    assert_eq!(findings(|facts| facts.tools.kubectl = Some("v1.35.9".into())), []);
    let musl = |facts: &mut Facts| facts.tools.musl = Some(("aarch64-unknown-linux-musl".into(), false));
    check(musl, "static", Warning, "rustup target add aarch64-unknown-linux-musl");
}

#[test]
fn disk_clock_inotify_and_port_are_checked() {
    use Level::{Problem, Warning};
    check(|facts| facts.machine.free = Some(1_000_000_000), "disk", Warning, "1.0 GB free");
    check(|facts| facts.machine.free = Some(5_000_000), "disk", Problem, "free up disk space");
    check(|facts| facts.machine.inotify_watches = Some(100), "inotify", Warning, "max_user_watches=");
    check(|facts| facts.machine.inotify_instances = Some(8), "inotify", Warning, "max_user_instances=");
    check(|facts| facts.machine.port = Port::Taken, "port", Warning, "--port 0");
    check(|facts| facts.machine.port = Port::Unusable("no".into()), "port", Warning, "cannot listen on 6443: no");
    check(|facts| facts.machine.now = 0, "clock", Problem, "years behind");
    let ahead = |facts: &mut Facts| facts.cluster.answer = Some(Ok(("v1.36.0".into(), Some(120))));
    check(ahead, "clock", Warning, "120 s ahead");
}

#[test]
fn private_keys_must_not_be_readable_by_others() {
    use Level::{Problem, Warning};
    check(
        |facts| facts.folder.open_secrets = vec![PathBuf::from("/data/kubeconfig")],
        "data",
        Problem,
        "chmod 600 /data/kubeconfig",
    );
    check(|facts| facts.folder.problem = Some("it is a file".into()), "data", Problem, "/data: it is a file");
    check(|facts| facts.folder.mode = Some(0o777), "data", Warning, "chmod 700 /data");
}

#[test]
fn an_authority_that_is_about_to_expire_is_a_warning() {
    use Level::Warning;
    const DAY: i64 = 24 * 3600;
    let in_time =
        |seconds: i64| move |facts: &mut Facts| facts.folder.authority_expires = Some(facts.machine.now + seconds);
    assert_eq!(findings(in_time(30 * DAY)), []);
    check(in_time(30 * DAY - 1), "data", Warning, "expires in 29 days");
    check(in_time(-1), "data", Warning, "has expired");
}

#[test]
fn a_cluster_that_does_not_respond_is_a_warning() {
    use Level::Warning;
    check(|facts| facts.cluster.answer = Some(Err("refused".into())), "cluster", Warning, "does not respond: refused");
    let old = |facts: &mut Facts| facts.cluster.answer = Some(Ok(("v1.28.3+k3s1".into(), None)));
    check(old, "cluster", Warning, "v1.28.3+k3s1");
}

#[test]
fn projects_are_checked() {
    use Level::{Problem, Warning};
    let project = |facts: &mut Facts, change: fn(&mut ProjectFacts)| change(facts.project.as_mut().unwrap());
    let unreadable =
        |facts: &mut Facts| project(facts, |project| project.problem = Some(("PROJECT:3: no".into(), "fix it".into())));
    check(unreadable, "project", Problem, "PROJECT:3: no: fix it");
    let other = |facts: &mut Facts| project(facts, |project| project.dependency = Some("7.0.0".into()));
    check(other, "dependency", Warning, "the project uses windlass 7.0.0");
    let missing = |facts: &mut Facts| project(facts, |project| project.missing_checkout = Some("/gone".into()));
    check(missing, "dependency", Problem, "/gone, which is not a checkout of Windlass");
    let stale = |facts: &mut Facts| project(facts, |project| project.stale = true);
    check(stale, "manifests", Warning, "windlass generate --check");
}

#[test]
fn terminals_without_utf8_or_width_are_warned_about() {
    check(|facts| facts.terminal.utf8 = false, "terminal", Level::Warning, "C.UTF-8");
    check(|facts| facts.terminal.columns = Some(60), "terminal", Level::Warning, "60 columns");
}

#[test]
fn versions_are_parsed_from_program_output() {
    for (text, expected) in [
        ("rustc 1.95.0 (abc 2026-01-01)", Some((1, 95))),
        ("v1.36.4", Some((1, 36))),
        ("git version 2.50.0", Some((2, 50))),
        ("1.95", Some((1, 95))),
        ("nothing", None),
        ("", None),
    ] {
        assert_eq!(number(text), expected, "{text}");
    }
}
