//! A Go standard library whose programs listen on the address of their pod.
//!
//! Pods that run as processes share the network of the machine, and the programs of the conformance tests listen on all
//! its addresses. So they are built with a `net` package that replaces "all addresses" by `WINDLASS_POD_IP`, without
//! changes to their own sources.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::json;

/// The file of the package that creates all sockets of TCP and UDP, below GOROOT.
const FILE: &str = "src/net/ipsock_posix.go";
/// The beginning of the function that creates them.
const FUNCTION: &str = "\nfunc internetSocket(";
/// The first statement of this function.
const CALL: &str = "\tif raddr == nil {\n\t\tladdr = onPodAddress(laddr)\n\t}\n";
const REPLACE: &str = r#"
func onPodAddress(laddr sockaddr) sockaddr {
	pod, _ := syscall.Getenv("WINDLASS_POD_IP")
	ip := ParseIP(pod)
	if ip == nil {
		return laddr
	}
	switch addr := laddr.(type) {
	case *TCPAddr:
		if addr != nil && addr.isWildcard() {
			return &TCPAddr{IP: ip, Port: addr.Port}
		}
	case *UDPAddr:
		if addr != nil && addr.isWildcard() {
			return &UDPAddr{IP: ip, Port: addr.Port}
		}
	}
	return laddr
}
"#;

/// Writes the overlay for `go build` into a directory, and returns its path.
pub(super) fn overlay(folder: &Path, go_root: &Path) -> anyhow::Result<PathBuf> {
    let original = go_root.join(FILE);
    let source = fs::read_to_string(&original).with_context(|| format!("cannot read {}", original.display()))?;
    let source = changed(&source).with_context(|| format!("{} has no known form", original.display()))?;
    let folder = std::path::absolute(folder)?;
    let file = folder.join("ipsock_posix.go.txt");
    fs::write(&file, source)?;
    let overlay = folder.join("overlay.json");
    fs::write(&overlay, json!({"Replace": {original.display().to_string(): file}}).to_string())?;
    Ok(overlay)
}

fn changed(source: &str) -> Option<String> {
    let (before, function) = source.split_once(FUNCTION)?;
    let (signature, body) = function.split_once("{\n")?;
    Some([before, FUNCTION, signature, "{\n", CALL, body, REPLACE].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_get_the_address_of_the_pod() {
        let source =
            "package net\n\nfunc other() {\n}\n\nfunc internetSocket(laddr, raddr sockaddr) error {\n\treturn nil\n}\n";
        let expected = "package net\n\nfunc other() {\n}\n\nfunc internetSocket(laddr, raddr sockaddr) error {\n\
                        \tif raddr == nil {\n\t\tladdr = onPodAddress(laddr)\n\t}\n\treturn nil\n}\n";
        assert_eq!(changed(source).unwrap(), format!("{expected}{REPLACE}"));
        assert_eq!(changed("package net\n"), None);
    }
}
