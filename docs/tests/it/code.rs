//! All code is tested.

use std::fs;

use windlass_book::{
    edit::{Edit, missing},
    page::{Page, pages, root},
};

/// Languages of blocks. Rustdoc treats a block without a language as Rust.
const LANGUAGES: &[&str] =
    &["console", "dockerfile", "go", "java", "promql", "python", "rust", "sh", "text", "toml", "yaml"];

#[test]
fn blocks_have_a_language_and_rust_is_never_ignored() {
    for page in pages().into_iter().chain([Page::read(root().join("README.md"))]) {
        for block in page.blocks() {
            let place = format!("{}:{}", page.name(), block.line);
            assert!(LANGUAGES.contains(&block.language()), "{place}: {:?} is not a known language", block.info);
            let attributes: Vec<&str> = block.info.split(',').skip(1).collect();
            let allowed = |attribute: &&str| ["no_run", "should_panic", "compile_fail"].contains(attribute);
            assert!(attributes.iter().all(allowed), "{place}: {attributes:?}");
        }
    }
}

#[test]
fn code_that_the_tutorial_shows_for_a_file_is_part_of_it() {
    let mut files = 0;
    for page in pages().iter().filter(|page| page.path.parent().unwrap().ends_with("tutorial")) {
        for block in page.blocks().iter().filter(|block| block.language() == "rust") {
            let place = format!("{}:{}", page.name(), block.line);
            let edit = Edit::of(block).unwrap_or_else(|why| panic!("{place}: {why}"));
            let Some(edit) = edit.filter(|edit| edit.stays) else { continue };
            let file = root().join("operators/crontab").join(&edit.path);
            let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{place}: {}: {error}", edit.path));
            if let Some(piece) = missing(&text, &block.shown()) {
                panic!("{place}: this is not in {}, or not in this order:\n{piece}", file.display());
            }
            files += 1;
        }
    }
    assert!(files >= 10, "the tutorial shows {files} files");
}
