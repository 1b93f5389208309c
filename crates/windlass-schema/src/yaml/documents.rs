//! Streams of several YAML documents.

/// Splits a stream at its `---` lines. Returns each document with the line number it starts at, including the rest of
/// its `---` line: joined with `---`, the documents yield the original text.
pub fn documents(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut first_line, mut position) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let rest = line.strip_prefix("---");
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n'])) {
            documents.push((first_line, &text[start..position]));
            (start, first_line) = (position + 3, index + 1);
        }
        position += line.len();
    }
    documents.push((first_line, &text[start..]));
    documents
}

/// Returns whether a document contains only comments and directives.
pub fn is_blank(document: &str) -> bool {
    document.lines().map(str::trim_start).all(|line| line.is_empty() || line.starts_with(['#', '%']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_line_numbers_and_join_to_the_text() {
        for (text, expected) in [
            ("", vec![(1, "")]),
            ("a: 1\n", vec![(1, "a: 1\n")]),
            ("a: 1\n---\nb: 2\n", vec![(1, "a: 1\n"), (2, "\nb: 2\n")]),
            ("---\n# only a comment\n--- # b\nb: 2\n", vec![(1, ""), (1, "\n# only a comment\n"), (3, " # b\nb: 2\n")]),
            ("a: 1\r\n---\r\nb: 2\r\n", vec![(1, "a: 1\r\n"), (2, "\r\nb: 2\r\n")]),
            ("a: |\n  ---\n----\n---", vec![(1, "a: |\n  ---\n----\n"), (4, "")]),
        ] {
            let found = documents(text);
            assert_eq!(found, expected);
            assert_eq!(found.iter().map(|(_, document)| *document).collect::<Vec<_>>().join("---"), text);
        }
    }

    #[test]
    fn comments_and_directives_are_blank() {
        assert!(is_blank("\n# a\n  # b\n%YAML 1.1\n"));
        assert!(!is_blank("# a\nb: 1\n"));
    }
}
