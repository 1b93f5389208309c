//! Tables in kubectl's format.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

/// Spaces between columns.
const GAP: usize = 3;

/// Lines of cells.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A table from the server.
#[derive(Debug)]
pub(in super::super) struct Rows {
    headings: Vec<String>,
    /// Name, resource version and cells of each object.
    rows: Vec<(String, String, Vec<String>)>,
}

impl Rows {
    /// Reads a `Table` of `meta.k8s.io`, with the columns of priority 0.
    pub(in super::super) fn read(answer: &Value) -> Option<Self> {
        let columns = answer["columnDefinitions"].as_array()?;
        let shown: Vec<usize> =
            (0..columns.len()).filter(|at| columns[*at]["priority"].as_i64().unwrap_or(0) == 0).collect();
        let heading = |at: &usize| columns[*at]["name"].as_str().unwrap_or_default().to_uppercase();
        let read = |row: &Value| {
            let metadata = &row["object"]["metadata"];
            let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
            let cells = shown.iter().map(|at| cell(&row["cells"][*at])).collect();
            (text("name"), text("resourceVersion"), cells)
        };
        let rows = answer["rows"].as_array().map(|rows| rows.iter().map(read).collect()).unwrap_or_default();
        Some(Self { headings: shown.iter().map(heading).collect(), rows })
    }

    /// All rows; with a prefix before names if there are several kinds.
    pub(in super::super) fn table(self, prefix: Option<&str>) -> Table {
        let named = |(_, _, mut cells): (String, String, Vec<String>)| {
            if let (Some(prefix), Some(name)) = (prefix, cells.first_mut()) {
                *name = format!("{prefix}/{name}");
            }
            cells
        };
        Table { headings: self.headings, rows: self.rows.into_iter().map(named).collect() }
    }

    /// Rows whose objects have changed since the last call; records the new versions.
    pub(in super::super) fn news(self, seen: &mut BTreeMap<String, String>) -> Table {
        let changed =
            |row: &(String, String, Vec<String>)| seen.insert(row.0.clone(), row.1.clone()).as_ref() != Some(&row.1);
        let rows = self.rows.into_iter().filter(changed).collect();
        Self { headings: self.headings, rows }.table(None)
    }
}

impl Table {
    /// Custom columns: headings and field paths.
    pub(in super::super) fn custom(columns: &[(String, String)], objects: &[Value]) -> Self {
        let headings = columns.iter().map(|(heading, _)| heading.clone()).collect();
        let row = |object: &Value| {
            columns
                .iter()
                .map(|(_, path)| match field(object, path) {
                    Value::Array(items) => format!("[{}]", items.iter().map(cell).collect::<Vec<_>>().join(" ")),
                    value => cell(value),
                })
                .collect()
        };
        Self { headings, rows: objects.iter().map(row).collect() }
    }

    /// Returns whether there are no rows.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Formats the rows with the given column widths, widening them if needed.
    pub(in super::super) fn lines(&self, widths: &mut Vec<usize>) -> Vec<String> {
        self.widen(widths);
        self.rows.iter().map(|row| line(row, widths)).collect()
    }

    /// Formats the headings.
    pub(in super::super) fn head(&self, widths: &mut Vec<usize>) -> String {
        self.widen(widths);
        line(&self.headings, widths)
    }

    fn widen(&self, widths: &mut Vec<usize>) {
        widths.resize(self.headings.len(), 0);
        for row in self.rows.iter().chain([&self.headings]) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut widths = Vec::new();
        writeln!(f, "{}", self.head(&mut widths))?;
        self.lines(&mut widths).iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Returns the field at a path such as `.status.conditions[0].message`.
pub(super) fn field<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split(['.', '[', ']']).filter(|name| !name.is_empty()).fold(object, |at, name| match name.parse::<usize>() {
        Ok(index) if at.is_array() => &at[index],
        _ => &at[name],
    })
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        line.push_str(cell);
        line.extend(std::iter::repeat_n(' ', width + GAP - cell.chars().count().min(*width)));
    }
    line.truncate(line.trim_end().len());
    line
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        // Of several lines, the first is shown.
        Value::String(text) => text.lines().next().unwrap_or_default().to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn answer(version: &str, ready: &str) -> Value {
        json!({
            "columnDefinitions": [{"name": "Name"}, {"name": "Ready"}, {"name": "Hidden", "priority": 1}, {"name": "Age"}],
            "rows": [
                {"cells": ["one", ready, "x", "1s"], "object": {"metadata": {"name": "one", "resourceVersion": version}}},
                {"cells": ["twenty-two", 7, "x", null], "object": {"metadata": {"name": "two", "resourceVersion": "1"}}}
            ]
        })
    }

    #[test]
    fn columns_are_as_wide_as_needed() {
        expect![[r#"
            NAME         READY   AGE
            one          1/2     1s
            twenty-two   7       <none>
        "#]]
        .assert_eq(&Rows::read(&answer("1", "1/2")).unwrap().table(None).to_string());
        expect![[r#"
            NAME             READY   AGE
            pod/one          1/2     1s
            pod/twenty-two   7       <none>
        "#]]
        .assert_eq(&Rows::read(&answer("1", "1/2")).unwrap().table(Some("pod")).to_string());
    }

    #[test]
    fn only_changed_rows_are_new() {
        let mut seen = BTreeMap::new();
        let mut widths = Vec::new();
        let mut news = |version, ready| Rows::read(&answer(version, ready)).unwrap().news(&mut seen).lines(&mut widths);
        assert_eq!(news("1", "0/2"), ["one          0/2     1s", "twenty-two   7       <none>"]);
        assert!(news("1", "0/2").is_empty());
        assert_eq!(news("2", "2/2"), ["one          2/2     1s"]);
    }

    #[test]
    fn fields_are_found_by_their_path() {
        let object = json!({"status": {"conditions": [{"message": "why"}]}});
        assert_eq!(field(&object, ".status.conditions[0].message"), "why");
        assert!(field(&object, ".status.conditions[1].message").is_null());
    }

    #[test]
    fn custom_columns_are_supported() {
        let columns = [("POD", ".metadata.name"), ("NODE", ".spec.nodeName"), ("LIST", ".list")];
        let columns: Vec<_> = columns.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let objects = [json!({"metadata": {"name": "web"}, "list": ["a", "b"]})];
        expect![[r#"
            POD   NODE     LIST
            web   <none>   [a b]
        "#]]
        .assert_eq(&Table::custom(&columns, &objects).to_string());
    }
}
