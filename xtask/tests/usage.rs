//! The program, as CI starts it: this test is also why `cargo test --workspace` builds it.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

#[test]
fn an_unknown_task_is_an_error_that_lists_all_tasks() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("tidier").output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("usage: cargo xtask") && error.contains("tidy"), "{error}");
}
