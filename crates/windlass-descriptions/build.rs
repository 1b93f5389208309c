//! Reads the descriptions of Kubernetes' kinds from the source of k8s-openapi and compresses them.
//!
//! The texts are part of its implementations of `schemars::JsonSchema`. Compiling these to call them would take twice
//! the time of k8s-openapi itself; reading them takes half a second.

#![allow(clippy::print_stdout, reason = "build scripts talk to cargo on standard output")]

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

#[path = "build/encode.rs"]
mod encode;
#[path = "build/locate.rs"]
mod locate;
#[path = "build/read.rs"]
mod read;

fn main() -> Result<(), Box<dyn Error>> {
    let out: PathBuf = env::var_os("OUT_DIR").ok_or("cargo must set OUT_DIR")?.into();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed={}", locate::OVERRIDE);
    let mut schemas = Vec::new();
    match locate::source(&out) {
        Some(source) => {
            println!("cargo::rerun-if-changed={}", source.display());
            read_folder(&source, &mut schemas)?;
        }
        None => println!(
            "cargo::warning=the source of k8s-openapi was not found, so kubectl explain will show no descriptions; \
             set {} to its directory",
            locate::OVERRIDE
        ),
    }
    fs::write(out.join("descriptions.bin"), encode::encode(schemas)?)?;
    Ok(())
}

/// Reads the schemas of all files in a folder and the folders in it.
fn read_folder(folder: &Path, schemas: &mut Vec<read::Schema>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_folder(&path, schemas)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            schemas.extend(read::schema(&fs::read_to_string(&path)?));
        }
    }
    Ok(())
}
