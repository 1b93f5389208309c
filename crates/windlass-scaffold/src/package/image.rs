//! Image references.

use std::{fmt, str::FromStr};

use crate::ScaffoldError;

/// An image reference with a tag, a digest or both: `registry.example.com/shop:v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Repository, including the registry.
    pub repository: String,
    /// Tag.
    pub tag: Option<String>,
    /// Digest, for example `sha256:...`.
    pub digest: Option<String>,
}

impl FromStr for Image {
    type Err = ScaffoldError;

    fn from_str(text: &str) -> Result<Self, ScaffoldError> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.to_owned())),
            None => (text, None),
        };
        // A colon before a slash belongs to a port.
        let (repository, tag) = match rest.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag.to_owned())),
            _ => (rest, None),
        };
        let is_name = |text: &str| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/:".contains(&byte))
        };
        let is_tag = |tag: &String| is_name(tag) && !tag.contains('/') && tag.len() <= 128;
        let is_digest = |digest: &String| {
            digest
                .split_once(':')
                .is_some_and(|(_, hash)| hash.len() >= 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
        };
        let is_lower = !repository.rsplit('/').next().unwrap_or_default().bytes().any(|byte| byte.is_ascii_uppercase());
        if !is_name(repository) || !is_lower || !tag.iter().all(is_tag) || !digest.iter().all(is_digest) {
            let why = format!("{text:?} is not an image reference");
            let hint = "for example registry.example.com/name:v1".to_owned();
            return Err(ScaffoldError::Contradiction { why, hint });
        }
        Ok(Self { repository: repository.to_owned(), tag, digest })
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_references_are_parsed() {
        let digest = format!("sha256:{}", "a1".repeat(32));
        for (text, repository, tag) in [
            ("shop", "shop", None),
            ("shop:v1", "shop", Some("v1")),
            ("localhost:5000/shop", "localhost:5000/shop", None),
            ("localhost:5000/a/shop:v1.2_x", "localhost:5000/a/shop", Some("v1.2_x")),
        ] {
            let image: Image = text.parse().unwrap();
            assert_eq!((image.repository.as_str(), image.tag.as_deref()), (repository, tag));
            assert_eq!(image.to_string(), text);
            let whole = format!("{text}@{digest}");
            assert_eq!(whole.parse::<Image>().unwrap().to_string(), whole);
        }
        for wrong in ["", ":v1", "a b", "shop:", "Shop:v1", "shop@sha256:x", "shop:v1\n"] {
            assert!(wrong.parse::<Image>().is_err(), "{wrong:?}");
        }
    }
}
