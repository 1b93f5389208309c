//! The parser of wrong texts: it goes on after each mistake, so that all of them are found.
//!
//! Messages and recovery are those of the parser generator that the reference implementation uses (ANTLR): what was
//! expected at a place, one token left out or made up, tokens skipped until something that may follow. Clients see these
//! messages, so decisions are taken in the same order and with the same lookahead. The rules of the grammar are in
//! `rules`.

use super::descent::MAXIMUM_DEPTH;
use super::token::{Kind, LexicalError, Token};
use super::tree::{Node, NodeId, TokenId};
use crate::source::{Errors, Location, Source};
use set::Set;

mod rules;
mod set;

/// How often the parser may recover.
const MAXIMUM_RECOVERIES: usize = 30;
/// How many tokens one recovery may skip.
const MAXIMUM_SKIPPED: usize = 256;
/// How many errors of syntax are reported.
const MAXIMUM_REPORTS: usize = 100;

/// There is no point in going on; errors say why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopped;

/// Why a rule ends before its end.
enum Halt {
    /// Something is wrong here; what calls the rule goes on.
    Problem(Problem),
    /// Nothing goes on.
    Stopped,
}

enum Problem {
    /// Another token was expected.
    Mismatch(Set),
    /// No alternative of a rule begins like the tokens from one to another.
    NoAlternative { start: usize, offending: usize },
}

/// A place in a rule: a number of its own, and the tokens that may come next within the rule.
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

/// A parser that recovers.
pub(super) struct Recovery<'a> {
    source: &'a Source,
    tokens: &'a [Token],
    lexical: &'a [LexicalError],
    errors: &'a mut Errors,
    at: usize,
    nodes: Vec<Node>,
    /// What may follow each rule within the rule that called it, the innermost last.
    follows: Vec<Set>,
    depths: [u32; rules::COUNT],
    /// The place that is being read.
    state: u8,
    /// Whether nothing was matched since the last error: further ones are not reported.
    recovering: bool,
    last_error: Option<usize>,
    error_states: u128,
    recoveries: usize,
    reports: usize,
    /// How many lexical errors were reported.
    seen: usize,
}

impl<'a> Recovery<'a> {
    /// A parser of tokens and what was skipped between them.
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

    /// Reads everything, reports what is wrong, and gives what could be made of it.
    pub(super) fn parse(mut self) -> Result<(Vec<Node>, NodeId), Stopped> {
        let root = self.start()?;
        Ok((self.nodes, root))
    }

    fn node(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() as NodeId - 1
    }

    /// The kind of a token ahead; mistakes in the text up to it are reported.
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

    /// Reads a token of a kind, at a place, after which other tokens may come.
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

    /// Before the alternatives of a block: one wrong token is left out, or the rule ends.
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

    /// After one iteration of a loop: tokens are skipped until something that may come next or later.
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

    /// Leaves out the current token if the next one is expected.
    fn delete_token(&mut self, expected: Set) -> Result<bool, Stopped> {
        if !expected.contains(self.peek(1)?) {
            return Ok(false);
        }
        self.report_unwanted(expected)?;
        self.consume();
        self.matched();
        Ok(true)
    }

    /// What may come next in the whole text, given what may come next within the rule.
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

    /// What may follow any of the rules being read.
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

    /// Ends a rule: if there was a problem, it is reported and tokens are skipped until something may follow.
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

    /// The text from one token to another, blanks included, what is no token left out.
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
