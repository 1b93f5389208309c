//! The golden project on disk, with its operator built.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::process::{output, windlass};

/// The golden project of windlass-scaffold, in a temporary directory.
pub(crate) struct Golden {
    folder: tempfile::TempDir,
}

/// Output of a command.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The directory of the golden project.
pub(crate) fn checked_in() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../windlass-scaffold/testdata")
}

/// Its operator, which cargo builds with the tests.
pub(crate) fn program() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_windlass")).with_file_name("examples").join("guestbook");
    assert!(program.is_file(), "{} must be built: run all tests of the package", program.display());
    program
}

impl Golden {
    pub(crate) fn new() -> Self {
        let golden = Self { folder: tempfile::tempdir().unwrap() };
        copy(&checked_in().join("guestbook"), &golden.root());
        // The output of cargo after a build. Not written by this process: another thread may fork in the meantime, and
        // a file that is open for writing cannot be executed.
        let message = format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///x#0.1.0","target":{{"name":"guestbook"}},"executable":{:?}}}"#,
            program().to_str().unwrap()
        );
        let made = Command::new("sh")
            .args(["-c", "printf '#!/bin/sh\\ncat <<EOF\\n%s\\nEOF\\n' \"$MESSAGE\" > \"$0\" && chmod +x \"$0\""])
            .arg(golden.cargo())
            .env("MESSAGE", message)
            .status();
        assert!(made.unwrap().success());
        golden
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("guestbook")
    }

    /// A path next to the project.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn cargo(&self) -> PathBuf {
        self.folder.path().join("cargo")
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) fn edit(&self, path: &str, from: &str, to: &str) {
        let text = self.read(path);
        assert!(text.contains(from), "{from} in {text}");
        fs::write(self.root().join(path), text.replace(from, to)).unwrap();
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        let mut command = windlass();
        command
            .args(arguments)
            .current_dir(self.root().join("src"))
            .env("CARGO", self.cargo())
            .env_remove("KUBECONFIG");
        said(output(&mut command))
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub(crate) fn must(&self, arguments: &[&str]) -> Said {
        let said = self.run(arguments);
        assert_eq!(said.code, Some(0), "{}", said.err);
        said
    }
}

fn said(output: Output) -> Said {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}
