//! Tokenizer: the longest match wins, and text that matches nothing is an error that is skipped.

use crate::source::Source;

/// Token kinds, numbered in the order in which the grammar declares them: sets of expected tokens are shown in that
/// order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    End,
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Exclamation,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Identifier,
    QuotedIdentifier,
}

impl Kind {
    /// Returns the name in error messages.
    pub(super) fn name(self) -> &'static str {
        const NAMES: [&str; 36] = [
            "<EOF>",
            "'=='",
            "'!='",
            "'in'",
            "'<'",
            "'<='",
            "'>='",
            "'>'",
            "'&&'",
            "'||'",
            "'['",
            "']'",
            "'{'",
            "'}'",
            "'('",
            "')'",
            "'.'",
            "','",
            "'-'",
            "'!'",
            "'?'",
            "':'",
            "'+'",
            "'*'",
            "'/'",
            "'%'",
            "'true'",
            "'false'",
            "'null'",
            "NUM_FLOAT",
            "NUM_INT",
            "NUM_UINT",
            "STRING",
            "BYTES",
            "IDENTIFIER",
            "ESC_IDENTIFIER",
        ];
        NAMES[self as usize]
    }
}

/// A token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    /// The kind of token.
    pub(super) kind: Kind,
    /// Start of the text in bytes.
    pub(super) start: usize,
    /// End of the text in bytes.
    pub(super) end: usize,
    /// Start in code points.
    pub(super) offset: u32,
}

/// Text that is not a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LexicalError {
    /// Start in code points.
    pub(super) offset: u32,
    /// Start in bytes of the text up to the unexpected character.
    pub(super) start: usize,
    /// End of that text in bytes.
    pub(super) end: usize,
    /// Number of preceding tokens.
    pub(super) token: usize,
}

/// Returns the tokens of a source, ending with an end marker, and the errors skipped between them.
pub(super) fn tokenize(source: &Source) -> (Vec<Token>, Vec<LexicalError>) {
    let text = source.text();
    let bytes = text.as_bytes();
    let mut tokens = Vec::with_capacity(bytes.len() / 3 + 2);
    let mut errors = Vec::new();
    let mut offset = 0u32;
    let mut at = 0;
    while at < bytes.len() {
        let end = match scan(bytes, at) {
            Scanned::Token(kind, end) => {
                tokens.push(Token { kind, start: at, end, offset });
                end
            }
            Scanned::Blank(end) => end,
            Scanned::Nothing(failed) => {
                let end = text[failed..].chars().next().map_or(failed, |character| failed + character.len_utf8());
                errors.push(LexicalError { offset, start: at, end, token: tokens.len() });
                end
            }
        };
        offset += text[at..end].chars().count() as u32;
        at = end;
    }
    tokens.push(Token { kind: Kind::End, start: at, end: at, offset });
    (tokens, errors)
}

enum Scanned {
    Token(Kind, usize),
    Blank(usize),
    /// No token starts here; contains the index of the unexpected byte.
    Nothing(usize),
}

fn scan(bytes: &[u8], at: usize) -> Scanned {
    use Kind::*;
    let next = bytes.get(at + 1).copied();
    let one = |kind| Scanned::Token(kind, at + 1);
    let either = |follower, long, short| {
        if next == Some(follower) { Scanned::Token(long, at + 2) } else { Scanned::Token(short, at + 1) }
    };
    let doubled = |kind| {
        if next == Some(bytes[at]) { Scanned::Token(kind, at + 2) } else { Scanned::Nothing(at + 1) }
    };
    match bytes[at] {
        b'\t' | b' ' | b'\r' | b'\n' | 0x0c => {
            Scanned::Blank(run(bytes, at, |byte| matches!(byte, b'\t' | b' ' | b'\r' | b'\n' | 0x0c)))
        }
        b'/' if next == Some(b'/') => Scanned::Blank(run(bytes, at, |byte| byte != b'\n')),
        b'[' => one(LeftBracket),
        b']' => one(RightBracket),
        b'{' => one(LeftBrace),
        b'}' => one(RightBrace),
        b'(' => one(LeftParen),
        b')' => one(RightParen),
        b',' => one(Comma),
        b'-' => one(Minus),
        b'?' => one(Question),
        b':' => one(Colon),
        b'+' => one(Plus),
        b'*' => one(Star),
        b'/' => one(Slash),
        b'%' => one(Percent),
        b'!' => either(b'=', NotEquals, Exclamation),
        b'<' => either(b'=', LessEquals, Less),
        b'>' => either(b'=', GreaterEquals, Greater),
        b'=' => doubled(Equals),
        b'&' => doubled(And),
        b'|' => doubled(Or),
        b'.' if next.is_some_and(|byte| byte.is_ascii_digit()) => number(bytes, at),
        b'.' => one(Dot),
        b'0'..=b'9' => number(bytes, at),
        b'"' | b'\'' => match string(bytes, at, false) {
            Ok(end) => Scanned::Token(String, end),
            Err(failed) => Scanned::Nothing(failed),
        },
        b'`' => {
            let end = run(bytes, at + 1, |byte| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/' | b' ')
            });
            if end > at + 1 && bytes.get(end) == Some(&b'`') {
                Scanned::Token(QuotedIdentifier, end + 1)
            } else {
                Scanned::Nothing(end)
            }
        }
        byte if byte.is_ascii_alphabetic() || byte == b'_' => word(bytes, at),
        _ => Scanned::Nothing(at),
    }
}

fn run(bytes: &[u8], at: usize, accepts: impl Fn(u8) -> bool) -> usize {
    bytes[at..].iter().position(|byte| !accepts(*byte)).map_or(bytes.len(), |length| at + length)
}

fn digits(bytes: &[u8], at: usize) -> usize {
    run(bytes, at, |byte| byte.is_ascii_digit())
}

fn word(bytes: &[u8], at: usize) -> Scanned {
    let rest = &bytes[at..];
    let is_quote = |index: usize| matches!(rest.get(index), Some(b'"' | b'\''));
    let is_raw = |index: usize| matches!(rest.get(index), Some(b'r' | b'R'));
    let literal = match rest[0] {
        b'r' | b'R' if is_quote(1) => Some((Kind::String, 1, true)),
        b'b' | b'B' if is_quote(1) => Some((Kind::Bytes, 1, false)),
        b'b' | b'B' if is_raw(1) && is_quote(2) => Some((Kind::Bytes, 2, true)),
        _ => None,
    };
    if let Some((kind, prefix, raw)) = literal
        && let Ok(end) = string(bytes, at + prefix, raw)
    {
        return Scanned::Token(kind, end);
    }
    let end = run(bytes, at, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let kind = match &bytes[at..end] {
        b"in" => Kind::In,
        b"true" => Kind::True,
        b"false" => Kind::False,
        b"null" => Kind::Null,
        _ => Kind::Identifier,
    };
    Scanned::Token(kind, end)
}

fn number(bytes: &[u8], at: usize) -> Scanned {
    let hexadecimal = |byte: u8| byte.is_ascii_hexdigit();
    let is_unsigned = |index: usize| matches!(bytes.get(index), Some(b'u' | b'U'));
    if bytes[at] == b'0' && bytes.get(at + 1) == Some(&b'x') && bytes.get(at + 2).is_some_and(|byte| hexadecimal(*byte))
    {
        let end = run(bytes, at + 2, hexadecimal);
        return if is_unsigned(end) { Scanned::Token(Kind::Uint, end + 1) } else { Scanned::Token(Kind::Int, end) };
    }
    let whole = digits(bytes, at);
    let mut end = whole;
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = digits(bytes, end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let signed = matches!(bytes.get(end + 1), Some(b'+' | b'-')) as usize;
        if bytes.get(end + 1 + signed).is_some_and(u8::is_ascii_digit) {
            return Scanned::Token(Kind::Float, digits(bytes, end + 1 + signed));
        }
    }
    if end > whole {
        Scanned::Token(Kind::Float, end)
    } else if is_unsigned(end) {
        Scanned::Token(Kind::Uint, end + 1)
    } else {
        Scanned::Token(Kind::Int, end)
    }
}

/// Returns the end of the string that starts at a quote, or the index of the unexpected byte.
fn string(bytes: &[u8], at: usize, raw: bool) -> Result<usize, usize> {
    let quote = bytes[at];
    if bytes.get(at + 1) == Some(&quote) {
        if bytes.get(at + 2) != Some(&quote) {
            return Ok(at + 2);
        }
        // Without closing quotes, what looked like three quotes is an empty string and a quote.
        return Ok(long_string(bytes, at, quote, raw).unwrap_or(at + 2));
    }
    let mut index = at + 1;
    loop {
        match bytes.get(index) {
            Some(byte) if *byte == quote => return Ok(index + 1),
            None | Some(b'\n' | b'\r') => return Err(index),
            Some(b'\\') if !raw => index = escape(bytes, index)?,
            Some(_) => index += 1,
        }
    }
}

fn long_string(bytes: &[u8], at: usize, quote: u8, raw: bool) -> Result<usize, usize> {
    let mut index = at + 3;
    loop {
        match bytes.get(index) {
            None => return Err(index),
            Some(byte) if *byte == quote && bytes[index..].starts_with(&[quote; 3]) => return Ok(index + 3),
            Some(b'\\') if !raw => index = escape(bytes, index)?,
            Some(_) => index += 1,
        }
    }
}

/// Returns the end of the escape that starts at a backslash, or the index of the unexpected byte.
fn escape(bytes: &[u8], at: usize) -> Result<usize, usize> {
    let all = |from: usize, count: usize, accepts: fn(&u8) -> bool| match (from..from + count)
        .find(|index| !bytes.get(*index).is_some_and(accepts))
    {
        Some(failed) => Err(failed),
        None => Ok(from + count),
    };
    match bytes.get(at + 1) {
        Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`') => Ok(at + 2),
        Some(b'x' | b'X') => all(at + 2, 2, u8::is_ascii_hexdigit),
        Some(b'u') => all(at + 2, 4, u8::is_ascii_hexdigit),
        Some(b'U') => all(at + 2, 8, u8::is_ascii_hexdigit),
        Some(b'0'..=b'3') => all(at + 2, 2, |byte| matches!(byte, b'0'..=b'7')),
        _ => Err(at + 1),
    }
}
