//! Lists, maps and messages.

use super::{
    COMMA_OR_END, EXPRESSIONS, FIELD_INIT, LIST_INIT, MAP_INIT, NAMES, OPT_EXPR, OPT_FIELD, OPTIONAL_EXPRESSIONS,
    OPTIONAL_NAMES, RULE_END,
};
use crate::parser::recovery::set::Set;
use crate::parser::recovery::{Recovery, State, Step, Stopped};
use crate::parser::token::Kind;
use crate::parser::tree::{MapEntry, MessageField, Name, Node, NodeId, TokenId};

impl Recovery<'_> {
    pub(super) fn list(&mut self, node: &mut NodeId) -> Step<()> {
        let open = Some(self.expect(Kind::LeftBracket, 34, RULE_END)?);
        let mut elements = Vec::new();
        let outcome = self.enclosed(Kind::RightBracket, [35, 36, 37], OPTIONAL_EXPRESSIONS, |recovery| {
            recovery.list_init(&mut elements)
        });
        *node = self.node(Node::List { open, elements });
        outcome
    }

    pub(super) fn map(&mut self, node: &mut NodeId) -> Step<()> {
        let open = Some(self.expect(Kind::LeftBrace, 38, RULE_END)?);
        let mut entries = Vec::new();
        let outcome = self
            .enclosed(Kind::RightBrace, [39, 40, 41], OPTIONAL_EXPRESSIONS, |recovery| recovery.map_init(&mut entries));
        *node = self.node(Node::Map { open, entries });
        outcome
    }

    pub(super) fn message(&mut self, start: TokenId, dot: bool, node: &mut NodeId) -> Step<()> {
        let mut names = vec![self.expect(Kind::Identifier, 42, RULE_END)?];
        while self.peek(0)? == Kind::Dot {
            self.expect(Kind::Dot, 43, NAMES)?;
            names.push(self.expect(Kind::Identifier, 44, RULE_END)?);
        }
        let open = Some(self.expect(Kind::LeftBrace, 45, RULE_END)?);
        let mut fields = Vec::new();
        let outcome =
            self.enclosed(Kind::RightBrace, [46, 47, 48], OPTIONAL_NAMES, |recovery| recovery.field_init(&mut fields));
        *node = self.node(Node::Message { dot, names, open, start, fields });
        outcome
    }

    /// Parses the content of brackets: elements, an optional trailing comma, and the closing bracket.
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

    fn list_init(&mut self, elements: &mut Vec<(Option<TokenId>, NodeId)>) -> Result<(), Stopped> {
        self.enter(LIST_INIT)?;
        loop {
            elements.push(self.call(COMMA_OR_END, Self::opt_expr)?);
            if !self.continues(OPTIONAL_EXPRESSIONS)? {
                break;
            }
        }
        self.leave(LIST_INIT, Ok(()))
    }

    /// Returns whether a comma and another element follow; consumes the comma.
    fn continues(&mut self, first: Set) -> Result<bool, Stopped> {
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
            if !self.continues(OPTIONAL_NAMES)? {
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
            if !self.continues(OPTIONAL_EXPRESSIONS)? {
                break Ok(());
            }
        };
        self.leave(MAP_INIT, outcome)
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
}
