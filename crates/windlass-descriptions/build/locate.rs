//! Finds the source of the k8s-openapi that this crate depends on.
//!
//! Cargo does not provide the path. It provides the version of the crate and of Kubernetes, because k8s-openapi has
//! `links`, and it keeps the source of a version in one of few places; in all others, the dependency information of the
//! build script of k8s-openapi, which has run before this one, names a file of it.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The variable that names the directory of k8s-openapi.
pub(crate) const OVERRIDE: &str = "WINDLASS_K8S_OPENAPI";

/// Returns the folder with the source for the selected version of Kubernetes: `k8s-openapi-0.29.0/src/v1_36`.
pub(crate) fn source(out: &Path) -> Option<PathBuf> {
    let (version, kubernetes) = env::vars().find_map(|(name, value)| versions(&name, &value))?;
    let below = |package: PathBuf| Some(package.join("src").join(&kubernetes)).filter(|folder| folder.is_dir());
    if let Some(package) = env::var_os(OVERRIDE) {
        return below(package.into());
    }
    let mut packages = Vec::new();
    // Packages from a registry or a vendor folder are next to each other.
    let own: PathBuf = env::var_os("CARGO_MANIFEST_DIR")?.into();
    packages.extend(own.parent().map(|folder| folder.join(format!("k8s-openapi-{version}"))));
    packages.extend(own.parent().map(|folder| folder.join("k8s-openapi")));
    let registries = cargo_home().map(|home| home.join("registry").join("src"));
    packages.extend(registries.iter().flat_map(|folder| entries(folder, "", &format!("k8s-openapi-{version}"))));
    packages.extend(compiled(out));
    packages.into_iter().filter(|package| is_version(package, &version)).find_map(below)
}

/// Parses a variable such as `DEP_K8S_OPENAPI_0_29_0_VERSION=74752` into `0.29.0` and `v1_36`.
pub(crate) fn versions(name: &str, value: &str) -> Option<(String, String)> {
    let version = name.strip_prefix("DEP_K8S_OPENAPI_")?.strip_suffix("_VERSION")?;
    let number: u32 = value.parse().ok()?;
    Some((version.replace('_', "."), format!("v{}_{}", number >> 16, (number >> 8) & 0xff)))
}

fn cargo_home() -> Option<PathBuf> {
    let user = || env::home_dir().map(|home| home.join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(user)
}

/// Returns the packages of the build scripts that Cargo has compiled next to this one, whose output folder is
/// `target/debug/build/NAME/out`, or with a target of its own `target/TRIPLE/debug/build/NAME/out`.
fn compiled(out: &Path) -> Vec<PathBuf> {
    let profile = out.ancestors().nth(3).and_then(Path::file_name).unwrap_or_default();
    let folders = out.ancestors().flat_map(|folder| [folder.join("build"), folder.join(profile).join("build")]);
    let scripts: Vec<_> = folders.flat_map(|folder| entries(&folder, "k8s-openapi-", "")).collect();
    let files = scripts.iter().flat_map(|script| entries(script, "build_script", ""));
    let files = files.filter(|file| file.extension().is_some_and(|extension| extension == "d"));
    let texts = files.filter_map(|file| fs::read_to_string(file).ok());
    texts.filter_map(|text| package(&text)).collect()
}

/// Returns the package of a build script from its dependency information, a rule of make.
pub(crate) fn package(rule: &str) -> Option<PathBuf> {
    let (_, script) = rule.lines().next()?.split_once(": ")?;
    let script = script.strip_suffix("build.rs")?.replace("\\ ", " ");
    Some(PathBuf::from(script)).filter(|package| package.is_absolute())
}

/// Returns the entries of a folder that begin with a prefix, and what is called `below` in them.
fn entries(folder: &Path, prefix: &str, below: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let paths = entries.map(|entry| if below.is_empty() { entry.path() } else { entry.path().join(below) });
    let mut paths: Vec<_> = paths.filter(|path| path.exists()).collect();
    paths.sort();
    paths
}

fn is_version(package: &Path, version: &str) -> bool {
    let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap_or_default();
    let mut lines = manifest.lines().map(str::trim);
    lines.find(|line| line.starts_with("version")).is_some_and(|line| line.contains(&format!("{version:?}")))
}
