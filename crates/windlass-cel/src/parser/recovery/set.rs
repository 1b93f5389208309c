//! Sets of token kinds and the end of a rule.

use std::fmt;

use crate::parser::token::Kind;

/// A set of token kinds, optionally with "the rule may end here".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Set(u64);

const END_OF_RULE: u64 = 1 << 63;

/// All kinds, in order.
const KINDS: [Kind; 36] = [
    Kind::End,
    Kind::Equals,
    Kind::NotEquals,
    Kind::In,
    Kind::Less,
    Kind::LessEquals,
    Kind::GreaterEquals,
    Kind::Greater,
    Kind::And,
    Kind::Or,
    Kind::LeftBracket,
    Kind::RightBracket,
    Kind::LeftBrace,
    Kind::RightBrace,
    Kind::LeftParen,
    Kind::RightParen,
    Kind::Dot,
    Kind::Comma,
    Kind::Minus,
    Kind::Exclamation,
    Kind::Question,
    Kind::Colon,
    Kind::Plus,
    Kind::Star,
    Kind::Slash,
    Kind::Percent,
    Kind::True,
    Kind::False,
    Kind::Null,
    Kind::Float,
    Kind::Int,
    Kind::Uint,
    Kind::String,
    Kind::Bytes,
    Kind::Identifier,
    Kind::QuotedIdentifier,
];

impl Set {
    /// Returns a set of kinds.
    pub(super) const fn of(kinds: &[Kind]) -> Set {
        let mut bits = 0;
        let mut index = 0;
        while index < kinds.len() {
            bits |= 1 << kinds[index] as u8;
            index += 1;
        }
        Set(bits)
    }

    /// Returns this set, with the end of the rule allowed.
    pub(super) const fn or_end_of_rule(self) -> Set {
        Set(self.0 | END_OF_RULE)
    }

    /// Returns this set, without the end of the rule.
    pub(super) const fn without_end_of_rule(self) -> Set {
        Set(self.0 & !END_OF_RULE)
    }

    /// Returns whether the rule may end.
    pub(super) const fn has_end_of_rule(self) -> bool {
        self.0 & END_OF_RULE != 0
    }

    /// Returns the union.
    pub(super) const fn union(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    /// Returns whether it contains a kind.
    pub(super) const fn contains(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

impl fmt::Display for Set {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = KINDS.iter().filter(|kind| self.contains(**kind)).map(|kind| kind.name()).collect();
        match names.as_slice() {
            [name] => formatter.write_str(name),
            _ => write!(formatter, "{{{}}}", names.join(", ")),
        }
    }
}
