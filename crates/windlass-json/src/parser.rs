//! A recursive-descent parser that fails at the same byte and with the same message as Go's scanner.

use serde_json::{Map, Number, Value};

use crate::MAX_DEPTH;

/// The result type of a parse.
pub trait Build: Sized {
    /// The entries of an object.
    type Entries: Default;
    /// Returns null.
    fn null() -> Self;
    /// Returns a boolean.
    fn boolean(value: bool) -> Self;
    /// Returns a string.
    fn string(value: String) -> Self;
    /// Returns `None` if the number does not fit into a float.
    fn number(literal: &str) -> Option<Self>;
    /// Returns a list.
    fn array(items: Vec<Self>) -> Self;
    /// Returns an object.
    fn object(object: Self::Entries) -> Self;
    /// Adds an entry, and returns whether the key existed before.
    fn insert(object: &mut Self::Entries, key: String, value: Self) -> bool;
}

impl Build for Value {
    type Entries = Map<String, Value>;

    fn null() -> Self {
        Value::Null
    }

    fn boolean(value: bool) -> Self {
        Value::Bool(value)
    }

    fn string(value: String) -> Self {
        Value::String(value)
    }

    fn number(literal: &str) -> Option<Self> {
        if let Ok(integer) = literal.parse::<i64>() {
            return Some(Value::from(integer));
        }
        literal.parse().ok().and_then(Number::from_f64).map(Value::Number)
    }

    fn array(items: Vec<Self>) -> Self {
        Value::Array(items)
    }

    fn object(object: Self::Entries) -> Self {
        Value::Object(object)
    }

    fn insert(object: &mut Self::Entries, key: String, value: Self) -> bool {
        object.insert(key, value).is_some()
    }
}

/// Parses JSON; returns its value, and whether any object had duplicate keys.
///
/// # Errors
/// Returns an error if the text is not exactly one JSON value, with the message of Go's decoder.
pub fn parse_as<B: Build>(text: &str) -> Result<(B, bool), String> {
    let mut parser = Parser { text, bytes: text.as_bytes(), at: 0, depth: 0, duplicates: false };
    let value = parser.value()?;
    parser.space();
    match parser.peek() {
        None => Ok((value, parser.duplicates)),
        Some(_) => Err(parser.unexpected("after top-level value")),
    }
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    duplicates: bool,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Returns the error for the current byte.
    fn unexpected(&self, context: &str) -> String {
        match self.peek() {
            None => "unexpected end of JSON input".to_owned(),
            Some(byte) => format!("invalid character {} {context}", quote_byte(byte)),
        }
    }

    /// Returns the error for the current byte inside a token, where Go treats the end of the text as a space.
    fn unexpected_in_token(&self, context: &str) -> String {
        match self.peek() {
            None => format!("invalid character ' ' {context}"),
            Some(_) => self.unexpected(context),
        }
    }

    fn value<B: Build>(&mut self) -> Result<B, String> {
        self.space();
        match self.peek() {
            Some(b'"') => self.string().map(B::string),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b't') => self.word("true").map(|()| B::boolean(true)),
            Some(b'f') => self.word("false").map(|()| B::boolean(false)),
            Some(b'n') => self.word("null").map(|()| B::null()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested<B: Build>(&mut self, read: fn(&mut Self) -> Result<B, String>) -> Result<B, String> {
        if self.depth == MAX_DEPTH {
            return Err(self.unexpected("exceeded max depth"));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object<B: Build>(&mut self) -> Result<B, String> {
        let mut object = B::Entries::default();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(B::object(object));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            let value = self.value()?;
            self.duplicates |= B::insert(&mut object, key, value);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(B::object(object));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn array<B: Build>(&mut self) -> Result<B, String> {
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(B::array(items));
        }
        loop {
            items.push(self.value()?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(B::array(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                return Err(self.unexpected_in_token(&format!("in literal {word} (expecting '{}')", expected as char)));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.at - start
    }

    fn number<B: Build>(&mut self) -> Result<B, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => {
                self.digits();
            }
            _ => return Err(self.unexpected_in_token("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.unexpected_in_token("after decimal point in numeric literal"));
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.unexpected_in_token("in exponent of numeric literal"));
            }
        }
        let literal = &self.text[start..self.at];
        B::number(literal)
            .ok_or_else(|| format!("json: cannot unmarshal number {literal} into Go value of type float64"))
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let plain = self.text[start..self.at].to_owned();
                    self.at += 1;
                    return Ok(plain);
                }
                Some(b'\\') => return self.string_with_escapes(start),
                Some(0x20..) => self.at += 1,
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn string_with_escapes(&mut self, mut start: usize) -> Result<String, String> {
        let mut out = String::with_capacity(self.at - start + 32);
        loop {
            match self.peek() {
                Some(b'"') => {
                    out.push_str(&self.text[start..self.at]);
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    out.push_str(&self.text[start..self.at]);
                    self.at += 1;
                    self.escape(&mut out)?;
                    start = self.at;
                }
                Some(0x20..) => self.at += 1,
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), String> {
        let plain = match self.peek() {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(byte @ (b'\\' | b'/' | b'"')) => byte as char,
            Some(b'u') => {
                self.at += 1;
                let unit = self.hexadecimal()?;
                out.push(self.surrogates(unit));
                return Ok(());
            }
            _ => return Err(self.unexpected_in_token("in string escape code")),
        };
        self.at += 1;
        out.push(plain);
        Ok(())
    }

    fn hexadecimal(&mut self) -> Result<u32, String> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| (byte as char).to_digit(16));
            unit = unit * 16 + digit.ok_or_else(|| self.unexpected_in_token("in \\u hexadecimal character escape"))?;
            self.at += 1;
        }
        Ok(unit)
    }

    /// Returns the character of a code unit, combined with the next escape if the two are a surrogate pair; an unpaired
    /// surrogate is U+FFFD.
    fn surrogates(&mut self, unit: u32) -> char {
        if (0xd800..0xdc00).contains(&unit) && self.bytes[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            if let Ok(low @ 0xdc00..0xe000) = self.hexadecimal() {
                let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return char::from_u32(code).unwrap_or('\u{fffd}');
            }
            self.at = before;
        }
        char::from_u32(unit).unwrap_or('\u{fffd}')
    }
}

/// Formats a byte as Go quotes it in a syntax error.
fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'\\' => "'\\\\'".to_owned(),
        0x07 => "'\\a'".to_owned(),
        0x08 => "'\\b'".to_owned(),
        0x0c => "'\\f'".to_owned(),
        b'\n' => "'\\n'".to_owned(),
        b'\r' => "'\\r'".to_owned(),
        b'\t' => "'\\t'".to_owned(),
        0x0b => "'\\v'".to_owned(),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", byte as char),
    }
}
