//! The grammar rules in order, one function per rule.
//!
//! Every position where an error can occur has a number; recovery records these positions.

use super::set::Set;
use super::{Halt, Problem, Recovery, State, Step, Stopped};
use crate::parser::token::Kind;
use crate::parser::tree::{Node, NodeId, TokenId};

mod aggregates;
mod members;

/// Number of rules.
pub(super) const COUNT: usize = 17;

const START: usize = 0;
const EXPR: usize = 1;
const CONDITIONAL_OR: usize = 2;
const CONDITIONAL_AND: usize = 3;
const RELATION: usize = 4;
const CALC: usize = 5;
const UNARY: usize = 6;
const MEMBER: usize = 7;
const PRIMARY: usize = 8;
const EXPR_LIST: usize = 9;
const LIST_INIT: usize = 10;
const FIELD_INIT: usize = 11;
const OPT_FIELD: usize = 12;
const MAP_INIT: usize = 13;
const ESCAPE_IDENT: usize = 14;
const OPT_EXPR: usize = 15;
const LITERAL: usize = 16;

/// Only the end of the rule.
const RULE_END: Set = Set::of(&[]).or_end_of_rule();
const LITERALS: Set = Set::of(&[
    Kind::Minus,
    Kind::True,
    Kind::False,
    Kind::Null,
    Kind::Float,
    Kind::Int,
    Kind::Uint,
    Kind::String,
    Kind::Bytes,
]);
/// Tokens that start a primary.
const PRIMARIES: Set =
    LITERALS.union(Set::of(&[Kind::LeftBracket, Kind::LeftBrace, Kind::LeftParen, Kind::Dot, Kind::Identifier]));
/// Tokens that start an expression.
const EXPRESSIONS: Set = PRIMARIES.union(Set::of(&[Kind::Exclamation]));
const OPTIONAL_EXPRESSIONS: Set = EXPRESSIONS.union(Set::of(&[Kind::Question]));
const NAMES: Set = Set::of(&[Kind::Identifier, Kind::QuotedIdentifier]);
const OPTIONAL_NAMES: Set = NAMES.union(Set::of(&[Kind::Question]));
const RELATIONS: Set = Set::of(&[
    Kind::Equals,
    Kind::NotEquals,
    Kind::In,
    Kind::Less,
    Kind::LessEquals,
    Kind::GreaterEquals,
    Kind::Greater,
]);
const PRODUCTS: Set = Set::of(&[Kind::Star, Kind::Slash, Kind::Percent]);
const SUMS: Set = Set::of(&[Kind::Plus, Kind::Minus]);
/// Tokens that start a suffix.
const SUFFIXES: Set = Set::of(&[Kind::Dot, Kind::LeftBracket]);
const COMMA_OR_END: Set = Set::of(&[Kind::Comma]).or_end_of_rule();

impl Recovery<'_> {
    /// Calls a rule that some tokens may follow within the caller.
    fn call<T>(&mut self, follow: Set, rule: impl FnOnce(&mut Self) -> Result<T, Stopped>) -> Result<T, Stopped> {
        self.follows.push(follow);
        let result = rule(self);
        self.follows.pop();
        result
    }

    fn missing(&mut self) -> NodeId {
        self.node(Node::Missing)
    }

    /// Reports that no alternative matches the tokens up to some tokens ahead.
    fn no_alternative<T>(&self, ahead: usize) -> Step<T> {
        let offending = (self.at + ahead).min(self.tokens.len() - 1);
        Err(Halt::Problem(Problem::NoAlternative { start: self.at, offending }))
    }

    pub(super) fn start(&mut self) -> Result<NodeId, Stopped> {
        self.enter(START)?;
        let root = self.call(Set::of(&[Kind::End]), Self::expr)?;
        let outcome = self.expect(Kind::End, 0, RULE_END).map(drop);
        self.leave(START, outcome)?;
        Ok(root)
    }

    fn expr(&mut self) -> Result<NodeId, Stopped> {
        self.enter(EXPR)?;
        let mut node = self.call(Set::of(&[Kind::Question]).or_end_of_rule(), Self::conditional_or)?;
        let outcome = self.ternary(&mut node);
        self.leave(EXPR, outcome)?;
        Ok(node)
    }

    fn ternary(&mut self, node: &mut NodeId) -> Step<()> {
        self.synchronize(State { id: 1, next: Set::of(&[Kind::Question]).or_end_of_rule() })?;
        if self.peek(0)? != Kind::Question {
            return Ok(());
        }
        let question = self.expect(Kind::Question, 2, EXPRESSIONS)?;
        let condition = *node;
        let yes = self.call(Set::of(&[Kind::Colon]), Self::conditional_or)?;
        let no = self.missing();
        *node = self.node(Node::Ternary { condition, question, yes, no });
        self.expect(Kind::Colon, 3, EXPRESSIONS)?;
        let no = self.call(RULE_END, Self::expr)?;
        *node = self.node(Node::Ternary { condition, question, yes, no });
        Ok(())
    }

    fn conditional_or(&mut self) -> Result<NodeId, Stopped> {
        self.logic(CONDITIONAL_OR)
    }

    fn conditional_and(&mut self) -> Result<NodeId, Stopped> {
        self.logic(CONDITIONAL_AND)
    }

    fn logic(&mut self, rule: usize) -> Result<NodeId, Stopped> {
        let any = rule == CONDITIONAL_OR;
        self.enter(rule)?;
        let start = self.at as TokenId;
        let mut operators = Vec::new();
        let mut terms = Vec::new();
        let outcome = self.logic_terms(any, &mut operators, &mut terms);
        self.leave(rule, outcome)?;
        match terms.as_slice() {
            [only] if operators.is_empty() => Ok(*only),
            [] => Ok(self.missing()),
            _ => Ok(self.node(Node::Logic { any, start, operators, terms })),
        }
    }

    fn logic_terms(&mut self, any: bool, operators: &mut Vec<TokenId>, terms: &mut Vec<NodeId>) -> Step<()> {
        let operator = if any { Kind::Or } else { Kind::And };
        let follow = Set::of(&[operator]).or_end_of_rule();
        loop {
            let term = match any {
                true => self.call(follow, Self::conditional_and)?,
                false => self.call(follow, |recovery| recovery.relation(0))?,
            };
            terms.push(term);
            self.synchronize_back(State { id: if any { 4 } else { 5 }, next: follow })?;
            if self.peek(0)? != operator {
                return Ok(());
            }
            operators.push(self.expect(operator, if any { 6 } else { 7 }, EXPRESSIONS)?);
        }
    }

    fn relation(&mut self, precedence: u8) -> Result<NodeId, Stopped> {
        self.enter(RELATION)?;
        let follow = RELATIONS.or_end_of_rule();
        let mut left = self.call(follow, |recovery| recovery.calc(0))?;
        loop {
            self.synchronize_back(State { id: 8, next: follow })?;
            if precedence > 1 || !RELATIONS.contains(self.peek(0)?) {
                break;
            }
            let operator = self.at as TokenId;
            self.matched();
            self.consume();
            let right = self.call(follow, |recovery| recovery.relation(2))?;
            left = self.node(Node::Binary { operator, left, right });
        }
        self.leave(RELATION, Ok(()))?;
        Ok(left)
    }

    fn calc(&mut self, precedence: u8) -> Result<NodeId, Stopped> {
        self.enter(CALC)?;
        let follow = PRODUCTS.union(SUMS).or_end_of_rule();
        let mut left = self.call(follow, Self::unary)?;
        loop {
            self.synchronize_back(State { id: 9, next: follow })?;
            let next = self.peek(0)?;
            let level = if PRODUCTS.contains(next) { 2 } else { 1 };
            if !follow.contains(next) || level < precedence {
                break;
            }
            let operator = self.at as TokenId;
            self.matched();
            self.consume();
            let right = self.call(follow, |recovery| recovery.calc(level + 1))?;
            left = self.node(Node::Binary { operator, left, right });
        }
        self.leave(CALC, Ok(()))?;
        Ok(left)
    }

    fn unary(&mut self) -> Result<NodeId, Stopped> {
        self.enter(UNARY)?;
        let mut node = None;
        let start = self.at as TokenId;
        let outcome = self.unary_alternatives(&mut node);
        self.leave(UNARY, outcome)?;
        Ok(match node {
            Some(node) => node,
            None => self.node(Node::Unreadable(start)),
        })
    }

    fn unary_alternatives(&mut self, node: &mut Option<NodeId>) -> Step<()> {
        self.synchronize(State { id: 10, next: EXPRESSIONS })?;
        match self.peek(0)? {
            Kind::Exclamation => self.prefixed(Kind::Exclamation, node),
            Kind::Minus if self.predict_negation()? => self.prefixed(Kind::Minus, node),
            next if PRIMARIES.contains(next) => {
                *node = Some(self.call(RULE_END, Self::member)?);
                Ok(())
            }
            _ => self.no_alternative(0),
        }
    }

    /// Returns whether a minus is an operator rather than the sign of a number.
    fn predict_negation(&mut self) -> Step<bool> {
        match self.peek(1)? {
            Kind::Int | Kind::Float => Ok(false),
            next if PRIMARIES.contains(next) => Ok(true),
            _ => self.no_alternative(1),
        }
    }

    fn prefixed(&mut self, operator: Kind, node: &mut Option<NodeId>) -> Step<()> {
        let mut operators = Vec::new();
        let more = Set::of(&[operator]).union(PRIMARIES);
        let outcome = loop {
            operators.push(self.expect(operator, 11, more)?);
            self.synchronize_back(State { id: 12, next: more })?;
            let next = self.peek(0)?;
            if operator == Kind::Minus {
                if !PRIMARIES.contains(next) {
                    break self.no_alternative(0);
                }
                if next == Kind::Minus && !PRIMARIES.contains(self.peek(1)?) {
                    break self.no_alternative(1);
                }
            }
            if next != operator {
                break Ok(());
            }
        };
        let operand = match outcome {
            Ok(()) => self.call(RULE_END, Self::member)?,
            Err(_) => self.missing(),
        };
        *node = Some(self.node(Node::Prefix { operators, operand }));
        outcome
    }
}
