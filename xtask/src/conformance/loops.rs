//! kube-controller-manager alongside kube-apiserver.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::peers;

/// A kube-controller-manager, which ends when this value is dropped.
pub(super) struct ControllerManager {
    process: Child,
}

impl ControllerManager {
    pub(super) fn start(peers: &Path, kubeconfig: &Path, folder: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(kubeconfig)?;
        let authority = text.lines().find_map(|line| line.trim().strip_prefix("certificate-authority-data:"));
        let authority =
            authority.with_context(|| format!("{} has no certificate-authority-data", kubeconfig.display()))?;
        let root = folder.join("ca.crt");
        fs::write(&root, STANDARD.decode(authority.trim().trim_matches('"'))?)?;
        let log = fs::File::create(folder.join("controller-manager.log"))?;
        let mut command = Command::new(peers::find(peers, "kube-controller-manager")?);
        command.arg("--kubeconfig").arg(kubeconfig).arg("--root-ca-file").arg(&root);
        command.args(["--secure-port=0", "--leader-elect=false", "--controllers=*,-serviceaccount-token-controller"]);
        let process = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        Ok(Self { process: process.context("cannot start kube-controller-manager")? })
    }
}

impl Drop for ControllerManager {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
