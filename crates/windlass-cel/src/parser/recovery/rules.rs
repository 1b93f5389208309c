//! The rules of the grammar, each a function that reads it, in the order of the grammar.
//!
//! Every place where something may go wrong has a number; recovery remembers at which of them it was.

use super::set::Set;
use super::{Halt, Problem, Recovery, State, Step, Stopped};
use crate::parser::token::Kind;
use crate::parser::tree::{MapEntry, MessageField, Name, Node, NodeId, TokenId};

/// How many rules there are.
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

/// Nothing but the end of the rule.
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
/// What a primary begins with.
const PRIMARIES: Set = LITERALS.union(Set::of(&[
    Kind::LeftBracket,
    Kind::LeftBrace,
    Kind::LeftParen,
    Kind::Dot,
    Kind::Identifier,
]));
/// What an expression begins with.
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
/// What a suffix begins with.
const SUFFIXES: Set = Set::of(&[Kind::Dot, Kind::LeftBracket]);
const COMMA_OR_END: Set = Set::of(&[Kind::Comma]).or_end_of_rule();

impl Recovery<'_> {
    /// Calls a rule after which some tokens may follow within the caller.
    fn call<T>(&mut self, follow: Set, rule: impl FnOnce(&mut Self) -> Result<T, Stopped>) -> Result<T, Stopped> {
        self.follows.push(follow);
        let result = rule(self);
        self.follows.pop();
        result
    }

    fn missing(&mut self) -> NodeId {
        self.node(Node::Missing)
    }

    /// There is no alternative for what comes, up to some tokens ahead.
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

    /// Whether a minus is an operator rather than the sign of a number.
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

    fn member(&mut self) -> Result<NodeId, Stopped> {
        self.enter(MEMBER)?;
        let start = self.at as TokenId;
        let mut node = self.call(SUFFIXES.or_end_of_rule(), Self::primary)?;
        let outcome = self.suffixes(start, &mut node);
        self.leave(MEMBER, outcome)?;
        Ok(node)
    }

    fn suffixes(&mut self, start: TokenId, node: &mut NodeId) -> Step<()> {
        loop {
            self.synchronize_back(State { id: 13, next: SUFFIXES.or_end_of_rule() })?;
            let operand = *node;
            match self.peek(0)? {
                Kind::LeftBracket => self.index(start, operand, node)?,
                Kind::Dot => {
                    self.state = 14;
                    match self.peek(1)? {
                        Kind::Identifier if self.peek(2)? == Kind::LeftParen => self.member_call(start, operand, node)?,
                        Kind::Identifier | Kind::QuotedIdentifier | Kind::Question => {
                            self.select(start, operand, node)?;
                        }
                        _ => return self.no_alternative(1),
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    fn select(&mut self, start: TokenId, operand: NodeId, node: &mut NodeId) -> Step<()> {
        let dot = Some(self.expect(Kind::Dot, 15, OPTIONAL_NAMES)?);
        let question = match self.peek(0)? {
            Kind::Question => Some(self.expect(Kind::Question, 16, NAMES)?),
            _ => None,
        };
        let field = Some(self.call(SUFFIXES.or_end_of_rule(), Self::escape_ident)?);
        *node = self.node(Node::Select { start, operand, dot, question, field });
        Ok(())
    }

    fn member_call(&mut self, start: TokenId, operand: NodeId, node: &mut NodeId) -> Step<()> {
        self.expect(Kind::Dot, 17, NAMES)?;
        let name = Some(self.expect(Kind::Identifier, 18, RULE_END)?);
        let open = Some(self.expect(Kind::LeftParen, 19, RULE_END)?);
        let mut arguments = Vec::new();
        let outcome = self.arguments([20, 21], SUFFIXES.or_end_of_rule(), &mut arguments);
        *node = self.node(Node::MemberCall { start, operand, name, open, arguments });
        outcome
    }

    fn arguments(&mut self, ids: [u8; 2], after: Set, arguments: &mut Vec<NodeId>) -> Step<()> {
        let close = Set::of(&[Kind::RightParen]);
        self.synchronize(State { id: ids[0], next: EXPRESSIONS.union(close) })?;
        if EXPRESSIONS.contains(self.peek(0)?) {
            *arguments = self.call(close, Self::expr_list)?;
        }
        self.expect(Kind::RightParen, ids[1], after)?;
        Ok(())
    }

    fn index(&mut self, start: TokenId, operand: NodeId, node: &mut NodeId) -> Step<()> {
        let open = Some(self.expect(Kind::LeftBracket, 22, OPTIONAL_EXPRESSIONS)?);
        let synchronized = self.synchronize(State { id: 23, next: OPTIONAL_EXPRESSIONS });
        if synchronized.is_err() {
            let index = self.missing();
            *node = self.node(Node::Index { start, operand, open, question: None, index });
            return synchronized;
        }
        let question = match self.peek(0)? {
            Kind::Question => Some(self.expect(Kind::Question, 24, EXPRESSIONS)?),
            _ => None,
        };
        let index = self.call(Set::of(&[Kind::RightBracket]), Self::expr)?;
        *node = self.node(Node::Index { start, operand, open, question, index });
        self.expect(Kind::RightBracket, 25, SUFFIXES.or_end_of_rule())?;
        Ok(())
    }

    fn primary(&mut self) -> Result<NodeId, Stopped> {
        self.enter(PRIMARY)?;
        let start = self.at as TokenId;
        let mut node = self.missing();
        let outcome = self.primary_alternatives(start, &mut node);
        self.leave(PRIMARY, outcome)?;
        Ok(node)
    }

    fn primary_alternatives(&mut self, start: TokenId, node: &mut NodeId) -> Step<()> {
        self.synchronize(State { id: 26, next: PRIMARIES })?;
        match self.peek(0)? {
            Kind::Identifier => self.named(start, 0, node),
            Kind::Dot if self.peek(1)? == Kind::Identifier => self.named(start, 1, node),
            Kind::Dot => self.no_alternative(1),
            Kind::LeftParen => {
                self.expect(Kind::LeftParen, 27, EXPRESSIONS)?;
                *node = self.call(Set::of(&[Kind::RightParen]), Self::expr)?;
                self.expect(Kind::RightParen, 28, RULE_END).map(drop)
            }
            Kind::LeftBracket => self.list(node),
            Kind::LeftBrace => self.map(node),
            next if LITERALS.contains(next) => {
                *node = self.call(RULE_END, Self::literal)?;
                Ok(())
            }
            _ => self.no_alternative(0),
        }
    }

    /// A name, a call or a message, after some dots (none or one).
    fn named(&mut self, start: TokenId, dots: usize, node: &mut NodeId) -> Step<()> {
        let mut ahead = dots + 1;
        while self.peek(ahead)? == Kind::Dot && self.peek(ahead + 1)? == Kind::Identifier {
            ahead += 2;
        }
        let is_message = self.peek(ahead)? == Kind::LeftBrace;
        let dot = dots > 0;
        if dot {
            self.expect(Kind::Dot, 29, NAMES)?;
        }
        if is_message {
            return self.message(start, dot, node);
        }
        let name = Some(self.expect(Kind::Identifier, 30, RULE_END)?);
        if self.peek(0)? != Kind::LeftParen {
            *node = self.node(Node::Ident { start, dot, name });
            return Ok(());
        }
        let open = Some(self.expect(Kind::LeftParen, 31, RULE_END)?);
        let mut arguments = Vec::new();
        let outcome = self.arguments([32, 33], RULE_END, &mut arguments);
        *node = self.node(Node::Call { start, dot, name, open, arguments });
        outcome
    }

    fn list(&mut self, node: &mut NodeId) -> Step<()> {
        let open = Some(self.expect(Kind::LeftBracket, 34, RULE_END)?);
        let mut elements = Vec::new();
        let outcome = self.enclosed(Kind::RightBracket, [35, 36, 37], OPTIONAL_EXPRESSIONS, |recovery| {
            recovery.list_init(&mut elements)
        });
        *node = self.node(Node::List { open, elements });
        outcome
    }

    fn map(&mut self, node: &mut NodeId) -> Step<()> {
        let open = Some(self.expect(Kind::LeftBrace, 38, RULE_END)?);
        let mut entries = Vec::new();
        let outcome = self.enclosed(Kind::RightBrace, [39, 40, 41], OPTIONAL_EXPRESSIONS, |recovery| {
            recovery.map_init(&mut entries)
        });
        *node = self.node(Node::Map { open, entries });
        outcome
    }

    fn message(&mut self, start: TokenId, dot: bool, node: &mut NodeId) -> Step<()> {
        let mut names = vec![self.expect(Kind::Identifier, 42, RULE_END)?];
        while self.peek(0)? == Kind::Dot {
            self.expect(Kind::Dot, 43, NAMES)?;
            names.push(self.expect(Kind::Identifier, 44, RULE_END)?);
        }
        let open = Some(self.expect(Kind::LeftBrace, 45, RULE_END)?);
        let mut fields = Vec::new();
        let outcome = self.enclosed(Kind::RightBrace, [46, 47, 48], OPTIONAL_NAMES, |recovery| {
            recovery.field_init(&mut fields)
        });
        *node = self.node(Node::Message { dot, names, open, start, fields });
        outcome
    }

    /// What is between brackets: elements, perhaps a comma, and the bracket that closes.
    fn enclosed(
        &mut self,
        close: Kind,
        ids: [u8; 3],
        first: Set,
        inner: impl FnOnce(&mut Self) -> Result<(), Stopped>,
    ) -> Step<()> {
        let last = Set::of(&[Kind::Comma, close]);
        self.synchronize(State { id: ids[0], next: first.union(last) })?;
        if first.contains(self.peek(0)?) {
            self.call(last, inner)?;
        }
        self.synchronize(State { id: ids[1], next: last })?;
        if self.peek(0)? == Kind::Comma {
            self.expect(Kind::Comma, 49, Set::of(&[close]))?;
        }
        self.expect(close, ids[2], RULE_END)?;
        Ok(())
    }

    fn expr_list(&mut self) -> Result<Vec<NodeId>, Stopped> {
        self.enter(EXPR_LIST)?;
        let mut elements = vec![self.call(COMMA_OR_END, Self::expr)?];
        while self.peek(0)? == Kind::Comma {
            self.state = 50;
            self.matched();
            self.consume();
            elements.push(self.call(COMMA_OR_END, Self::expr)?);
        }
        self.leave(EXPR_LIST, Ok(()))?;
        Ok(elements)
    }

    fn list_init(&mut self, elements: &mut Vec<(Option<TokenId>, NodeId)>) -> Result<(), Stopped> {
        self.enter(LIST_INIT)?;
        loop {
            elements.push(self.call(COMMA_OR_END, Self::opt_expr)?);
            if !self.goes_on(OPTIONAL_EXPRESSIONS)? {
                break;
            }
        }
        self.leave(LIST_INIT, Ok(()))
    }

    /// Whether a comma comes and then another element; the comma is read.
    fn goes_on(&mut self, first: Set) -> Result<bool, Stopped> {
        if self.peek(0)? != Kind::Comma || !first.contains(self.peek(1)?) {
            return Ok(false);
        }
        self.state = 51;
        self.matched();
        self.consume();
        Ok(true)
    }

    fn field_init(&mut self, fields: &mut Vec<MessageField>) -> Result<(), Stopped> {
        self.enter(FIELD_INIT)?;
        let outcome = loop {
            let (question, name) = self.call(Set::of(&[Kind::Colon]), Self::opt_field)?;
            let colon = match self.expect(Kind::Colon, 52, EXPRESSIONS) {
                Ok(colon) => colon,
                Err(halt) => break Err(halt),
            };
            let value = self.call(COMMA_OR_END, Self::expr)?;
            fields.push(MessageField { question, name, colon, value });
            if !self.goes_on(OPTIONAL_NAMES)? {
                break Ok(());
            }
        };
        self.leave(FIELD_INIT, outcome)
    }

    fn opt_field(&mut self) -> Result<(Option<TokenId>, Name), Stopped> {
        self.enter(OPT_FIELD)?;
        let mut question = None;
        let mut name = Name { start: self.at as TokenId, token: None };
        let outcome = self.opt_field_parts(&mut question, &mut name);
        self.leave(OPT_FIELD, outcome)?;
        Ok((question, name))
    }

    fn opt_field_parts(&mut self, question: &mut Option<TokenId>, name: &mut Name) -> Step<()> {
        self.synchronize(State { id: 53, next: OPTIONAL_NAMES })?;
        if self.peek(0)? == Kind::Question {
            *question = Some(self.expect(Kind::Question, 54, NAMES)?);
        }
        *name = self.call(RULE_END, Self::escape_ident)?;
        Ok(())
    }

    fn map_init(&mut self, entries: &mut Vec<MapEntry>) -> Result<(), Stopped> {
        self.enter(MAP_INIT)?;
        let outcome = loop {
            let (question, key) = self.call(Set::of(&[Kind::Colon]), Self::opt_expr)?;
            let colon = match self.expect(Kind::Colon, 55, EXPRESSIONS) {
                Ok(colon) => colon,
                Err(halt) => break Err(halt),
            };
            let value = self.call(COMMA_OR_END, Self::expr)?;
            entries.push(MapEntry { question, key, colon, value });
            if !self.goes_on(OPTIONAL_EXPRESSIONS)? {
                break Ok(());
            }
        };
        self.leave(MAP_INIT, outcome)
    }

    fn escape_ident(&mut self) -> Result<Name, Stopped> {
        self.enter(ESCAPE_IDENT)?;
        let mut name = Name { start: self.at as TokenId, token: None };
        let outcome = self.escape_ident_alternatives(&mut name);
        self.leave(ESCAPE_IDENT, outcome)?;
        Ok(name)
    }

    fn escape_ident_alternatives(&mut self, name: &mut Name) -> Step<()> {
        self.synchronize(State { id: 56, next: NAMES })?;
        match self.peek(0)? {
            kind @ (Kind::Identifier | Kind::QuotedIdentifier) => {
                name.token = Some(self.expect(kind, 57, RULE_END)?);
                Ok(())
            }
            _ => self.no_alternative(0),
        }
    }

    fn opt_expr(&mut self) -> Result<(Option<TokenId>, NodeId), Stopped> {
        self.enter(OPT_EXPR)?;
        let mut question = None;
        let mut node = self.missing();
        let outcome = self.opt_expr_parts(&mut question, &mut node);
        self.leave(OPT_EXPR, outcome)?;
        Ok((question, node))
    }

    fn opt_expr_parts(&mut self, question: &mut Option<TokenId>, node: &mut NodeId) -> Step<()> {
        self.synchronize(State { id: 58, next: OPTIONAL_EXPRESSIONS })?;
        if self.peek(0)? == Kind::Question {
            *question = Some(self.expect(Kind::Question, 59, EXPRESSIONS)?);
        }
        *node = self.call(RULE_END, Self::expr)?;
        Ok(())
    }

    fn literal(&mut self) -> Result<NodeId, Stopped> {
        self.enter(LITERAL)?;
        let mut node = self.missing();
        let outcome = self.literal_alternatives(&mut node);
        self.leave(LITERAL, outcome)?;
        Ok(node)
    }

    fn literal_alternatives(&mut self, node: &mut NodeId) -> Step<()> {
        self.state = 60;
        let sign = match self.peek(0)? {
            Kind::Minus if !matches!(self.peek(1)?, Kind::Int | Kind::Float) => return self.no_alternative(1),
            Kind::Minus => Some(self.expect(Kind::Minus, 61, LITERALS)?),
            _ => None,
        };
        let kind = self.peek(0)?;
        let token = self.expect(kind, 62, RULE_END)?;
        *node = self.node(Node::Literal { sign, token });
        Ok(())
    }
}
