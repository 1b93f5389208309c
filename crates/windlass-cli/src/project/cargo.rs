//! Build results of cargo, from `--message-format=json-render-diagnostics`.

use std::{env, ffi::OsString, path::PathBuf};

use serde_json::Value;

/// A binary that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Artifact {
    pub(crate) executable: PathBuf,
    /// Version of its package.
    pub(crate) version: String,
    /// Whether nothing had to be compiled.
    pub(crate) fresh: bool,
}

/// The cargo to run: cargo sets `CARGO` for the programs it runs.
pub(crate) fn cargo() -> OsString {
    env::var_os("CARGO").filter(|cargo| !cargo.is_empty()).unwrap_or_else(|| "cargo".into())
}

/// Parses a message about the binary, if the line is one.
pub(crate) fn artifact(line: &str, name: &str) -> Option<Artifact> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_ours = message["reason"] == "compiler-artifact" && message["target"]["name"] == *name;
    let executable = message["executable"].as_str().filter(|_| is_ours)?;
    // path+file:///home/me/shop#0.1.0, or with the name and an @ before the version.
    let package = message["package_id"].as_str().unwrap_or_default();
    let version = package.rsplit(['#', '@']).next().unwrap_or_default();
    Some(Artifact { executable: executable.into(), version: version.to_owned(), fresh: message["fresh"] == true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_found_in_the_output_of_cargo() {
        let line = |id: &str, name: &str, executable: &str, fresh: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","target":{{"name":"{name}"}},"executable":{executable},"fresh":{fresh}}}"#
            )
        };
        let found = |fresh| Some(Artifact { executable: "/t/shop".into(), version: "0.1.0".into(), fresh });
        let (id, program) = ("path+file:///home/me/shop#0.1.0", r#""/t/shop""#);
        for (line, expected) in [
            (line(id, "shop", program, false), found(false)),
            (line(id, "shop", program, true), found(true)),
            (line("path+file:///home/me#shop@0.1.0", "shop", program, true), found(true)),
            (line(id, "shop", "null", true), None),
            (line(id, "other", program, true), None),
            (r#"{"reason":"build-finished","success":true}"#.to_owned(), None),
            ("a warning".to_owned(), None),
        ] {
            assert_eq!(artifact(&line, "shop"), expected, "{line}");
        }
    }
}
