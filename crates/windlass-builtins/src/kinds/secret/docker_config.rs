//! Validation of JSON objects, with the error messages of Go's decoder.

use windlass_schema::field::quote;

/// Maximum nesting depth of Go's decoder.
const MAX_DEPTH: usize = 10_000;

/// Returns why a docker configuration is invalid, with Go's message; `None` if it is a JSON object or null.
pub(super) fn problem(bytes: &[u8]) -> Option<String> {
    let mut scanner = Scanner { bytes, at: 0 };
    if let Err(problem) = scanner.document() {
        return Some(problem);
    }
    let kind = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{' | b'n') | None => return None,
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        Some(_) => "number",
    };
    Some(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"))
}

/// Finds the first invalid byte.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The token that an open bracket expects next.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Object,
    Array,
}

type Scanned<T> = Result<T, String>;

impl Scanner<'_> {
    fn document(&mut self) -> Scanned<()> {
        let mut open = Vec::new();
        loop {
            // A value begins here.
            let byte = self.next_token()?;
            let opened = match byte {
                b'{' => Some(Open::Object),
                b'[' => Some(Open::Array),
                _ => None,
            };
            if let Some(kind) = opened {
                open.push(kind);
                if open.len() > MAX_DEPTH {
                    return Err("exceeded max depth".to_owned());
                }
                let close = if kind == Open::Object { b'}' } else { b']' };
                let next = self.next_token()?;
                if next != close {
                    self.at -= 1;
                    if kind == Open::Object {
                        self.key()?;
                    }
                    continue;
                }
                open.pop();
            } else {
                self.scalar(byte)?;
            }
            if !self.after_value(&mut open)? {
                return Ok(());
            }
        }
    }

    /// Closes the brackets that end here; returns whether another value follows.
    fn after_value(&mut self, open: &mut Vec<Open>) -> Scanned<bool> {
        loop {
            let Some(kind) = open.last() else {
                self.skip_space();
                return match self.bytes.get(self.at) {
                    None => Ok(false),
                    Some(byte) => Err(invalid(*byte, "after top-level value")),
                };
            };
            match (kind, self.next_token()?) {
                (Open::Object, b',') => {
                    self.key()?;
                    return Ok(true);
                }
                (Open::Array, b',') => return Ok(true),
                (Open::Object, b'}') | (Open::Array, b']') => {
                    open.pop();
                }
                (Open::Object, byte) => return Err(invalid(byte, "after object key:value pair")),
                (Open::Array, byte) => return Err(invalid(byte, "after array element")),
            }
        }
    }

    fn key(&mut self) -> Scanned<()> {
        match self.next_token()? {
            b'"' => self.string()?,
            byte => return Err(invalid(byte, "looking for beginning of object key string")),
        }
        match self.next_token()? {
            b':' => Ok(()),
            byte => Err(invalid(byte, "after object key")),
        }
    }

    fn scalar(&mut self, first: u8) -> Scanned<()> {
        match first {
            b'"' => self.string(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            b'-' => match self.next()? {
                byte @ b'0'..=b'9' => self.number(byte),
                byte => Err(invalid(byte, "in numeric literal")),
            },
            b'0'..=b'9' => self.number(first),
            byte => Err(invalid(byte, "looking for beginning of value")),
        }
    }

    fn string(&mut self) -> Scanned<()> {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => match self.next()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let byte = self.next()?;
                            if !byte.is_ascii_hexdigit() {
                                return Err(invalid(byte, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    byte => return Err(invalid(byte, "in string escape code")),
                },
                byte if byte < 0x20 => return Err(invalid(byte, "in string literal")),
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &str) -> Scanned<()> {
        for expected in word.bytes().skip(1) {
            let byte = self.next()?;
            if byte != expected {
                return Err(invalid(byte, &format!("in literal {word} (expecting '{}')", char::from(expected))));
            }
        }
        Ok(())
    }

    fn number(&mut self, first: u8) -> Scanned<()> {
        if first != b'0' {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn digit(&mut self, context: &str) -> Scanned<()> {
        match self.next()? {
            b'0'..=b'9' => Ok(()),
            byte => Err(invalid(byte, context)),
        }
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn next_token(&mut self) -> Scanned<u8> {
        self.skip_space();
        self.next()
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Scanned<u8> {
        let byte = self.peek().ok_or_else(|| "unexpected end of JSON input".to_owned())?;
        self.at += 1;
        Ok(byte)
    }
}

fn invalid(byte: u8, context: &str) -> String {
    let shown = match byte {
        b'\'' => "\\'".to_owned(),
        b'"' => "\"".to_owned(),
        byte => quote(&char::from(byte).to_string()).trim_matches('"').to_owned(),
    };
    format!("invalid character '{shown}' {context}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn problems_are_reported_with_the_messages_of_go() {
        for (text, expected) in [
            ("{\"auths\": {}}", None),
            (" null ", None),
            ("", Some("unexpected end of JSON input")),
            ("not json", Some("invalid character 'o' in literal null (expecting 'u')")),
            ("{\"a\" 1}", Some("invalid character '1' after object key")),
            ("{\"a\": 1 \"b\"}", Some("invalid character '\"' after object key:value pair")),
            ("{a}", Some("invalid character 'a' looking for beginning of object key string")),
            ("[1 2]", Some("invalid character '2' after array element")),
            ("{}x", Some("invalid character 'x' after top-level value")),
            ("{\"a\": -x}", Some("invalid character 'x' in numeric literal")),
            ("{\"a\": \"\\q\"}", Some("invalid character 'q' in string escape code")),
            ("{\"a\": \"\n\"}", Some("invalid character '\\n' in string literal")),
            ("{\"a\": '", Some("invalid character '\\'' looking for beginning of value")),
            ("[1]", Some("json: cannot unmarshal array into Go value of type map[string]interface {}")),
            ("3.5e-7", Some("json: cannot unmarshal number into Go value of type map[string]interface {}")),
            ("{\"a\": 01}", Some("invalid character '1' after object key:value pair")),
        ] {
            assert_eq!(problem(text.as_bytes()).as_deref(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_json_parser(text in "[\\[\\]{}\":,0-2eEtruefalsn\\\\ .-]{0,12}") {
            let valid = serde_json::from_str::<Value>(&text).is_ok_and(|value| value.is_object() || value.is_null());
            prop_assert_eq!(problem(text.as_bytes()).is_none(), valid, "{}", text);
        }

        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..32)) {
            problem(&bytes);
        }
    }
}
