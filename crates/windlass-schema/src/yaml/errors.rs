//! Translates the parser's errors to those of kube-apiserver's library.

use granit_parser::{ErrorKind, Marker, ScanError};

use super::load::Failure;

/// Whether kube-apiserver's library finds the error while scanning tokens or while parsing them: it counts lines from
/// zero in the latter.
enum Phase {
    Tokens,
    Grammar,
}

/// Translates a parse error.
pub(super) fn failure(error: &ScanError, text: &str) -> Failure {
    let message = message(error, text);
    match error.info() {
        info if info.contains("indentation") || info.contains("valid YAML whitespace") => Failure::Strict(message),
        _ => Failure::Fatal(message),
    }
}

fn message(error: &ScanError, text: &str) -> String {
    let at_end = text.matches('\n').count();
    match error.kind() {
        ErrorKind::UnclosedFlowCollection { open } => {
            // The end of the stream counts as a line of its own, even without a newline before it.
            let line = at_end + usize::from(!text.ends_with('\n'));
            return at_line(line, line, unclosed(*open, text));
        }
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            // The marker is at the opening bracket.
            let start = text.char_indices().nth(error.marker().index()).map_or(text.len(), |(at, _)| at);
            let end = text[start..].find(*close).map_or(text.len(), |at| start + at);
            let line = text[..end].matches('\n').count();
            return at_line(line, line, unclosed(*open, &text[..end]));
        }
        _ => {}
    }
    let info = error.info();
    let info = info.as_str();
    let (phase, problem) = match info {
        _ if info.contains("unknown anchor") => {
            return format!("yaml: unknown anchor '{}' referenced", alias_name(error.marker(), text));
        }
        "while parsing a node, did not find expected node content" => {
            (Phase::Grammar, "did not find expected node content")
        }
        "while parsing a block mapping, did not find expected key" => (Phase::Grammar, "did not find expected key"),
        "while parsing a block collection, did not find expected '-' indicator" => {
            (Phase::Grammar, "did not find expected '-' indicator")
        }
        "while parsing a flow mapping, did not find expected ',' or '}'" => {
            (Phase::Grammar, "did not find expected ',' or '}'")
        }
        "while parsing a flow sequence, expected ',' or ']'" => (Phase::Grammar, "did not find expected ',' or ']'"),
        "did not find expected <document start>" | "did not find expected <document-start>" => {
            (Phase::Grammar, "did not find expected <document start>")
        }
        "invalid trailing content after double-quoted scalar" => (Phase::Grammar, "did not find expected key"),
        "illegal placement of ':' indicator" => (Phase::Grammar, "did not find expected ',' or ']'"),
        "while parsing a quoted scalar, did not find expected hexadecimal number" => {
            (Phase::Tokens, "did not find expected hexdecimal number")
        }
        "simple key expected ':'" | "simple key is no longer valid" => (Phase::Tokens, "could not find expected ':'"),
        "tab cannot be used as indentation"
        | "tabs disallowed in this context"
        | "tabs disallowed within this context (block indentation)"
        | "while scanning a plain scalar, found a tab" => {
            (Phase::Tokens, "found character that cannot start any token")
        }
        _ if info.starts_with("unexpected character") => (Phase::Tokens, "found character that cannot start any token"),
        "unexpected eof" | "unclosed quote" | "invalid indentation in multiline quoted scalar" => {
            return at_line(at_end, at_end + 1, "found unexpected end of stream");
        }
        _ => (Phase::Tokens, info.split_once(", ").map_or(info, |(_, problem)| problem)),
    };
    // An error in the first line has no line number: the library treats zero as unknown.
    let before = error.marker().line().saturating_sub(1);
    let shown = match phase {
        Phase::Tokens => before + 1,
        Phase::Grammar => before,
    };
    at_line(before, shown, problem)
}

/// Returns what kube-apiserver's library expects where a flow collection does not end with its own bracket: a node
/// after an indicator, otherwise a separator or the bracket.
fn unclosed(open: char, before: &str) -> &'static str {
    match (before.trim_end().chars().next_back(), open) {
        (Some('[' | '{' | ',' | ':'), _) => "did not find expected node content",
        (_, '[') => "did not find expected ',' or ']'",
        _ => "did not find expected ',' or '}'",
    }
}

fn at_line(before: usize, shown: usize, problem: &str) -> String {
    if before == 0 { format!("yaml: {problem}") } else { format!("yaml: line {shown}: {problem}") }
}

/// Returns the name of the alias at a position.
pub(super) fn alias_name(marker: &Marker, text: &str) -> String {
    let line = text.lines().nth(marker.line().saturating_sub(1)).unwrap_or_default();
    let after = line.chars().skip(marker.col()).skip_while(|c| *c == '*');
    after.take_while(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}
