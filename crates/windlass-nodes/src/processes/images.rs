//! Mapping images to programs on this machine: by an image file, or built in for common images.
//!
//! ```yaml
//! images:
//! - image: "redis:*"                 # "*" is any string; a pattern without a tag fits every tag
//!   command: [redis-server]          # what the image would start
//!   args: ["--bind", "$(WINDLASS_POD_IP)"]
//!   env: {LANG: C}
//! - image: example.com/app
//!   root: /srv/images/app            # an unpacked image
//!   command: [/app]
//! ```

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;

/// Images whose programs this machine has: the pod's command is run unchanged.
const TOOLBOXES: &[&str] = &["alpine", "bash", "busybox", "debian", "ubuntu", "toybox", "fedora", "coreutils"];

/// An image's program and defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Image {
    /// The images that this entry applies to.
    #[serde(rename = "image")]
    pattern: String,
    /// The program; replaced by a container's `command`.
    #[serde(default)]
    pub(super) command: Vec<String>,
    /// Its arguments; replaced by a container's `args`, and ignored if the container has a `command`.
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// Default variables; a container's own take precedence.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// The working directory.
    #[serde(default)]
    pub(super) working_dir: Option<String>,
    /// The directory with the unpacked image.
    #[serde(default)]
    pub(super) root: Option<PathBuf>,
}

/// The image file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Images {
    #[serde(default)]
    images: Vec<Image>,
}

/// Reasons why an image is not available, worded for the creator of the pod.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum ImageError {
    #[error(
        "there is no program for image {image:?}: add an entry to {file}, for example\nimages:\n- image: {image:?}\n  \
         command: [PROGRAM]"
    )]
    Unknown { image: String, file: String },
    #[error("cannot use {file}: {why}")]
    File { file: String, why: String },
}

/// Resolves an image. The file is read on each call.
pub(super) fn resolve(image: &str, file: Option<&Path>) -> Result<Image, ImageError> {
    let shown = file.map_or("a file given with --images".to_owned(), |file| file.display().to_string());
    let text = match file.map(fs::read_to_string) {
        None => String::new(),
        Some(Ok(text)) => text,
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Some(Err(error)) => return Err(ImageError::File { file: shown, why: error.to_string() }),
    };
    let images = parse(&text).map_err(|why| ImageError::File { file: shown.clone(), why })?;
    if let Some(found) = images.images.into_iter().find(|entry| fits(&entry.pattern, image)) {
        return Ok(found);
    }
    known(image).ok_or_else(|| ImageError::Unknown { image: image.to_owned(), file: shown })
}

fn parse(text: &str) -> Result<Images, String> {
    match text.trim() {
        "" => Ok(Images::default()),
        text => serde_saphyr::from_str(text).map_err(|error| error.to_string()),
    }
}

/// Images that need no entry.
fn known(image: &str) -> Option<Image> {
    let name = short_name(image);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    if TOOLBOXES.contains(&name) {
        return Some(Image { pattern: name.to_owned(), args: words(&["sh"]), ..Image::default() });
    }
    (name == "pause").then(|| Image {
        pattern: name.to_owned(),
        command: words(&["sleep", "infinity"]),
        ..Image::default()
    })
}

/// The name of an image without registry, tag and digest.
fn short_name(image: &str) -> &str {
    let name = without_tag(image);
    name.rsplit_once('/').map_or(name, |(_, last)| last)
}

fn without_tag(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or(image);
    let last = name.rfind('/').map_or(0, |at| at + 1);
    name[last..].find(':').map_or(name, |at| &name[..last + at])
}

/// Returns whether a pattern matches an image, with or without the default registry.
fn fits(pattern: &str, image: &str) -> bool {
    let plain = image.strip_prefix("docker.io/").unwrap_or(image);
    let plain = plain.strip_prefix("library/").unwrap_or(plain);
    [image, plain, without_tag(image), without_tag(plain)].iter().any(|name| matches(pattern, name))
}

/// Returns whether a string matches a pattern with `*` wildcards.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return text.ends_with(part);
        }
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pattern_matches_an_image_with_and_without_registry_and_tag() {
        for (pattern, image, expected) in [
            ("redis", "redis", true),
            ("redis", "redis:7", true),
            ("redis", "docker.io/library/redis:7", true),
            ("redis:7*", "redis:7.2-alpine", true),
            ("redis:6*", "redis:7.2-alpine", false),
            ("redis", "example.com/redis", false),
            ("*/redis", "example.com/redis:1", true),
            ("example.com:5000/app", "example.com:5000/app@sha256:00", true),
            ("*", "anything", true),
            ("a*b*c", "abbc", true),
            ("a*b*c", "acb", false),
        ] {
            assert_eq!(fits(pattern, image), expected, "{pattern} {image}");
        }
    }

    #[test]
    fn images_come_from_the_file_or_are_built_in() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("images.yaml");
        let unknown = resolve("redis:7", Some(&file)).unwrap_err().to_string();
        assert!(unknown.contains("images.yaml") && unknown.contains("redis:7"), "{unknown}");
        fs::write(&file, "images:\n- image: 'redis:*'\n  command: [redis-server]\n  env: {A: b}\n").unwrap();
        assert_eq!(resolve("redis:7", Some(&file)).unwrap().command, ["redis-server"]);
        assert_eq!(resolve("docker.io/library/busybox:1.36", Some(&file)).unwrap().args, ["sh"]);
        assert_eq!(resolve("registry.k8s.io/pause:3.10", None).unwrap().command, ["sleep", "infinity"]);
        fs::write(&file, "images: [{image: a, comand: b}]").unwrap();
        assert!(matches!(resolve("a", Some(&file)), Err(ImageError::File { .. })));
    }

    proptest! {
        #[test]
        fn no_name_or_file_panics(pattern in ".{0,20}", image in ".{0,30}", text in ".{0,60}") {
            fits(&pattern, &image);
            let _ = short_name(&image);
            let _ = parse(&text);
        }
    }
}
