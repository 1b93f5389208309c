//! Names, literals, calls and the selections after them.

use super::{
    COMMA_OR_END, ESCAPE_IDENT, EXPR_LIST, EXPRESSIONS, LITERAL, LITERALS, MEMBER, NAMES, OPTIONAL_EXPRESSIONS,
    OPTIONAL_NAMES, PRIMARIES, PRIMARY, RULE_END, SUFFIXES,
};
use crate::parser::recovery::set::Set;
use crate::parser::recovery::{Recovery, State, Step, Stopped};
use crate::parser::token::Kind;
use crate::parser::tree::{Name, Node, NodeId, TokenId};

impl Recovery<'_> {
    pub(super) fn member(&mut self) -> Result<NodeId, Stopped> {
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
                        Kind::Identifier if self.peek(2)? == Kind::LeftParen => {
                            self.member_call(start, operand, node)?
                        }
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

    /// Parses a name, a call or a message after an optional dot.
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

    pub(super) fn escape_ident(&mut self) -> Result<Name, Stopped> {
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
