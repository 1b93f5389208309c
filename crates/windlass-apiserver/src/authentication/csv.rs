//! Comma-separated values, as Go's `encoding/csv` reads them.

/// Parses records. Empty lines are skipped.
///
/// # Errors
/// The line of the record and what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<Vec<String>>, (usize, &'static str)> {
    let mut records = Vec::new();
    let mut lines = text.split_inclusive('\n').enumerate();
    while let Some((number, line)) = lines.next() {
        let mut rest = end(line);
        if rest.is_empty() {
            continue;
        }
        let failed = |problem: &'static str| (number + 1, problem);
        let mut fields = Vec::new();
        loop {
            let Some(mut quoted) = rest.strip_prefix('"') else {
                let (field, after) = rest.split_once(',').map_or((rest, None), |(field, after)| (field, Some(after)));
                if field.contains('"') {
                    return Err(failed("bare \" in non-quoted-field"));
                }
                fields.push(field.to_owned());
                match after {
                    Some(after) => rest = after,
                    None => break,
                }
                continue;
            };
            let mut field = String::new();
            let after = loop {
                match quoted.split_once('"') {
                    Some((part, after)) => {
                        field.push_str(part);
                        match after.strip_prefix('"') {
                            Some(after) => {
                                field.push('"');
                                quoted = after;
                            }
                            None => break after,
                        }
                    }
                    None => {
                        // The field continues on the next line.
                        field.push_str(quoted);
                        field.push('\n');
                        match lines.next() {
                            Some((_, line)) => quoted = end(line),
                            None => return Err(failed("extraneous or missing \" in quoted-field")),
                        }
                    }
                }
            };
            fields.push(field);
            match (after, after.strip_prefix(',')) {
                ("", _) => break,
                (_, Some(after)) => rest = after,
                (_, None) => return Err(failed("extraneous or missing \" in quoted-field")),
            }
        }
        records.push(fields);
    }
    Ok(records)
}

/// Returns a line without its end.
fn end(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_may_be_quoted() {
        let parsed = parse("a,\"b,\"\"c\"\"\",\r\n\r\n\"x\ny\",z").unwrap();
        assert_eq!(parsed, [vec!["a", "b,\"c\"", ""], vec!["x\ny", "z"]]);
        assert_eq!(parse("a,b\"c"), Err((1, "bare \" in non-quoted-field")));
        assert_eq!(parse("\n\"a\"b"), Err((2, "extraneous or missing \" in quoted-field")));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[a,\"\r\n]{0,40}") {
            let _ = parse(&text);
        }
    }
}
