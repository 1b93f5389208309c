//! String formats of schemas, checked exactly as in kube-apiserver.

use std::sync::LazyLock;

use regex::Regex;

use crate::go_url::parse_request_uri;
use crate::names as ip;
use crate::time::parse_loose_duration;

mod date;
mod mail;

/// Checks whether a string has a format.
pub type Format = fn(&str) -> bool;

/// Returns the check for a format name; dashes in the name are ignored.
pub fn find(name: &str) -> Option<Format> {
    Some(match name.replace('-', "").as_str() {
        "bsonobjectid" => is_object_id,
        "byte" => is_base64,
        "cidr" => is_cidr,
        "creditcard" => is_credit_card,
        "date" => date::is_date,
        "datetime" => date::is_date_time,
        "duration" => |text| parse_loose_duration(text).is_some(),
        "email" => mail::is_email,
        "hexcolor" => is_hex_color,
        "hostname" => is_hostname,
        "ipv4" => is_ipv4,
        "ipv6" => is_ipv6,
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "k8slongname" => is_long_name,
        "k8sshortname" => is_short_name,
        "mac" => is_mac,
        "password" => |_| true,
        "rgbcolor" => is_rgb_color,
        "ssn" => is_ssn,
        "uri" => |text| parse_request_uri(text).is_ok(),
        "uuid" => |text| is_uuid(text, None, false),
        "uuid3" => |text| is_uuid(text, Some(b'3'), false),
        "uuid4" => |text| is_uuid(text, Some(b'4'), true),
        "uuid5" => |text| is_uuid(text, Some(b'5'), true),
        _ => return None,
    })
}

/// Returns whether a string format is checked at all.
pub fn is_supported(name: &str) -> bool {
    find(name).is_some()
}

fn is_object_id(text: &str) -> bool {
    text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Standard base64 with padding, not empty.
fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.is_empty() || !bytes.len().is_multiple_of(4) {
        return false;
    }
    let padding = bytes.iter().rev().take(2).take_while(|b| **b == b'=').count();
    bytes[..bytes.len() - padding].iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

fn is_cidr(text: &str) -> bool {
    ip::parse_cidr_sloppy(text).is_some()
}

fn is_ipv4(text: &str) -> bool {
    text.contains('.') && ip::parse_ip_sloppy(text).is_some()
}

fn is_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<std::net::Ipv6Addr>().is_ok()
}

fn is_credit_card(text: &str) -> bool {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}\
                       |3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$";
        Regex::new(pattern).expect("the pattern must be valid")
    });
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !PATTERN.is_match(&digits) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(index, digit)| {
            let digit = u32::from(digit - b'0');
            match (index % 2, digit * 2) {
                (0, _) => digit,
                (_, doubled) if doubled >= 10 => doubled % 10 + 1,
                (_, doubled) => doubled,
            }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Returns the text without white space and dashes.
fn condensed(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\x0c' | '\r' | ' ' | '-')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = condensed(text);
    let bytes = text.as_bytes();
    let [first @ .., last] = bytes else { return false };
    if bytes.len() != 10 || !first.iter().all(u8::is_ascii_digit) || !(last.is_ascii_digit() || *last == b'X') {
        return false;
    }
    let value = |b: u8| if b == b'X' { 10 } else { u32::from(b - b'0') };
    let sum: u32 = bytes.iter().zip(1..).map(|(b, weight)| weight * value(*b)).sum();
    sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let text = condensed(text);
    let bytes = text.as_bytes();
    if bytes.len() != 13 || !bytes.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 = bytes.iter().enumerate().map(|(index, b)| (1 + 2 * (index as u32 % 2)) * u32::from(b - b'0')).sum();
    sum.is_multiple_of(10)
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_rgb_color(text: &str) -> bool {
    let space = |c: char| matches!(c, '\t' | '\n' | '\x0c' | '\r' | ' ');
    let Some(inner) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let parts: Vec<&str> = inner.split(',').map(|part| part.trim_matches(space)).collect();
    let in_range = |part: &&str| {
        !part.is_empty()
            && part.len() <= 3
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part.len() == 1 || !part.starts_with('0'))
            && part.parse::<u16>().is_ok_and(|n| n <= 255)
    };
    parts.len() == 3 && parts.iter().all(in_range)
}

/// Eleven characters are required, so the separators that the pattern makes optional are in fact required.
fn is_ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(index, b)| match index {
            3 | 6 => matches!(b, b'-' | b' '),
            _ => b.is_ascii_digit(),
        })
}

/// A single label that may have a dash after its first character, or several labels ending in a name of letters.
fn is_hostname(text: &str) -> bool {
    if text.len() > 255 || text.split('.').any(|part| part.len() > 63) {
        return false;
    }
    let Some((labels, last)) = text.rsplit_once('.') else {
        let mut chars = text.chars();
        let first = chars.next().is_some_and(is_word);
        let rest = chars.as_str();
        return first && rest.strip_prefix('-').unwrap_or(rest).chars().all(is_word);
    };
    let letter = |c: char| c.is_ascii_alphabetic() || (!c.is_ascii() && matches(&LETTER, c));
    last.chars().nth(1).is_some()
        && last.chars().all(letter)
        && labels.split('.').all(|label| {
            label.chars().next().is_some_and(is_word)
                && label.chars().next_back().is_some_and(is_word)
                && label.chars().all(|c| c == '-' || is_word(c))
        })
}

static LETTER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\p{L}$").expect("the pattern must be valid"));
static SYMBOL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\p{S}$").expect("the pattern must be valid"));

fn matches(pattern: &Regex, c: char) -> bool {
    pattern.is_match(c.encode_utf8(&mut [0; 4]))
}

/// A letter, a digit or a symbol.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches(&SYMBOL, c) || (!c.is_ascii() && matches(&LETTER, c))
}

fn is_short_name(text: &str) -> bool {
    text.len() <= 63 && is_name_part(text)
}

fn is_long_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_name_part)
}

fn is_name_part(text: &str) -> bool {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| letter(*b))
        && bytes.last().is_some_and(|b| letter(*b))
        && bytes.iter().all(|b| letter(*b) || *b == b'-')
}

/// Hexadecimal digits in groups whose dashes may each be left out.
fn is_uuid(text: &str, version: Option<u8>, variant: bool) -> bool {
    let mut digits = 0;
    let mut dash = false;
    for b in text.bytes() {
        if b == b'-' {
            if dash || !matches!(digits, 8 | 12 | 16 | 20) {
                return false;
            }
            dash = true;
            continue;
        }
        dash = false;
        let fits = match digits {
            12 => version.is_none_or(|version| version == b),
            16 if variant => matches!(b, b'8' | b'9' | b'a' | b'b' | b'A' | b'B'),
            _ => true,
        };
        if !fits || !b.is_ascii_hexdigit() {
            return false;
        }
        digits += 1;
    }
    digits == 32 && !dash
}

fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    let groups = |group: usize, separator: u8| {
        let octets = (bytes.len() + 1) / (group + 1) * group / 2;
        (bytes.len() + 1).is_multiple_of(group + 1)
            && matches!(octets, 6 | 8 | 20)
            && bytes.iter().enumerate().all(|(index, b)| match index % (group + 1) == group {
                true => *b == separator,
                false => b.is_ascii_hexdigit(),
            })
    };
    match bytes {
        _ if bytes.len() < 12 => false,
        [_, _, separator @ (b':' | b'-'), ..] => groups(2, *separator),
        [_, _, _, _, b'.', ..] => groups(4, b'.'),
        _ => matches!(bytes.len(), 12 | 16 | 40) && bytes.iter().all(u8::is_ascii_hexdigit),
    }
}

#[cfg(test)]
mod tests;
