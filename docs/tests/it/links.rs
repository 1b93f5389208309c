//! Pages can be found, and their links lead somewhere.

use windlass_book::page::{Page, folder, pages, root};

/// Pages of the repository whose links are checked, too.
const OTHERS: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/README.md", "bench/README.md"];

/// Images of terminals, which are dark in every theme.
const TERMINALS: &[&str] = &["demo.svg", "run.svg"];

#[test]
fn every_page_is_in_the_summary_once() {
    let summary = Page::read(folder().join("SUMMARY.md"));
    let listed: Vec<_> = summary.links().into_iter().map(|(_, target)| folder().join(target)).collect();
    for page in pages().iter().filter(|page| !page.path.ends_with("SUMMARY.md")) {
        let times = listed.iter().filter(|path| **path == page.path).count();
        assert_eq!(times, 1, "{} in SUMMARY.md", page.name());
    }
}

#[test]
fn links_anchors_and_images_lead_somewhere() {
    let mut wrong = Vec::new();
    let others = OTHERS.iter().map(|path| Page::read(root().join(path)));
    for page in pages().into_iter().chain(others) {
        for (line, target) in page.links() {
            if let Some(why) = broken(&page, &target) {
                wrong.push(format!("{}:{line}: {target}: {why}", page.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Files outside of the book are linked in the repository.
const REPOSITORY: &str = "https://github.com/windlass-rs/windlass/";

fn broken(page: &Page, target: &str) -> Option<&'static str> {
    if let Some(within) = target.strip_prefix(REPOSITORY) {
        let path = within.strip_prefix("blob/main/").or_else(|| within.strip_prefix("tree/main/"));
        return (!path.is_some_and(|path| root().join(path).exists())).then_some("is not in the repository");
    }
    if ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = match path {
        "" => page.path.clone(),
        path => page.path.parent().unwrap().join(path),
    };
    if !file.exists() {
        return Some("does not exist");
    }
    if page.path.starts_with(folder()) && !file.canonicalize().unwrap().starts_with(folder().canonicalize().unwrap()) {
        return Some("is outside of the book: link to the repository");
    }
    let has_anchor = || Page::read(file).anchors().iter().any(|other| other == anchor);
    (!anchor.is_empty() && !has_anchor()).then_some("has no such heading")
}

#[test]
fn images_are_described_and_fit_light_and_dark_themes() {
    for page in pages() {
        for (line, text) in page.prose().filter(|(_, text)| text.contains("![")) {
            assert!(!text.contains("![]("), "{}:{line}: an image without a description", page.name());
        }
    }
    let readme = Page::read(root().join("README.md"));
    for entry in std::fs::read_dir(folder().join("images")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let knows_dark = TERMINALS.contains(&name) || text.contains("prefers-color-scheme: dark");
        assert!(knows_dark, "{} has no style for dark themes", path.display());
        let shows = |page: &Page| page.links().iter().any(|(_, target)| target.ends_with(name));
        assert!(pages().iter().any(shows) || shows(&readme), "{} is not on any page", path.display());
    }
}
