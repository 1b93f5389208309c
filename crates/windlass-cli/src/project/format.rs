//! Formats code as `cargo fmt` does, so that the generated project passes its own checks for names of any length.

use std::{
    collections::BTreeSet,
    env,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use windlass_scaffold::Files;

/// Directory with the rustfmt configuration of a project, if it exists.
pub(crate) struct Style(Option<PathBuf>);

/// Returns the style of a project.
pub(crate) fn style_of(root: &Path) -> Style {
    Style(root.join("rustfmt.toml").is_file().then(|| root.to_owned()))
}

/// Formats the Rust files. Without rustfmt they are left unformatted, which is not an error.
pub(crate) fn format_all(files: &mut Files, paths: &BTreeSet<String>, style: &Style) {
    for (path, text) in files.iter_mut().filter(|(path, _)| paths.contains(*path) && path.ends_with(".rs")) {
        match format(text, style) {
            Some(formatted) => *text = formatted,
            None => tracing::debug!(path, "rustfmt failed to format the file"),
        }
    }
}

fn format(text: &str, style: &Style) -> Option<String> {
    let mut command = Command::new(env::var_os("RUSTFMT").unwrap_or_else(|| "rustfmt".into()));
    command.args(["--edition", "2024", "--emit", "stdout", "--quiet"]);
    match &style.0 {
        // rustfmt searches its configuration from here.
        Some(root) => command.current_dir(root),
        // Not from the working directory, which may be within another project.
        None => command.current_dir(env::temp_dir()).args(["--config", "max_width=120"]),
    };
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    // The text fits into the pipe, or rustfmt reads all of it first.
    child.stdin.take()?.write_all(text.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    let formatted = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !formatted.is_empty()).then_some(formatted)
}
