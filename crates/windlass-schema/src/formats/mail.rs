//! The addresses that Go's `mail.ParseAddress` accepts: one RFC 5322 address, with a name or comments around it, or a
//! group of one.

use std::net::IpAddr;

/// Returns whether the text is a single address.
pub(super) fn is_email(text: &str) -> bool {
    let mut parser = Parser { rest: text };
    matches!(parser.address(true), Some(1)) && parser.skip_comments() && parser.rest.is_empty()
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    /// Parses an address or a group and returns the number of addresses.
    fn address(&mut self, group: bool) -> Option<usize> {
        self.skip_space();
        if self.rest.is_empty() {
            return None;
        }
        if self.spec() {
            self.skip_space();
            if self.rest.starts_with('(') {
                let comment = self.comment()?;
                if comment.split([' ', '\t']).any(is_unknown_charset) {
                    return None;
                }
            }
            return Some(1);
        }
        if !self.rest.starts_with('<') {
            self.phrase()?;
        }
        self.skip_space();
        if group && self.consume(':') {
            return self.group();
        }
        (self.consume('<') && self.spec() && self.consume('>')).then_some(1)
    }

    fn group(&mut self) -> Option<usize> {
        self.skip_space();
        if self.consume(';') {
            return self.skip_comments().then_some(0);
        }
        let mut count = 0;
        loop {
            self.skip_space();
            count += self.address(false)?;
            if !self.skip_comments() {
                return None;
            }
            if self.consume(';') {
                return self.skip_comments().then_some(count);
            }
            if !self.consume(',') {
                return None;
            }
        }
    }

    /// Parses `local@domain`, or nothing.
    fn spec(&mut self) -> bool {
        let before = self.rest;
        let good = self.local_and_domain().is_some();
        if !good {
            self.rest = before;
        }
        good
    }

    fn local_and_domain(&mut self) -> Option<()> {
        self.skip_space();
        if self.rest.starts_with('"') {
            if !self.quoted()? {
                return None;
            }
        } else {
            self.atom(false)?;
        }
        if !self.consume('@') {
            return None;
        }
        self.skip_space();
        if self.rest.starts_with('[') { self.literal() } else { self.atom(false).map(drop) }
    }

    /// Parses one or more words. Adjacent encoded words form a single word, unless they are empty.
    fn phrase(&mut self) -> Option<()> {
        let mut words = 0;
        let mut pending = false;
        loop {
            if words > 0 && !self.skip_comments() {
                return None;
            }
            self.skip_space();
            if self.rest.is_empty() {
                return Some(());
            }
            let word = if self.rest.starts_with('"') {
                self.quoted().map(|_| Word::Plain)
            } else {
                self.atom(true).and_then(Word::of)
            };
            match word {
                Some(Word::Encoded { empty }) => pending |= !empty,
                Some(Word::Plain) => {
                    words += 1;
                    pending = false;
                }
                None => return (words > 0 || pending).then_some(()),
            }
        }
    }

    /// Parses a quoted string and returns whether it has any content.
    fn quoted(&mut self) -> Option<bool> {
        let mut escaped = false;
        let mut any = false;
        for (index, c) in self.rest.char_indices().skip(1) {
            match c {
                _ if escaped => {
                    if !is_visible(c) && !is_blank(c) {
                        return None;
                    }
                    any = true;
                    escaped = false;
                }
                '"' => {
                    self.rest = &self.rest[index + 1..];
                    return Some(any);
                }
                '\\' => escaped = true,
                c if is_visible(c) || is_blank(c) => any = true,
                _ => return None,
            }
        }
        None
    }

    /// Parses letters and dots. In names, dots may appear anywhere.
    fn atom(&mut self, permissive: bool) -> Option<&'a str> {
        let end = self.rest.find(|c| !is_atom(c)).unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at(end);
        if atom.is_empty() {
            return None;
        }
        self.rest = rest;
        let dots = atom.starts_with('.') || atom.ends_with('.') || atom.contains("..");
        (permissive || !dots).then_some(atom)
    }

    /// Parses an address in brackets.
    fn literal(&mut self) -> Option<()> {
        let end = self.rest.find(']')?;
        let inner = &self.rest[1..end];
        if !inner.chars().all(|c| is_visible(c) && !matches!(c, '[' | '\\')) || inner.parse::<IpAddr>().is_err() {
            return None;
        }
        self.rest = &self.rest[end + 1..];
        Some(())
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches(is_blank);
    }

    /// Skips spaces and comments, and returns whether all comments were closed.
    fn skip_comments(&mut self) -> bool {
        self.skip_space();
        while self.rest.starts_with('(') {
            if self.comment().is_none() {
                return false;
            }
            self.skip_space();
        }
        true
    }

    /// Parses a comment, which may contain nested comments.
    fn comment(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut depth = 0_u32;
        let mut escaped = false;
        for (index, c) in self.rest.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => {
                    escaped = true;
                    continue;
                }
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.rest = &self.rest[index + 1..];
                return Some(text);
            }
            if index > 0 {
                text.push(c);
            }
        }
        None
    }

    fn consume(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn is_visible(c: char) -> bool {
    matches!(c, '!'..='~') || !c.is_ascii()
}

fn is_atom(c: char) -> bool {
    is_visible(c) && !matches!(c, '(' | ')' | '<' | '>' | '[' | ']' | ':' | ';' | '@' | '\\' | ',' | '"')
}

/// A word of a name.
enum Word {
    Plain,
    /// `=?charset?q?text?=`
    Encoded {
        empty: bool,
    },
}

impl Word {
    /// Returns `None` for a correctly encoded word in a character set that the decoder does not support.
    fn of(word: &str) -> Option<Self> {
        let Some((charset, text)) = encoded(word) else { return Some(Self::Plain) };
        let known = ["utf-8", "iso-8859-1", "us-ascii"].iter().any(|known| known.eq_ignore_ascii_case(charset));
        known.then_some(Self::Encoded { empty: text.is_empty() })
    }
}

fn is_unknown_charset(word: &str) -> bool {
    Word::of(word).is_none()
}

/// Returns the character set and the text of an encoded word.
fn encoded(word: &str) -> Option<(&str, &str)> {
    let inner = word.strip_prefix("=?").and_then(|rest| rest.strip_suffix("?="))?;
    let (charset, rest) = inner.split_once('?')?;
    let (encoding, text) = rest.split_once('?')?;
    let decodes = match encoding {
        "b" | "B" => is_padded_base64(text),
        "q" | "Q" => is_q_encoded(text),
        _ => false,
    };
    (decodes && !charset.is_empty() && word.matches('?').count() == 4).then_some((charset, text))
}

fn is_padded_base64(text: &str) -> bool {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

fn is_q_encoded(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(b) = bytes.get(at) {
        match b {
            b'=' if bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) => at += 3,
            b'=' => return false,
            b' '..=b'~' | b'\n' | b'\r' | b'\t' => at += 1,
            _ => return false,
        }
    }
    true
}
