//! `cargo xtask builtins`: regenerates the table of built-in kinds from the published Go modules.
//!
//! Needs Go and the module proxy, or a module cache that already has the modules.

mod enums;
mod openapi;
mod read;
mod vectors;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use windlass_builtins::resource::Table;
use windlass_builtins::table;

/// The release that the table describes; `xtask/builtins-go/go.mod` names the same.
const KUBERNETES: &str = "k8s.io/kubernetes@v1.36.4";

/// The values of enumerated properties.
const ENUMS: &str = "enums.txt";

/// Writes the tables of stable and unstable resources. `--check` compares them instead. `--openapi` compares the OpenAPI v3 documents with the published
/// ones. `--vectors` runs the protobuf codec against the test vectors that Kubernetes publishes.
pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let go = root.join("xtask/builtins-go");
    let data = root.join("crates/windlass-builtins/data");
    let files = [("builtins.bin", table::file(), &[][..]), ("unstable.bin", table::unstable_file(), &["unstable"])];
    match args {
        [] => {
            for (name, _, selection) in files {
                let table = generate(&go, selection)?;
                let (bytes, path) = (table::encode(&table), data.join(name));
                std::fs::write(&path, &bytes).with_context(|| format!("write {}", path.display()))?;
                println!("{}: {} bytes, {}", path.display(), bytes.len(), summary(&table));
            }
            let (enums, path) = (enums::read(&module_folder(&go, KUBERNETES)?)?, data.join(ENUMS));
            std::fs::write(&path, &enums).with_context(|| format!("write {}", path.display()))?;
            println!("{}: {} enumerated properties", path.display(), enums.lines().count());
            Ok(())
        }
        ["--check"] => {
            for (name, file, selection) in files {
                let table = generate(&go, selection)?;
                ensure!(table::decode(file)? == table, "{name} is stale: run `cargo xtask builtins`");
                ensure!(table::encode(&table) == file, "{name} has an outdated encoding: run `cargo xtask builtins`");
                println!("{name} is up to date: {}", summary(&table));
            }
            let enums = enums::read(&module_folder(&go, KUBERNETES)?)?;
            ensure!(
                std::fs::read_to_string(data.join(ENUMS))? == enums,
                "{ENUMS} is stale: run `cargo xtask builtins`"
            );
            Ok(())
        }
        ["--openapi"] => openapi::run(&module_folder(&go, KUBERNETES)?),
        ["--vectors", folders @ ..] => vectors::run(&go, folders),
        _ => bail!("usage: cargo xtask builtins [--check | --openapi | --vectors [DIR...]]"),
    }
}

fn generate(go: &Path, selection: &[&str]) -> anyhow::Result<Table> {
    let kubernetes = module_folder(go, KUBERNETES)?;
    let mut command = Command::new("go");
    command.args(["run", "."]).arg(&kubernetes).args(selection).current_dir(go);
    read::table(&output(&mut command)?)
}

/// Returns the directory of a module in the module cache, downloading the module if necessary.
fn module_folder(go: &Path, module: &str) -> anyhow::Result<PathBuf> {
    let answer = output(Command::new("go").args(["mod", "download", "-json", module]).current_dir(go))?;
    let answer: serde_json::Value =
        serde_json::from_slice(&answer).context("failed to read the output of go mod download")?;
    let folder =
        answer["Dir"].as_str().with_context(|| format!("go mod download of {module} reported no directory"))?;
    Ok(PathBuf::from(folder))
}

fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("failed to run {command:?}: is Go installed?"))?;
    ensure!(output.status.success(), "{command:?} failed");
    Ok(output.stdout)
}

fn summary(table: &Table) -> String {
    let subresources: usize = table.resources.iter().map(|resource| resource.subresources.len()).sum();
    let fields: usize = table.types.structs.iter().map(|structure| structure.fields.len()).sum();
    format!(
        "{} resources, {subresources} subresources, {} structs, {fields} fields",
        table.resources.len(),
        table.types.structs.len()
    )
}
