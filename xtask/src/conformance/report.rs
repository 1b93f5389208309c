//! The report of ginkgo.

use anyhow::Context as _;
use serde::Deserialize;

/// A test and its result.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) outcome: Outcome,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// The first line of the message.
    Failed(String),
    /// The reason that the test gives.
    Skipped(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    #[serde(default)]
    spec_reports: Option<Vec<SpecReport>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SpecReport {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: String,
    #[serde(default)]
    failure: Failure,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

/// Returns the tests that ran, sorted by name. A failed setup is an error.
pub(super) fn parse(text: &str) -> anyhow::Result<Vec<Spec>> {
    let suites: Vec<Suite> = serde_json::from_str(text).context("failed to read the report of ginkgo")?;
    let mut specs = Vec::new();
    for report in suites.into_iter().flat_map(|suite| suite.spec_reports.unwrap_or_default()) {
        let first_line = || {
            let mut lines = report.failure.message.lines().map(str::trim).filter(|line| !line.is_empty());
            let line = lines.next().unwrap_or("no message").to_owned();
            // Many messages end with a colon and continue on the next line.
            if line.ends_with(':') { [line.as_str(), " ", lines.next().unwrap_or_default()].concat() } else { line }
        };
        let is_test = report.leaf_node_type == "It";
        let outcome = match report.state.as_str() {
            "passed" => Outcome::Passed,
            "pending" => continue,
            // Tests that were not selected have no message.
            "skipped" if report.failure.message.is_empty() => continue,
            "skipped" => Outcome::Skipped(first_line()),
            _ if !is_test => anyhow::bail!("{} failed: {}", report.leaf_node_type, report.failure.message),
            _ => Outcome::Failed(first_line()),
        };
        if is_test {
            let mut texts = report.container_hierarchy_texts.unwrap_or_default();
            texts.push(report.leaf_node_text);
            specs.push(Spec { name: texts.join(" "), outcome });
        }
    }
    specs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(specs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_ran_are_reported_by_name() {
        let text = r#"[{"SpecReports": [
            {"LeafNodeType": "SynchronizedBeforeSuite", "LeafNodeText": "", "State": "passed"},
            {"ContainerHierarchyTexts": ["[sig-b] B"], "LeafNodeType": "It", "LeafNodeText": "two", "State": "failed",
             "Failure": {"Message": "error:\n    not found\n more"}},
            {"ContainerHierarchyTexts": ["[sig-a] A", "x"], "LeafNodeType": "It", "LeafNodeText": "one", "State": "passed"},
            {"ContainerHierarchyTexts": ["[sig-c] C"], "LeafNodeType": "It", "LeafNodeText": "not selected", "State": "skipped"},
            {"ContainerHierarchyTexts": ["[sig-d] D"], "LeafNodeType": "It", "LeafNodeText": "windows", "State": "skipped",
             "Failure": {"Message": "only on Windows"}}]}]"#;
        let specs = parse(text).unwrap();
        let expected = [
            ("[sig-a] A x one", Outcome::Passed),
            ("[sig-b] B two", Outcome::Failed("error: not found".to_owned())),
            ("[sig-d] D windows", Outcome::Skipped("only on Windows".to_owned())),
        ];
        assert_eq!(specs, expected.map(|(name, outcome)| Spec { name: name.to_owned(), outcome }));
        let setup = r#"[{"SpecReports": [{"LeafNodeType": "BeforeSuite", "LeafNodeText": "", "State": "failed",
            "Failure": {"Message": "no server"}}]}]"#;
        assert_eq!(parse(setup).unwrap_err().to_string(), "BeforeSuite failed: no server");
    }
}
