//! The serving certificate: given by files, found in a directory, or issued there.

use std::{
    fs,
    io::Write as _,
    net::IpAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use windlass_plane::{CertificateAndKey, Pki};

use crate::drop_in::io_errors;

/// Reads the serving certificate. Without files, it is `apiserver.crt` in the directory, which is created if there is none.
pub(super) fn certificate(
    files: Option<(PathBuf, PathBuf)>,
    directory: &Path,
    address: IpAddr,
) -> Result<CertificateAndKey, String> {
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| io_errors::open(path, &error));
    if let Some((certificate, key)) = files {
        return Ok(CertificateAndKey { certificate: read(&certificate)?, key: read(&key)? });
    }
    let (certificate, key) = (directory.join("apiserver.crt"), directory.join("apiserver.key"));
    if certificate.exists() && key.exists() {
        return Ok(CertificateAndKey { certificate: read(&certificate)?, key: read(&key)? });
    }
    let failed = |error: &dyn std::fmt::Display| format!("unable to generate self signed cert: {error}");
    let mut names: Vec<String> =
        ["localhost", "kubernetes.default.svc", "kubernetes.default", "kubernetes", "127.0.0.1"]
            .map(str::to_owned)
            .into();
    if !address.is_unspecified() && !address.is_loopback() {
        names.push(address.to_string());
    }
    let issued = Pki::self_signed(&names).map_err(|error| failed(&error))?;
    fs::create_dir_all(directory).map_err(|error| failed(&error))?;
    for (path, text, mode) in [(&key, &issued.key, 0o600), (&certificate, &issued.certificate, 0o644)] {
        let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| failed(&error))?;
    }
    Ok(issued)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_issued_once_and_files_take_precedence() {
        let folder = tempfile::tempdir().unwrap();
        let address = IpAddr::from([127, 0, 0, 1]);
        let new = folder.path().join("new");
        let issued = certificate(None, &new, address).unwrap();
        assert!(issued.certificate.starts_with("-----BEGIN CERTIFICATE-----"), "{}", issued.certificate);
        assert_eq!(certificate(None, &new, address).unwrap().key, issued.key);
        let files = Some((new.join("apiserver.crt"), new.join("apiserver.key")));
        assert_eq!(certificate(files, Path::new("/nowhere"), address).unwrap().certificate, issued.certificate);
        let missing = certificate(Some(("/nowhere/a".into(), "/nowhere/b".into())), &new, address).unwrap_err();
        assert_eq!(missing, "open /nowhere/a: no such file or directory");
    }
}
