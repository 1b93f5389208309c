//! The words of a shell script, with their quotes and expansions.

/// A token of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A word: its parts, and whether it was written without quotes and expansions, as keywords are.
    Word { parts: Vec<Part>, plain: bool },
    /// `;`, a newline, `&&`, `||` or `|`.
    Operator(&'static str),
}

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    Variable(String),
    /// `$((…))`
    Arithmetic(String),
    /// `$(…)`
    Command(String),
}

impl Token {
    /// Returns the text of a plain word.
    pub(super) fn keyword(&self) -> Option<&str> {
        match self {
            Self::Word { parts, plain: true } => match parts.as_slice() {
                [Part::Text(text)] => Some(text),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Splits a script into tokens. Redirections are omitted: they do not change how a command ends. Returns `None` for
/// syntax that is not supported.
pub(super) fn tokens(script: &str) -> Option<Vec<Token>> {
    let mut rest = script;
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r']);
        let Some(first) = rest.chars().next() else { return Some(tokens) };
        let operator = ["&&", "||", ";;", ";", "\n", "|"].into_iter().find(|operator| rest.starts_with(operator));
        match (operator, first) {
            (Some(";;"), _) | (None, '&' | '(' | ')' | '<' | '`') => return None,
            (Some(operator), _) => {
                tokens.push(Token::Operator(if operator == "\n" { ";" } else { operator }));
                rest = &rest[operator.len()..];
            }
            (None, '#') => rest = rest.find('\n').map_or("", |end| &rest[end..]),
            (None, '>') => rest = redirection(rest)?,
            (None, '1' | '2') if rest[1..].starts_with('>') => rest = redirection(&rest[1..])?,
            (None, _) => {
                let (word, after) = word(rest)?;
                tokens.push(word);
                rest = after;
            }
        }
    }
}

/// Skips `> file`, `>> file` and `>&1`.
fn redirection(text: &str) -> Option<&str> {
    let target = text.trim_start_matches('>').trim_start_matches('&').trim_start_matches(' ');
    word(target).map(|(_, after)| after)
}

/// Parses a word; returns the rest.
fn word(text: &str) -> Option<(Token, &str)> {
    let (mut parts, mut plain) = (Vec::new(), true);
    let mut rest = text;
    let mut push = |part: Part| match (parts.last_mut(), part) {
        (Some(Part::Text(before)), Part::Text(text)) => before.push_str(&text),
        (_, part) => parts.push(part),
    };
    while let Some(first) = rest.chars().next() {
        match first {
            ' ' | '\t' | '\r' | '\n' | ';' | '|' | '&' | '>' => break,
            '<' | '`' | '(' | ')' => return None,
            '\'' => {
                let (quoted, after) = rest[1..].split_once('\'')?;
                push(Part::Text(quoted.to_owned()));
                (rest, plain) = (after, false);
            }
            '"' => {
                plain = false;
                push(Part::Text(String::new()));
                rest = &rest[1..];
                loop {
                    match rest.chars().next()? {
                        '"' => break,
                        '`' => return None,
                        '\\' => {
                            let escaped = rest[1..].chars().next()?;
                            push(Part::Text(escaped.to_string()));
                            rest = &rest[1 + escaped.len_utf8()..];
                        }
                        '$' => {
                            let (part, after) = expansion(rest)?;
                            push(part);
                            rest = after;
                        }
                        other => {
                            push(Part::Text(other.to_string()));
                            rest = &rest[other.len_utf8()..];
                        }
                    }
                }
                rest = &rest[1..];
            }
            '\\' => {
                let escaped = rest[1..].chars().next()?;
                // A backslash at the end of a line continues the line.
                if escaped != '\n' {
                    push(Part::Text(escaped.to_string()));
                    plain = false;
                }
                rest = &rest[1 + escaped.len_utf8()..];
            }
            '$' => {
                let (part, after) = expansion(rest)?;
                push(part);
                (rest, plain) = (after, false);
            }
            other => {
                push(Part::Text(other.to_string()));
                rest = &rest[other.len_utf8()..];
            }
        }
    }
    Some((Token::Word { parts, plain }, rest))
}

/// Parses what follows a dollar sign; returns the rest.
fn expansion(text: &str) -> Option<(Part, &str)> {
    if let Some(inner) = text.strip_prefix("$((") {
        let (expression, after) = inner.split_once("))")?;
        return Some((Part::Arithmetic(expression.to_owned()), after));
    }
    if let Some(inner) = text.strip_prefix("$(") {
        let (command, after) = inner.split_once(')')?;
        let nested = command.contains(['(', '"', '\'']);
        return (!nested).then(|| (Part::Command(command.to_owned()), after));
    }
    if let Some(inner) = text.strip_prefix("${") {
        let (name, after) = inner.split_once('}')?;
        return is_name(name).then(|| (Part::Variable(name.to_owned()), after));
    }
    let end = text[1..].find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(text.len() - 1);
    let (name, after) = text[1..].split_at(end);
    match (is_name(name), name.is_empty()) {
        (true, _) => Some((Part::Variable(name.to_owned()), after)),
        // A dollar sign on its own.
        (false, true) if !after.starts_with(['?', '!', '$', '@', '#', '*']) => {
            Some((Part::Text("$".to_owned()), after))
        }
        _ => None,
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}
