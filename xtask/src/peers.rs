//! `cargo xtask peers`: builds kube-apiserver, kubectl, etcd and sample-apiserver into `target/peers`, for benchmarks
//! and end-to-end tests.
//!
//! `cargo xtask peers bundle-validate` builds the validator of bundles for the Operator Lifecycle Manager: the
//! libraries behind `operator-sdk bundle validate`, because the module proxy does not serve the module of operator-sdk
//! itself. `cargo xtask scaffold` then validates the bundles of its projects.
//!
//! They come from the Go module proxy through the ordinary `go` command. Kubernetes is not meant to be a dependency:
//! its go.mod refers to parts of its own repository, which are published as modules of the matching version.

mod pod_address;

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

const KUBERNETES: &str = "v1.36.4";
const ETCD: &str = "v3.6.16";
/// The program for many images of the conformance tests, which listens on the address of its pod.
pub(crate) const POD_AGNHOST: &str = "pod-agnhost";
const OPERATOR_REGISTRY: &str = "github.com/operator-framework/operator-registry";
const OPERATOR_REGISTRY_VERSION: &str = "v1.55.0";

/// Name of the validator of bundles, which is only built on demand.
pub(crate) const BUNDLE_VALIDATOR: &str = "bundle-validate";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Download {
    go_mod: PathBuf,
    dir: PathBuf,
}

/// Builds the programs that are missing.
pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    let (peers, args) = match args {
        [args @ .., "--peers", folder] => (std::path::absolute(folder)?, args),
        args => (folder(), args),
    };
    match args {
        [] => {}
        [BUNDLE_VALIDATOR] => return bundle_validator(&peers).context("failed to build the validator of bundles"),
        _ => bail!("usage: cargo xtask peers [{BUNDLE_VALIDATOR}] [--peers DIR]"),
    }
    let built = |name: &str| peers.join(name).is_file();
    if !built("kube-apiserver") || !built("kubectl") {
        kubernetes(&peers).context("failed to build Kubernetes")?;
    }
    if !built("etcd") {
        etcd(&peers).context("failed to build etcd")?;
    }
    if !built("sample-apiserver") {
        sample_apiserver(&peers).context("failed to build sample-apiserver")?;
    }
    let all = format!("kube-apiserver, kubectl and sample-apiserver {KUBERNETES} and etcd {ETCD}");
    println!("{all} are in {}", peers.display());
    Ok(())
}

/// Returns the default directory of the peers.
pub(crate) fn folder() -> PathBuf {
    target().join("peers")
}

/// Returns the target directory of the workspace.
pub(crate) fn target() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask must be in the workspace");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from)
}

/// Returns the path of a peer in a directory, or an error that says how to get it.
pub(crate) fn find(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    if !path.is_file() {
        bail!(
            "{} does not exist: build it with `cargo xtask peers`, or pass its directory with --peers",
            path.display()
        );
    }
    std::path::absolute(&path).with_context(|| format!("cannot use {}", path.display()))
}

fn kubernetes(peers: &Path) -> anyhow::Result<()> {
    let module = Module::create(peers, "kubernetes", |_| {
        Ok(["k8s.io/kubernetes/cmd/kube-apiserver/app", "k8s.io/kubernetes/cmd/kubectl"].map(str::to_owned).to_vec())
    })?;
    module.build(&["build"], "k8s.io/kubernetes/cmd/kubectl", "kubectl")?;
    module.build(&["build"], "k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver")
}

/// Builds the sample API server of Kubernetes, an aggregated one.
fn sample_apiserver(peers: &Path) -> anyhow::Result<()> {
    let module =
        Module::create(peers, "sample-apiserver", |_| Ok(vec!["k8s.io/sample-apiserver/pkg/cmd/server".to_owned()]))?;
    module.build(&["build"], "k8s.io/sample-apiserver", "sample-apiserver")
}

/// Builds the programs of the conformance tests that are missing: the tests, what runs them in parallel, and others
/// that only some runs need.
pub(crate) fn conformance(peers: &Path, others: &[&str]) -> anyhow::Result<()> {
    let is_wanted = |name: &str| ["ginkgo", "e2e.test"].contains(&name) || others.contains(&name);
    let built = |name: &str| peers.join(name).is_file();
    if ["ginkgo", "e2e.test"].iter().chain(others).all(|name| built(name)) {
        return Ok(());
    }
    let module = Module::create(peers, "conformance", |source| {
        let mut packages = Vec::new();
        for file in ["test/e2e/e2e_test.go", "test/images/agnhost/agnhost.go"] {
            packages.extend(imports(&fs::read_to_string(source.join(file))?));
        }
        packages.push("github.com/onsi/ginkgo/v2/ginkgo/command".to_owned());
        packages.push("k8s.io/kubernetes/cmd/kube-controller-manager/app".to_owned());
        Ok(packages)
    })?;
    let go_root = String::from_utf8(go(&module.folder, ["env", "GOROOT"])?)?;
    let overlay = pod_address::overlay(&module.folder, Path::new(go_root.trim()))?.display().to_string();
    let programs: [(&[&str], _, _); 4] = [
        (&["build"], "github.com/onsi/ginkgo/v2/ginkgo", "ginkgo"),
        (&["test", "-c", "-vet=off"], "k8s.io/kubernetes/test/e2e", "e2e.test"),
        (&["build"], "k8s.io/kubernetes/cmd/kube-controller-manager", "kube-controller-manager"),
        (&["build", "-overlay", &overlay], "k8s.io/kubernetes/test/images/agnhost", POD_AGNHOST),
    ];
    for (command, package, name) in programs {
        if !built(name) && is_wanted(name) {
            module.build(command, package, name)?;
        }
    }
    Ok(())
}

/// Returns the directory with the sources of Kubernetes.
pub(crate) fn kubernetes_sources(folder: &Path) -> anyhow::Result<PathBuf> {
    let download = go(folder, ["mod", "download", "-json", &format!("k8s.io/kubernetes@{KUBERNETES}")])?;
    let download: Download = serde_json::from_slice(&download).context("failed to read the output of go")?;
    Ok(download.dir)
}

/// A module that depends on Kubernetes, for building its programs.
struct Module<'a> {
    peers: &'a Path,
    folder: PathBuf,
}

impl<'a> Module<'a> {
    /// Creates a module with these packages, which may depend on the sources of Kubernetes.
    fn create(
        peers: &'a Path,
        name: &str,
        packages: impl FnOnce(&Path) -> anyhow::Result<Vec<String>>,
    ) -> anyhow::Result<Self> {
        let folder = peers.join("src").join(name);
        fs::create_dir_all(&folder)?;
        let version = format!("k8s.io/kubernetes@{KUBERNETES}");
        let download = go(&folder, ["mod", "download", "-json", &version])?;
        let download: Download = serde_json::from_slice(&download).context("failed to read the output of go")?;
        let theirs = fs::read_to_string(&download.go_mod)?;
        fs::write(folder.join("go.mod"), go_mod(&theirs, KUBERNETES)?)?;
        let packages: String = packages(&download.dir)?.iter().map(|package| format!("\t_ \"{package}\"\n")).collect();
        fs::write(folder.join("peers.go"), format!("package peers\n\nimport (\n{packages})\n"))?;
        // Some modules have tests with unpublished dependencies; -e ignores those.
        go(&folder, ["mod", "tidy", "-e"])?;
        Ok(Self { peers, folder })
    }

    /// Builds a program with a command of go.
    fn build(&self, command: &[&str], package: &str, name: &str) -> anyhow::Result<()> {
        println!("building {name} {KUBERNETES}, which takes a few minutes");
        let (major, minor) = major_and_minor(KUBERNETES)?;
        let version = "k8s.io/component-base/version";
        let flags = format!(
            "-s -w -X {version}.gitVersion={KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
        );
        let output = self.peers.join(name);
        let mut args: Vec<&OsStr> = command.iter().map(AsRef::as_ref).collect();
        args.extend(["-ldflags", &flags, "-o"].map(AsRef::<OsStr>::as_ref));
        args.extend([output.as_os_str(), package.as_ref()]);
        go(&self.folder, args)?;
        Ok(())
    }
}

/// Returns the packages that a Go file imports, except for those of the standard library.
fn imports(source: &str) -> Vec<String> {
    let block =
        source.split_once("import (").and_then(|(_, rest)| rest.split_once("\n)")).map_or("", |(block, _)| block);
    let lines = block.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let packages = lines.filter_map(|line| line.split('"').nth(1)).filter(|package| package.contains('.'));
    packages.map(str::to_owned).collect()
}

fn etcd(peers: &Path) -> anyhow::Result<()> {
    let module = peers.join("src/etcd");
    fs::create_dir_all(&module)?;
    fs::write(module.join("go.mod"), format!("module peers\n\ngo 1.24\n\nrequire go.etcd.io/etcd/server/v3 {ETCD}\n"))?;
    fs::write(
        module.join("main.go"),
        "package main\n\nimport (\n\t\"os\"\n\n\t\"go.etcd.io/etcd/server/v3/etcdmain\"\n)\n\nfunc main() { etcdmain.Main(os.Args) }\n",
    )?;
    go(&module, ["mod", "tidy"])?;
    println!("building etcd {ETCD}");
    let output = peers.join("etcd");
    go(
        &module,
        ["build".as_ref(), "-ldflags".as_ref(), "-s -w".as_ref(), "-o".as_ref(), output.as_os_str(), ".".as_ref()],
    )?;
    Ok(())
}

fn bundle_validator(peers: &Path) -> anyhow::Result<()> {
    let module = peers.join("src").join(BUNDLE_VALIDATOR);
    fs::create_dir_all(&module)?;
    let version = format!("{OPERATOR_REGISTRY}@{OPERATOR_REGISTRY_VERSION}");
    let download: Download = serde_json::from_slice(&go(&module, ["mod", "download", "-json", &version])?)?;
    let theirs = fs::read_to_string(&download.go_mod)?;
    // A module's replacements do not apply to modules that depend on it.
    let replaced: String =
        theirs.lines().filter(|line| line.starts_with("replace ")).map(|line| format!("{line}\n")).collect();
    let required = format!("require {OPERATOR_REGISTRY} {OPERATOR_REGISTRY_VERSION}");
    fs::write(module.join("go.mod"), format!("module peers\n\ngo 1.24\n\n{required}\n\n{replaced}"))?;
    fs::write(module.join("main.go"), include_str!("peers/bundle_validate.go"))?;
    go(&module, ["mod", "tidy", "-e"])?;
    println!("building {BUNDLE_VALIDATOR} with {version}");
    let output = peers.join(BUNDLE_VALIDATOR);
    go(
        &module,
        ["build".as_ref(), "-ldflags".as_ref(), "-s -w".as_ref(), "-o".as_ref(), output.as_os_str(), ".".as_ref()],
    )?;
    println!("{BUNDLE_VALIDATOR} is in {}", peers.display());
    Ok(())
}

fn go<S: AsRef<OsStr>>(folder: &Path, args: impl IntoIterator<Item = S>) -> anyhow::Result<Vec<u8>> {
    let mut command = Command::new("go");
    command.args(args).current_dir(folder);
    let output = command.output().context("cannot run go: install it from https://go.dev/dl")?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

/// Returns a go.mod that requires Kubernetes, with its parts replaced by the published modules.
fn go_mod(theirs: &str, version: &str) -> anyhow::Result<String> {
    let go =
        theirs.lines().find(|line| line.starts_with("go ")).context("the go.mod of Kubernetes names no Go version")?;
    let part = |line: &str| {
        let name = line.split_whitespace().find(|word| *word != "require" && *word != "replace")?.to_owned();
        let ours = name.starts_with("k8s.io/") && (line.contains(" => ./staging/") || line.contains(" v0.0.0"));
        (ours && !line.contains(" v0.0.0-")).then_some(name)
    };
    let mut parts: Vec<String> = theirs.lines().filter_map(part).collect();
    parts.sort_unstable();
    parts.dedup();
    ensure!(!parts.is_empty(), "the go.mod of Kubernetes has no staging modules");
    let published = version.replacen("v1.", "v0.", 1);
    let replaced: String = parts.iter().map(|part| format!("\t{part} => {part} {published}\n")).collect();
    Ok(format!("module peers\n\n{go}\n\nrequire k8s.io/kubernetes {version}\n\nreplace (\n{replaced})\n"))
}

fn major_and_minor(version: &str) -> anyhow::Result<(&str, &str)> {
    let mut parts = version.trim_start_matches('v').split('.');
    parts.next().zip(parts.next()).with_context(|| format!("{version} is not a version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_kubernetes_are_replaced_by_what_is_published() {
        let theirs = "module k8s.io/kubernetes\n\ngo 1.26.0\n\nrequire (\n\tgithub.com/x/y v1.0.0\n\tk8s.io/api v0.0.0\n\
                      \tk8s.io/utils v0.0.0-2025\n\tk8s.io/client-go v0.0.0\n)\n\nreplace (\n\
                      \tk8s.io/api => ./staging/src/k8s.io/api\n)\n";
        let expected = "module peers\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.36.4\n\nreplace (\n\
                        \tk8s.io/api => k8s.io/api v0.36.4\n\tk8s.io/client-go => k8s.io/client-go v0.36.4\n)\n";
        assert_eq!(go_mod(theirs, "v1.36.4").unwrap(), expected);
        assert!(go_mod("module x\n\ngo 1.26.0\n", "v1.36.4").is_err());
    }

    #[test]
    fn imports_of_a_file_are_those_of_other_modules() {
        let source = "package e2e\n\nimport (\n\t\"flag\"\n\n\tyaml \"go.yaml.in/yaml/v2\"\n\t// \"github.com/a/b\"\n\
                      \t_ \"k8s.io/x\"\n)\n\nvar text = \"k8s.io/y\"\n";
        assert_eq!(imports(source), ["go.yaml.in/yaml/v2", "k8s.io/x"]);
        assert!(imports("package e2e\n").is_empty());
    }
}
