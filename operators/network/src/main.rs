//! Runs the operator. `NETWORK_BACKEND=linux` creates network namespaces on this machine; otherwise networks exist only
//! in memory.

use std::{env, process::ExitCode};

use network_operator::{
    backend::{linux::Linux, memory::Memory},
    operator::operator,
};

#[tokio::main]
async fn main() -> ExitCode {
    let operator = match env::var("NETWORK_BACKEND").as_deref() {
        Ok("linux") => operator(Linux { prefix: "windlass".to_owned() }),
        _ => operator(Memory::default()),
    };
    operator.main().await
}
