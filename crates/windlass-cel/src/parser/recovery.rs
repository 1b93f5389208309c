//! Parser for invalid strings: it continues after each error, so that all errors are found.
//!
//! Messages and recovery are those of the parser generator that the reference implementation uses (ANTLR): reporting
//! the expected tokens, deleting or inserting one token, and skipping tokens until one that may follow. Clients see
//! these messages, so decisions are made in the same order and with the same lookahead. The grammar rules are in
//! `rules`.

use super::descent::MAXIMUM_DEPTH;
use super::token::{Kind, LexicalError, Token};
use super::tree::{Node, NodeId, TokenId};
use crate::source::{Errors, Location, Source};
use set::Set;

mod rules;
mod set;

/// Maximum number of recoveries.
const MAXIMUM_RECOVERIES: usize = 30;
/// Maximum number of tokens that one recovery skips.
const MAXIMUM_SKIPPED: usize = 256;
/// Maximum number of syntax errors reported.
const MAXIMUM_REPORTS: usize = 100;

/// Parsing cannot continue; the errors state why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopped;

/// Reason why a rule ends early.
enum Halt {
    /// There is an error here; the caller of the rule continues.
    Problem(Problem),
    /// Parsing stops.
    Stopped,
}

enum Problem {
    /// Another token was expected.
    Mismatch(Set),
    /// No alternative of a rule starts with the tokens in this range.
    NoAlternative { start: usize, offending: usize },
}

/// A position in a rule: its number, and the tokens that may come next within the rule.
#[derive(Clone, Copy)]
struct State {
    id: u8,
    next: Set,
}

type Step<T> = Result<T, Halt>;

impl From<Stopped> for Halt {
    fn from(_: Stopped) -> Halt {
        Halt::Stopped
    }
}

/// A parser with error recovery.
pub(super) struct Recovery<'a> {
    source: &'a Source,
    tokens: &'a [Token],
    lexical: &'a [LexicalError],
    errors: &'a mut Errors,
    at: usize,
    nodes: Vec<Node>,
    /// Tokens that may follow each rule within its caller, innermost last.
    follows: Vec<Set>,
    depths: [u32; rules::COUNT],
    /// The current position.
    state: u8,
    /// Whether no token was matched since the last error, in which case further errors are not reported.
    recovering: bool,
    last_error: Option<usize>,
    error_states: u128,
    recoveries: usize,
    reports: usize,
    /// Number of lexical errors reported.
    seen: usize,
}

impl<'a> Recovery<'a> {
    /// Creates a parser for tokens and the errors skipped between them.
    pub(super) fn new(
        source: &'a Source,
        tokens: &'a [Token],
        lexical: &'a [LexicalError],
        errors: &'a mut Errors,
    ) -> Recovery<'a> {
        Recovery {
            source,
            tokens,
            lexical,
            errors,
            at: 0,
            nodes: Vec::new(),
            follows: Vec::new(),
            depths: [0; rules::COUNT],
            state: 0,
            recovering: false,
            last_error: None,
            error_states: 0,
            recoveries: 0,
            reports: 0,
            seen: 0,
        }
    }

    /// Parses everything, reports all errors, and returns the resulting tree.
    pub(super) fn parse(mut self) -> Result<(Vec<Node>, NodeId), Stopped> {
        let root = self.start()?;
        Ok((self.nodes, root))
    }

    fn node(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() as NodeId - 1
    }

    /// Returns the kind of a token ahead; reports lexical errors up to it.
    fn peek(&mut self, ahead: usize) -> Result<Kind, Stopped> {
        let index = (self.at + ahead).min(self.tokens.len() - 1);
        while let Some(error) = self.lexical.get(self.seen).filter(|error| error.token <= index) {
            self.seen += 1;
            let message = format!("token recognition error at: '{}'", &self.source.text()[error.start..error.end]);
            self.syntax_error(error.offset, &message)?;
        }
        Ok(self.tokens[index].kind)
    }

    fn consume(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn matched(&mut self) {
        self.recovering = false;
        self.error_states = 0;
        self.last_error = None;
    }

    /// Consumes a token of a kind at a position, with the tokens that may come after it.
    fn expect(&mut self, kind: Kind, id: u8, after: Set) -> Step<TokenId> {
        self.state = id;
        if self.peek(0)? == kind {
            let token = self.at as TokenId;
            self.matched();
            self.consume();
            return Ok(token);
        }
        self.count_recovery()?;
        let expected = self.expected(Set::of(&[kind]));
        if self.delete_token(expected)? {
            let token = self.at as TokenId;
            self.consume();
            return Ok(token);
        }
        if self.expected(after).contains(self.peek(0)?) {
            if !self.recovering {
                self.recovering = true;
                let message = format!("missing {expected} at {}", self.display_token(self.at));
                self.report_at(self.at, &message)?;
            }
            let is_end = self.peek(0)? == Kind::End && self.at > 0;
            return Ok((if is_end { self.at - 1 } else { self.at }) as TokenId);
        }
        Err(Halt::Problem(Problem::Mismatch(expected)))
    }

    /// Before the alternatives of a block: deletes one unexpected token, or ends the rule.
    fn synchronize(&mut self, state: State) -> Step<()> {
        self.state = state.id;
        if self.recovering {
            return Ok(());
        }
        let next = self.peek(0)?;
        if state.next.has_end_of_rule() || state.next.contains(next) {
            return Ok(());
        }
        let expected = self.expected(state.next);
        if self.delete_token(expected)? { Ok(()) } else { Err(Halt::Problem(Problem::Mismatch(expected))) }
    }

    /// After one iteration of a loop: skips tokens until one that may come next or later.
    fn synchronize_back(&mut self, state: State) -> Result<(), Stopped> {
        self.state = state.id;
        let next = self.peek(0)?;
        if self.recovering || state.next.has_end_of_rule() || state.next.contains(next) {
            return Ok(());
        }
        let expected = self.expected(state.next);
        self.report_unwanted(expected)?;
        let until = expected.union(self.recovery_set());
        while !until.contains(self.peek(0)?) && self.peek(0)? != Kind::End {
            self.consume();
        }
        Ok(())
    }

    fn report_unwanted(&mut self, expected: Set) -> Result<(), Stopped> {
        if self.recovering {
            return Ok(());
        }
        self.recovering = true;
        let message = format!("extraneous input {} expecting {expected}", self.display_token(self.at));
        self.report_at(self.at, &message)
    }

    /// Deletes the current token if the next one is expected.
    fn delete_token(&mut self, expected: Set) -> Result<bool, Stopped> {
        if !expected.contains(self.peek(1)?) {
            return Ok(false);
        }
        self.report_unwanted(expected)?;
        self.consume();
        self.matched();
        Ok(true)
    }

    /// Returns the tokens that may come next in the whole string, given the next tokens within the rule.
    fn expected(&self, within: Set) -> Set {
        let mut expected = within.without_end_of_rule();
        let mut open = within.has_end_of_rule();
        for follow in self.follows.iter().rev() {
            if !open {
                return expected;
            }
            expected = expected.union(follow.without_end_of_rule());
            open = follow.has_end_of_rule();
        }
        if open { expected.union(Set::of(&[Kind::End])) } else { expected }
    }

    /// Returns the tokens that may follow any of the active rules.
    fn recovery_set(&self) -> Set {
        self.follows.iter().fold(Set::of(&[]), |all, follow| all.union(follow.without_end_of_rule()))
    }

    fn enter(&mut self, rule: usize) -> Result<(), Stopped> {
        self.depths[rule] += 1;
        if self.depths[rule] > MAXIMUM_DEPTH {
            let message = format!("expression recursion limit exceeded: {MAXIMUM_DEPTH}");
            self.errors.report(Location::NONE, message);
            return Err(Stopped);
        }
        Ok(())
    }

    /// Ends a rule: reports the error, if any, and skips tokens until one that may follow.
    fn leave(&mut self, rule: usize, outcome: Step<()>) -> Result<(), Stopped> {
        match outcome {
            Ok(()) => {}
            Err(Halt::Stopped) => return Err(Stopped),
            Err(Halt::Problem(problem)) => {
                self.report_problem(&problem)?;
                self.recover()?;
            }
        }
        self.depths[rule] -= 1;
        Ok(())
    }

    fn report_problem(&mut self, problem: &Problem) -> Result<(), Stopped> {
        if self.recovering {
            return Ok(());
        }
        self.recovering = true;
        match *problem {
            Problem::Mismatch(expected) => {
                let message = format!("mismatched input {} expecting {expected}", self.display_token(self.at));
                self.report_at(self.at, &message)
            }
            Problem::NoAlternative { start, offending } => {
                let input = self.text_between(start, offending);
                let mut rest = input.chars();
                rest.next();
                let message = match rest.as_str() {
                    word @ ("true" | "false" | "null") => format!("mismatched input '{word}' expecting IDENTIFIER"),
                    _ => format!("no viable alternative at input '{}'", escape(&input)),
                };
                self.report_at(offending, &message)
            }
        }
    }

    fn recover(&mut self) -> Result<(), Stopped> {
        self.count_recovery()?;
        let mut skipped = 0;
        if self.last_error == Some(self.at) && self.error_states & (1 << self.state) != 0 {
            self.consume();
            skipped += 1;
        }
        self.last_error = Some(self.at);
        self.error_states |= 1 << self.state;
        let until = self.recovery_set();
        while !until.contains(self.peek(0)?) && self.peek(0)? != Kind::End {
            if skipped >= MAXIMUM_SKIPPED {
                let message = format!("error recovery token lookahead limit exceeded: {MAXIMUM_SKIPPED}");
                self.errors.report(Location::NONE, message);
                return Err(Stopped);
            }
            skipped += 1;
            self.consume();
        }
        Ok(())
    }

    fn count_recovery(&mut self) -> Result<(), Stopped> {
        if self.recoveries == MAXIMUM_RECOVERIES {
            let message = format!("error recovery attempt limit exceeded: {MAXIMUM_RECOVERIES}");
            self.report_at(self.at, &message)?;
            return Err(Stopped);
        }
        self.recoveries += 1;
        Ok(())
    }

    fn report_at(&mut self, token: usize, message: &str) -> Result<(), Stopped> {
        let offset = self.tokens[token].offset;
        self.syntax_error(offset, message)
    }

    fn syntax_error(&mut self, offset: u32, message: &str) -> Result<(), Stopped> {
        let location = match self.source.is_empty() {
            true => Location { line: 1, column: -1 },
            false => self.source.location(offset),
        };
        if self.reports < MAXIMUM_REPORTS {
            self.reports += 1;
            self.errors.report(location, format!("Syntax error: {message}"));
            return Ok(());
        }
        self.errors.report(location, format!("Syntax error: More than {MAXIMUM_REPORTS} syntax errors"));
        Err(Stopped)
    }

    fn display_token(&self, token: usize) -> String {
        let Token { kind, start, end, .. } = self.tokens[token];
        let text = if kind == Kind::End { "<EOF>" } else { &self.source.text()[start..end] };
        format!("'{}'", escape(text))
    }

    /// Returns the text between two tokens, including white space but without lexical errors.
    fn text_between(&self, start: usize, end: usize) -> String {
        if self.tokens[start].kind == Kind::End {
            return "<EOF>".to_owned();
        }
        let text = self.source.text();
        let mut from = self.tokens[start].start;
        let mut between = String::new();
        for error in self.lexical.iter().filter(|error| error.token > start && error.token <= end) {
            between.push_str(&text[from..error.start]);
            from = error.end;
        }
        between.push_str(&text[from..self.tokens[end].end]);
        between
    }
}

fn escape(text: &str) -> String {
    text.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}
