//! Several registries in one document.

use std::collections::HashMap;

/// The samples of a metric family.
#[derive(Default)]
struct FamilyText {
    /// HELP, TYPE and UNIT.
    head: Vec<String>,
    samples: Vec<String>,
}

/// Merges OpenMetrics documents: each family occurs once, with the samples of all documents. Samples of a document with
/// a label get that label.
pub(super) fn merge<'a>(texts: impl IntoIterator<Item = (Option<(&'a str, &'a str)>, String)>) -> String {
    let (mut order, mut families) = (Vec::new(), HashMap::<String, FamilyText>::new());
    for (label, text) in texts {
        let label = label.map(|(name, value)| format!("{name}={value:?}"));
        let (mut current, mut is_first) = (String::new(), true);
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# ") {
                let mut words = rest.split(' ');
                let (Some("HELP" | "TYPE" | "UNIT"), Some(name)) = (words.next(), words.next()) else { continue };
                if name != current {
                    current = name.to_owned();
                    is_first = !families.contains_key(name);
                    if is_first {
                        order.push(current.clone());
                        families.insert(current.clone(), FamilyText::default());
                    }
                }
                if is_first && let Some(family) = families.get_mut(&current) {
                    family.head.push(line.to_owned());
                }
            } else if let Some(family) = families.get_mut(&current) {
                family.samples.push(match &label {
                    Some(label) => labelled(line, label),
                    None => line.to_owned(),
                });
            }
        }
    }
    let mut text = String::new();
    for line in
        order.iter().filter_map(|name| families.get(name)).flat_map(|family| family.head.iter().chain(&family.samples))
    {
        text.push_str(line);
        text.push('\n');
    }
    text.push_str("# EOF\n");
    text
}

/// Adds a label to a sample.
fn labelled(line: &str, label: &str) -> String {
    let name = line.find(['{', ' ']).unwrap_or(line.len());
    let (name, rest) = line.split_at(name);
    match rest.strip_prefix('{') {
        Some(rest) if rest.starts_with('}') => format!("{name}{{{label}{rest}"),
        Some(rest) => format!("{name}{{{label},{rest}"),
        None => format!("{name}{{{label}}}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_occur_once_with_the_samples_of_all() {
        let home = "# HELP a Some\n# TYPE a counter\na_total{x=\"1\"} 1\n# HELP b Other\n# TYPE b gauge\nb 2\n# EOF\n";
        let other = "# HELP b Other\n# TYPE b gauge\nb 3\nb{} 4\n# HELP a Some\n# TYPE a counter\na_total{x=\"{\"} 5\n# HELP c C\n# TYPE c gauge\nc 6\n# EOF\n";
        let merged = merge([(None, home.to_owned()), (Some(("cluster", "east")), other.to_owned())]);
        let expected = "# HELP a Some\n# TYPE a counter\na_total{x=\"1\"} 1\na_total{cluster=\"east\",x=\"{\"} 5\n\
                        # HELP b Other\n# TYPE b gauge\nb 2\nb{cluster=\"east\"} 3\nb{cluster=\"east\"} 4\n\
                        # HELP c C\n# TYPE c gauge\nc{cluster=\"east\"} 6\n# EOF\n";
        assert_eq!(merged, expected);
    }
}
