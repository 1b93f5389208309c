//! Unified diffs.

/// Returns the diff between two versions of a file in git's format. `None` is a missing file.
pub fn difference(path: &str, old: Option<&str>, new: Option<&str>) -> String {
    let side = |letter: char, text: Option<&str>| match text {
        Some(_) => format!("{letter}/{path}"),
        None => "/dev/null".to_owned(),
    };
    let mut options = diffy::DiffOptions::new();
    options.set_original_filename(side('a', old)).set_modified_filename(side('b', new));
    options.create_patch(old.unwrap_or_default(), new.unwrap_or_default()).to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn created_and_deleted_files_are_shown_like_git() {
        expect![[r#"
            --- /dev/null
            +++ b/a.rs
            @@ -0,0 +1 @@
            +one
        "#]]
        .assert_eq(&difference("a.rs", None, Some("one\n")));
        expect![[r#"
            --- a/a.rs
            +++ /dev/null
            @@ -1 +0,0 @@
            -one
        "#]]
        .assert_eq(&difference("a.rs", Some("one\n"), None));
    }
}
