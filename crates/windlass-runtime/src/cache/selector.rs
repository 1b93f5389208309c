//! Label selectors in text form.

use std::collections::BTreeSet;

use kube::core::{Expression, Selector};

/// Error for a string that is not a label selector.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("invalid label selector {text:?}: {reason}")]
pub struct SelectorError {
    text: String,
    reason: &'static str,
}

/// Parses a label selector in the syntax of `kubectl get -l`: `app=web,tier!=cache,zone in (a,b),!legacy`. An empty
/// text selects everything. Numeric comparisons (`>`, `<`) are not supported.
///
/// ```
/// use kube::core::SelectorExt;
/// let selector = windlass_runtime::cache::parse_selector("app in (web, api), !legacy")?;
/// let labels = [("app".to_owned(), "web".to_owned())].into();
/// assert!(selector.matches(&labels));
/// # Ok::<(), windlass_runtime::cache::SelectorError>(())
/// ```
pub fn parse_selector(text: &str) -> Result<Selector, SelectorError> {
    let fail = |reason| SelectorError { text: text.to_owned(), reason };
    let mut selector = Selector::default();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = end_of_term(rest).map_err(fail)?;
        selector.extend(term(rest[..end].trim()).map_err(fail)?);
        rest = match rest[end..].strip_prefix(',') {
            Some(more) if more.trim().is_empty() => return Err(fail("it ends with a comma")),
            Some(more) => more.trim_start(),
            None => "",
        };
    }
    Ok(selector)
}

/// Returns the position of the first comma outside of parentheses, or the end.
fn end_of_term(text: &str) -> Result<usize, &'static str> {
    let mut open = false;
    for (at, character) in text.char_indices() {
        match character {
            '(' if !open => open = true,
            ')' if open => open = false,
            '(' | ')' => return Err("a parenthesis is out of place"),
            ',' if !open => return Ok(at),
            _ => {}
        }
    }
    if open { Err("a parenthesis is not closed") } else { Ok(text.len()) }
}

fn term(term: &str) -> Result<Expression, &'static str> {
    if let Some(name) = term.strip_prefix('!') {
        return Ok(Expression::DoesNotExist(key(name)?));
    }
    if let Some((head, list)) = term.split_once('(') {
        let list = list.strip_suffix(')').ok_or("something follows a parenthesis")?;
        let values: BTreeSet<String> = list.split(',').map(value).collect::<Result<_, _>>()?;
        let (name, operator) = head.trim_end().rsplit_once(char::is_whitespace).ok_or("an operator is missing")?;
        return match operator {
            "in" => Ok(Expression::In(key(name)?, values)),
            "notin" => Ok(Expression::NotIn(key(name)?, values)),
            _ => Err("an operator is neither in nor notin"),
        };
    }
    if let Some((name, text)) = term.split_once("!=") {
        return Ok(Expression::NotEqual(key(name)?, value(text)?));
    }
    if let Some((name, text)) = term.split_once('=') {
        return Ok(Expression::Equal(key(name)?, value(text.strip_prefix('=').unwrap_or(text))?));
    }
    Ok(Expression::Exists(key(term)?))
}

fn key(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let valid = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    match text {
        "" => Err("a key is empty"),
        _ if text.chars().all(valid) => Ok(text.to_owned()),
        _ => Err("a key has a character that keys cannot have"),
    }
}

fn value(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let valid = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if text.chars().all(valid) { Ok(text.to_owned()) } else { Err("a value has a character that values cannot have") }
}

#[cfg(test)]
mod tests {
    use kube::core::SelectorExt;

    use super::*;

    #[test]
    fn a_selector_survives_a_round_trip() {
        for (text, normal) in [
            ("", ""),
            ("a=b", "a=b"),
            ("a == b", "a=b"),
            (" a = b , c != d ", "a=b,c!=d"),
            ("e in (f, g),!h", "e in (f,g),!h"),
            ("example.com/x notin (y),z", "example.com/x notin (y),z"),
            ("a=", "a="),
            ("in in (in)", "in in (in)"),
        ] {
            assert_eq!(parse_selector(text).unwrap().to_string(), normal, "{text}");
        }
    }

    #[test]
    fn invalid_selectors_are_rejected() {
        for text in [
            "a=b,",
            ",a",
            "a in b",
            "a in (b",
            "a in (b) c",
            "a (b)",
            "=b",
            "!",
            "a>1",
            "a=b=c",
            "a b",
            "a in ((b))",
            ")",
        ] {
            assert!(parse_selector(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_selector_matches_as_the_server_does() {
        let labels = [("app".to_owned(), "web".to_owned())].into();
        for (text, matches) in [
            ("", true),
            ("app=web", true),
            ("app=api", false),
            ("app!=api", true),
            ("tier!=cache", true),
            ("tier notin (cache)", true),
            ("tier in (cache)", false),
            ("!tier,app", true),
            ("!app", false),
        ] {
            assert_eq!(parse_selector(text).unwrap().matches(&labels), matches, "{text}");
        }
    }
}
