use std::{
    fs,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;

use super::rotation::{Limits, RotatingFile};

fn limits(path: PathBuf) -> Limits {
    Limits { path, max_size: 10, max_age_days: 0, max_backups: 0, compress: false }
}

/// Returns the files of a directory with their contents, decompressed, sorted by name.
fn files(directory: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let mut text = String::new();
            match path.extension().is_some_and(|extension| extension == "gz") {
                true => GzDecoder::new(fs::File::open(&path).unwrap()).read_to_string(&mut text).unwrap(),
                false => fs::File::open(&path).unwrap().read_to_string(&mut text).unwrap(),
            };
            (path.file_name().unwrap().to_str().unwrap().to_owned(), text)
        })
        .collect();
    files.sort();
    files
}

fn contents(directory: &Path) -> Vec<String> {
    files(directory).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn a_file_is_rotated_before_it_would_exceed_its_size() {
    for (second, rotated) in [("1234", false), ("12345", false), ("123456", true)] {
        let folder = tempfile::tempdir().unwrap();
        let mut file = RotatingFile::open(limits(folder.path().join("audit.log"))).unwrap();
        file.write(b"abcde").unwrap();
        file.write(second.as_bytes()).unwrap();
        drop(file);
        let expected =
            if rotated { vec!["abcde".to_owned(), second.to_owned()] } else { vec![format!("abcde{second}")] };
        assert_eq!(contents(folder.path()), expected);
    }
}

#[test]
fn rotated_files_have_the_time_in_their_name_and_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new").join("audit.log");
    let mut file = RotatingFile::open(limits(path.clone())).unwrap();
    for line in ["1111111\n", "2222222\n", "3333333\n"] {
        file.write(line.as_bytes()).unwrap();
    }
    drop(file);
    let files = files(path.parent().unwrap());
    assert_eq!(
        files.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
        ["1111111\n", "2222222\n", "3333333\n"]
    );
    let name = &files[0].0;
    let shape: String = name.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "audit-0000-00-00T00-00-00.000.log", "{name}");
    for (name, _) in &files {
        let mode = fs::metadata(path.with_file_name(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn only_the_newest_backups_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let mut file = RotatingFile::open(Limits { max_backups: 2, ..limits(path) }).unwrap();
    for line in 0..6 {
        file.write(format!("line {line}..").as_bytes()).unwrap();
    }
    drop(file);
    assert_eq!(contents(folder.path()), ["line 3..", "line 4..", "line 5.."]);
}

#[test]
fn backups_are_compressed_and_removed_by_age() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    for (name, text) in [
        ("audit-2001-01-01T00-00-00.000.log", "old"),
        ("audit-2001-01-01T00-00-00.000.log.gz", "old"),
        ("other-2001-01-01T00-00-00.000.log", "other"),
        ("audit-yesterday.log", "other"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let mut file = RotatingFile::open(Limits { max_age_days: 1, compress: true, ..limits(path) }).unwrap();
    file.write(b"first line").unwrap();
    file.write(b"second").unwrap();
    drop(file);
    let mut found = contents(folder.path());
    found.sort();
    assert_eq!(found, ["first line", "other", "other", "second"]);
    let compressed = files(folder.path()).into_iter().filter(|(name, _)| name.ends_with(".gz"));
    assert_eq!(compressed.map(|(_, text)| text).collect::<Vec<_>>(), ["first line"]);
}

#[test]
fn an_existing_log_is_continued_and_no_size_means_no_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    for line in ["a long line\n", "another\n"] {
        RotatingFile::open(Limits { max_size: 0, ..limits(path.clone()) }).unwrap().write(line.as_bytes()).unwrap();
    }
    assert_eq!(contents(folder.path()), ["a long line\nanother\n"]);
}

#[test]
fn a_log_in_a_missing_place_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    assert!(RotatingFile::open(limits(folder.path().join("file").join("audit.log"))).is_err());
}
