//! The demo from start to end.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::process::{output, windlass};

/// Output that must appear, in this order. All but the titles comes from the server.
const TOLD: &[&str] = &[
    "Windlass serves Kubernetes v1.36 at https://127.0.0.1:",
    "━━ 1 · A cluster in this process ━",
    "$ kubectl get nodes",
    "node-1   Ready ",
    "node-2   Ready ",
    "━━ 2 · Two custom resources ━",
    "customresourcedefinition.apiextensions.k8s.io/networks.samplecrd.k8s.io",
    "No resources found in default namespace.",
    "━━ 3 · Declare the desired state ━",
    "network.samplecrd.k8s.io/office created",
    "✓ the network is ready",
    "guestbook.webapp.tutorial.kubebuilder.io/visitors created",
    "$ kubectl get deployments -w",
    "visitors   4/4 ",
    "✓ four pods are ready on both nodes",
    "visitors   4      True    http://visitors.default.svc",
    "━━ 4 · Break it: delete every pod ━",
    "deleted from default namespace",
    "✓ four new pods are ready",
    "━━ 5 · Break it: behind the operator's back ━",
    "deployment.apps/visitors scaled",
    "✓ the Deployment has four replicas again",
    "━━ 6 · Break it: a node fails ━",
    "node/node-1 tainted",
    "✓ all four pods are ready on node-2",
    "node/node-1 untainted",
    "━━ 7 · Invalid requests ━",
    "The Guestbook \"crowd\" is invalid: spec.size: Invalid value: 400",
    "The Network \"no-gateway\" is invalid: ",
    "spec.gateway: Required value",
    "✓ the operator reports the conflict",
    "annex    192.168.7.0/24   192.168.7.1   False",
    "192.168.7.0/24 overlaps with the network office",
    "Warning   Overlap   network/annex ",
    "━━ 8 · A finalizer at work ━",
    "[\"samplecrd.k8s.io/release\"]",
    "✓ the network is released and deleted",
    "✓ the annex gets its address range",
    "━━ 9 · Garbage collection ━",
    "service/visitors ",
    "✓ all owned resources are deleted",
    "$ kubectl get deployments,replicasets,pods,services",
    "━━ Everything has recovered",
];

fn demo(temporary: &Path) -> Command {
    let mut command = windlass();
    command.args(["demo", "--no-wait"]).env("TMPDIR", temporary);
    command
}

fn start(temporary: &Path) -> (Child, String, BufReader<std::process::ChildStdout>) {
    let mut child = demo(temporary).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    while !first.contains("Windlass serves") {
        first.clear();
        assert!(out.read_line(&mut first).unwrap() > 0, "it must begin");
    }
    (child, first, out)
}

fn left(temporary: &Path) -> usize {
    fs::read_dir(temporary).unwrap().count()
}

#[test]
fn every_chapter_succeeds_and_nothing_is_left_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let output = output(&mut demo(temporary.path()));
    let told = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{told}");
    let mut rest = told.as_str();
    for expected in TOLD {
        let at = rest.find(expected).unwrap_or_else(|| panic!("{expected:?} is not in what follows:\n{rest}"));
        rest = &rest[at + expected.len()..];
    }
    assert!(!told.contains('\x1b'), "colours are for terminals");
    let longest = told.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{longest:?} columns: {told}");
    assert_eq!(left(temporary.path()), 0);
}

#[test]
fn a_signal_stops_the_demo_and_nothing_is_left_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let (mut child, _, _out) = start(temporary.path());
    assert_eq!(left(temporary.path()), 1);
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(left(temporary.path()), 0);
}

#[test]
fn a_closed_pipe_ends_the_demo_successfully() {
    let temporary = tempfile::tempdir().unwrap();
    let (mut child, _, out) = start(temporary.path());
    drop(out);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(left(temporary.path()), 0);
}
