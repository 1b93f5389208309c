//! Character classes: `[a-z]`, `\d`, `\p{Greek}`.

use regex::Regex;

use super::PatternError;
use super::escape::{NOTHING, char_escape, write_range};
use super::parser::{INVALID_RANGE, Parser, error};

/// Names such as in `[:alpha:]`.
const POSIX: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// The meaning of a Unicode name.
#[derive(Clone, Copy)]
pub(super) enum Group {
    /// All characters, all ASCII characters, or all assigned characters.
    Whole,
    /// A general category.
    Category,
    /// A script.
    Script,
    /// Surrogates, which never occur in a string.
    Surrogate,
}

impl Parser<'_> {
    pub(super) fn class(&mut self) -> Result<(), PatternError> {
        let whole = self.rest();
        let written = self.out.len();
        let negated = whole[1..].starts_with('^');
        self.out.push_str(if negated { "[^" } else { "[" });
        let mut at = 1 + usize::from(negated);
        let (mut first, mut may_be_named) = (true, true);
        while first || !whole[at..].starts_with(']') {
            first = false;
            let rest = &whole[at..];
            if may_be_named && rest.len() > 2 && rest.starts_with("[:") {
                let end = rest[2..].find(":]");
                may_be_named = end.is_some();
                if let Some(end) = end {
                    let name = &rest[..end + 4];
                    if !POSIX.contains(&name[2..name.len() - 2].trim_start_matches('^')) || name.starts_with("[:^^") {
                        return error(INVALID_RANGE, name);
                    }
                    self.out.push_str(name);
                    at += name.len();
                    continue;
                }
            }
            if let Some(length) = self.group_escape(rest)? {
                at += length;
                continue;
            }
            let start = at;
            let (low, length) = class_char(rest, whole)?;
            at += length;
            let mut high = low;
            let after = &whole[at..];
            if after.len() >= 2 && after.starts_with('-') && !after.starts_with("-]") {
                let length;
                (high, length) = class_char(&after[1..], whole)?;
                at += 1 + length;
                if high < low {
                    return error(INVALID_RANGE, &whole[start..at]);
                }
            }
            write_range(&mut self.out, low, high);
        }
        self.out.push(']');
        self.at += at + 1;
        self.ends_atom(written);
        Ok(())
    }

    /// Translates an escape for several characters, `\d`, `\pN` or `\p{Greek}`, and returns its length.
    pub(super) fn group_escape(&mut self, rest: &str) -> Result<Option<usize>, PatternError> {
        let Some(escaped) = rest.strip_prefix('\\').and_then(|rest| rest.chars().next()) else { return Ok(None) };
        let set = match escaped {
            'd' => "[0-9]",
            'D' => "[^0-9]",
            's' => "[\\t\\n\\x0C\\r ]",
            'S' => "[^\\t\\n\\x0C\\r ]",
            'w' => "[0-9A-Za-z_]",
            'W' => "[^0-9A-Za-z_]",
            'p' | 'P' => return self.unicode_escape(rest, escaped == 'P').map(Some),
            _ => return Ok(None),
        };
        self.out.push_str(set);
        Ok(Some(2))
    }

    fn unicode_escape(&mut self, rest: &str, negated: bool) -> Result<usize, PatternError> {
        let length = match rest[2..].chars().next() {
            None => return error(INVALID_RANGE, rest),
            Some('{') => match rest.find('}') {
                Some(end) => end + 1,
                None => return error(INVALID_RANGE, rest),
            },
            Some(c) => 2 + c.len_utf8(),
        };
        let name = rest[2..length].trim_start_matches('{').trim_end_matches('}');
        let (name, negated) = name.strip_prefix('^').map_or((name, negated), |name| (name, !negated));
        let name: String = name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).collect();
        let name = name.to_ascii_lowercase();
        let Some(group) = self.unicode_group(&name) else { return error(INVALID_RANGE, &rest[..length]) };
        let sign = if negated { "^" } else { "" };
        self.out.push_str(&match group {
            Group::Whole => format!("[{sign}\\p{{{name}}}]"),
            Group::Category => format!("[{sign}\\p{{gc={name}}}]"),
            Group::Script => format!("[{sign}\\p{{sc={name}}}]"),
            Group::Surrogate => format!("[{sign}{NOTHING}]"),
        });
        Ok(length)
    }

    fn unicode_group(&mut self, name: &str) -> Option<Group> {
        if name.is_empty() || name.len() > 40 || !name.bytes().all(|b| b.is_ascii_lowercase()) {
            return None;
        }
        if let Some(known) = self.names.get(name) {
            return *known;
        }
        let knows = |property: &str| Regex::new(&format!("\\p{{{property}={name}}}")).is_ok();
        let group = match name {
            "any" | "ascii" | "assigned" => Some(Group::Whole),
            "cs" | "surrogate" => Some(Group::Surrogate),
            _ if knows("gc") => Some(Group::Category),
            _ if knows("sc") => Some(Group::Script),
            _ => None,
        };
        self.names.insert(name.to_owned(), group);
        group
    }
}

fn class_char(rest: &str, whole: &str) -> Result<(u32, usize), PatternError> {
    match rest.chars().next() {
        None => error("missing closing ]", whole),
        Some('\\') => char_escape(rest),
        Some(c) => Ok((c as u32, c.len_utf8())),
    }
}
