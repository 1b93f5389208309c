//! The signing key of service account tokens, in `pki/sa.key`.

use std::{io, path::Path};

use windlass_apiserver::tokens::TokenKey;

use crate::{
    PlaneError,
    files::{self, Contents},
};

/// Returns the stored key, so that tokens stay valid after a restart, or a new one if there is none.
///
/// A key that is damaged or of an unknown type is never replaced. An empty file is, if the store is `new`: then no token
/// has been issued for any of its service accounts.
pub(crate) fn load_or_create(path: &Path, new: bool) -> Result<TokenKey, PlaneError> {
    let failed = |source| PlaneError::TokenKey { path: path.to_owned(), source };
    let invalid = |problem: String| PlaneError::TokenKeyInvalid { path: path.to_owned(), problem };
    let contents = match files::read(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(invalid("is not PEM".to_owned())),
        contents => contents.map_err(failed)?,
    };
    match contents {
        Contents::Text(text) => {
            let key = TokenKey::from_pem(&text).map_err(|error| invalid(error.to_string()))?;
            if files::close_to_others(path).map_err(failed)? {
                tracing::warn!(file = %path.display(), "the private key was accessible to others; restricted its permissions");
            }
            return Ok(key);
        }
        Contents::Empty if !new => return Err(invalid("is empty".to_owned())),
        Contents::Empty => {
            tracing::warn!(file = %path.display(), "the file is empty and no token was issued yet: creating a key");
        }
        Contents::Missing => {}
    }
    let key = TokenKey::generate();
    files::replace(path, key.to_pem(), files::SECRET).map_err(failed)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    /// Private keys as kube-apiserver accepts them: name, form, PEM.
    fn keys() -> Vec<(String, String)> {
        let all = include_str!("../tests/data/keys.txt");
        let sections = all.split("# ").filter(|section| !section.is_empty());
        let named = sections.filter_map(|section| section.split_once('\n'));
        named.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
    }

    #[test]
    fn keys_of_every_type_are_used_or_named_in_an_error_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sa.key");
        let mut used = Vec::new();
        for (name, text) in keys() {
            fs::write(&path, &text).unwrap();
            match load_or_create(&path, true) {
                Ok(_) => used.push(name),
                Err(error) => {
                    assert_eq!(name, "P-521");
                    let problem = "contains a key that cannot be used: keys of the curve P-521 are not supported";
                    assert_eq!(error.to_string(), format!("{} {problem}", path.display()));
                    assert!(error.hint().is_some_and(|hint| hint.contains("P-384")), "{:?}", error.hint());
                }
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(used, ["RSA in PKCS #1", "RSA in PKCS #8", "P-384 in SEC 1"]);
    }

    #[test]
    fn damaged_and_empty_files_are_errors_that_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sa.key");
        load_or_create(&path, false).unwrap();
        let whole = fs::read(&path).unwrap();
        for (damaged, problem) in [
            (&b""[..], "is empty"),
            (&b"\n"[..], "contains no private key in PEM (PKCS #8, PKCS #1 or SEC 1)"),
            (&b"\xff\xfe"[..], "is not PEM"),
            (&whole[..whole.len() / 2], "is not PEM"),
        ] {
            fs::write(&path, damaged).unwrap();
            let error = load_or_create(&path, false).unwrap_err();
            assert_eq!(error.to_string(), format!("{} {problem}", path.display()));
            assert!(error.hint().is_some());
            assert_eq!(fs::read(&path).unwrap(), damaged, "{problem}");
        }
    }

    #[test]
    fn an_empty_file_next_to_a_new_store_gets_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sa.key");
        fs::write(&path, "").unwrap();
        let first = load_or_create(&path, true).unwrap();
        let again = load_or_create(&path, true).unwrap();
        assert_eq!(first.to_pem(), again.to_pem());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_key_that_others_can_read_is_made_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sa.key");
        load_or_create(&path, true).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        load_or_create(&path, true).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
