use super::*;

fn files(files: &[(&str, &str)]) -> Files {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

fn planned(before: &[(&str, &str)], after: &[(&str, &str)], there: &[(&str, &str)]) -> FilePlan {
    let (before, there) = (files(before), files(there));
    let recorded = before.iter().map(|(path, text)| (path.clone(), fingerprint(text))).collect();
    plan(&recorded, &before, &files(after), &|path| there.get(path).cloned(), Conflicts::Report)
}

fn new<'a>(plan: &'a FilePlan, path: &str) -> Option<&'a str> {
    plan.changes.iter().find(|change| change.path == path).and_then(|change| change.new.as_deref())
}

#[test]
fn new_files_are_created_and_unmodified_ones_replaced() {
    let plan = planned(&[("a", "1\n")], &[("a", "2\n"), ("b", "3\n")], &[("a", "1\n")]);
    assert_eq!((new(&plan, "a"), new(&plan, "b")), (Some("2\n"), Some("3\n")));
    assert!(plan.questions.is_empty() && plan.manual_edits.is_empty());
}

#[test]
fn unchanged_files_are_skipped() {
    assert_eq!(planned(&[("a", "1\n")], &[("a", "1\n")], &[("a", "edited\n")]), FilePlan::default());
    assert_eq!(planned(&[("a", "1\n")], &[("a", "2\n")], &[("a", "2\n")]), FilePlan::default());
}

#[test]
fn edited_files_are_merged() {
    let plan = planned(&[("a", "x\ny\nz\n")], &[("a", "x\ny\nz\nend\n")], &[("a", "mine\nx\ny\nz\n")]);
    assert_eq!(new(&plan, "a"), Some("mine\nx\ny\nz\nend\n"));
    assert!(plan.changes[0].merged);
}

#[test]
fn changes_that_cannot_be_merged_are_reported_line_by_line() {
    let plan = planned(&[("a", "one\n")], &[("a", "one\ntwo\n")], &[("a", "all is different\n")]);
    assert!(plan.changes.is_empty());
    let expected = ManualEdit { path: "a".into(), line: 1, remove: vec![], add: vec!["two\n".into()] };
    assert_eq!(plan.manual_edits, [expected]);
}

#[test]
fn upgrades_mark_conflicts() {
    let there = |path: &str| (path == "a").then(|| "mine\n".to_owned());
    let (before, after) = (files(&[("a", "old\n")]), files(&[("a", "new\n")]));
    let plan = plan(&BTreeMap::new(), &before, &after, &there, Conflicts::Mark);
    assert_eq!(plan.conflicts, ["a"]);
    let text = new(&plan, "a").unwrap();
    assert!(text.contains("<<<<<<<") && text.contains("mine\n") && text.contains("new\n"), "{text}");
}

#[test]
fn edits_are_not_overwritten_or_deleted_without_asking() {
    let mut plan = planned(&[("gone", "1\n")], &[("new", "2\n")], &[("gone", "edited\n"), ("new", "mine\n")]);
    assert!(plan.changes.is_empty());
    assert_eq!(plan.questions.len(), 2);
    assert_eq!(plan.questions[1].why, "it already exists and was not created by windlass");
    for question in std::mem::take(&mut plan.questions) {
        plan.accept(question);
    }
    assert_eq!(new(&plan, "new"), Some("2\n"));
    assert_eq!(plan.changes[0].new, None);
}

#[test]
fn unmodified_files_are_deleted_when_no_longer_generated() {
    let plan = planned(&[("a", "1\n")], &[], &[("a", "1\n")]);
    assert_eq!((plan.changes.len(), plan.changes[0].new.as_ref()), (1, None));
    assert_eq!(planned(&[("a", "1\n")], &[], &[]), FilePlan::default());
}

#[test]
fn a_file_deleted_by_the_user_is_not_recreated() {
    let plan = planned(&[("a", "one\n")], &[("a", "one\ntwo\n")], &[]);
    assert!(plan.changes.is_empty());
    assert_eq!(plan.manual_edits[0].add, ["two\n"]);
}

#[test]
fn unmodified_files_of_other_templates_are_known_by_fingerprint() {
    let recorded = [("a".to_owned(), fingerprint("older\n"))].into();
    let there = |_: &str| Some("older\n".to_owned());
    let (before, after) = (files(&[("a", "old\n")]), files(&[("a", "new\n")]));
    let plan = plan(&recorded, &before, &after, &there, Conflicts::Mark);
    assert_eq!(new(&plan, "a"), Some("new\n"));
    assert!(plan.conflicts.is_empty());
}
