//! The kubeconfig of the plane's administrator.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::pki::Pki;

/// Name of the cluster and of the context.
const CONTEXT: &str = "windlass";
/// Name of the user entry, the same as in the administrator's certificate.
const USER: &str = "admin";

/// Returns a kubeconfig that connects to the server at `url` as the administrator.
///
/// The certificates are embedded, so the file works from anywhere. It contains a private key: protect it like one.
pub fn kubeconfig(pki: &Pki, url: &str) -> String {
    let authority = STANDARD.encode(&pki.ca().certificate);
    let certificate = STANDARD.encode(&pki.admin().certificate);
    let key = STANDARD.encode(&pki.admin().key);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: {CONTEXT}
  cluster:
    server: {url}
    certificate-authority-data: {authority}
users:
- name: {USER}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {CONTEXT}
  context:
    cluster: {CONTEXT}
    user: {USER}
current-context: {CONTEXT}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificates_are_embedded() {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::load_or_create(folder.path(), &[]).unwrap();
        let text = kubeconfig(&pki, "https://127.0.0.1:6443");
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.trim_start().strip_prefix(name)).unwrap();
            String::from_utf8(STANDARD.decode(value.trim_start_matches(": ")).unwrap()).unwrap()
        };
        assert_eq!(field("certificate-authority-data"), pki.ca().certificate);
        assert_eq!(field("client-certificate-data"), pki.admin().certificate);
        assert_eq!(field("client-key-data"), pki.admin().key);
        assert!(text.contains("\n    server: https://127.0.0.1:6443\n"), "{text}");
        assert!(text.ends_with("\ncurrent-context: windlass\n"), "{text}");
    }
}
