//! Parser for valid strings: recursive descent in one pass, without recovery.
//!
//! It only detects *that* a string is invalid; `recovery` describes the errors.

use super::token::{Kind, Token};
use super::tree::{MapEntry, MessageField, Name, Node, NodeId, TokenId};

/// Maximum recursion depth of a grammar rule.
pub(super) const MAXIMUM_DEPTH: u32 = 250;

struct Descent<'a> {
    tokens: &'a [Token],
    at: usize,
    nodes: Vec<Node>,
    expressions: u32,
    relations: u32,
    sums: u32,
}

/// Returns the nodes of a string and the root; `None` if it is not an expression or is nested too deeply.
pub(super) fn parse(tokens: &[Token]) -> Option<(Vec<Node>, NodeId)> {
    let nodes = Vec::with_capacity(tokens.len());
    let mut descent = Descent { tokens, at: 0, nodes, expressions: 0, relations: 0, sums: 0 };
    let root = descent.expression()?;
    (descent.peek() == Kind::End).then_some((descent.nodes, root))
}

fn entered(depth: &mut u32) -> Option<()> {
    *depth += 1;
    (*depth <= MAXIMUM_DEPTH).then_some(())
}

impl Descent<'_> {
    fn peek(&self) -> Kind {
        self.tokens[self.at].kind
    }

    fn peek_at(&self, ahead: usize) -> Kind {
        self.tokens.get(self.at + ahead).map_or(Kind::End, |token| token.kind)
    }

    fn advance(&mut self) -> TokenId {
        self.at += 1;
        self.at as TokenId - 1
    }

    fn accept(&mut self, kind: Kind) -> Option<TokenId> {
        (self.peek() == kind).then(|| self.advance())
    }

    fn node(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() as NodeId - 1
    }

    fn expression(&mut self) -> Option<NodeId> {
        entered(&mut self.expressions)?;
        let condition = self.logic(true)?;
        let node = match self.accept(Kind::Question) {
            None => condition,
            Some(question) => {
                let yes = self.logic(true)?;
                self.accept(Kind::Colon)?;
                let no = self.expression()?;
                self.node(Node::Ternary { condition, question, yes, no })
            }
        };
        self.expressions -= 1;
        Some(node)
    }

    fn logic(&mut self, any: bool) -> Option<NodeId> {
        let start = self.at as TokenId;
        let first = if any { self.logic(false)? } else { self.relation(1)? };
        let operator = if any { Kind::Or } else { Kind::And };
        if self.peek() != operator {
            return Some(first);
        }
        let mut operators = Vec::new();
        let mut terms = vec![first];
        while let Some(token) = self.accept(operator) {
            operators.push(token);
            let term = if any { self.logic(false)? } else { self.relation(1)? };
            terms.push(term);
        }
        Some(self.node(Node::Logic { any, start, operators, terms }))
    }

    fn relation(&mut self, precedence: u8) -> Option<NodeId> {
        entered(&mut self.relations)?;
        let mut left = self.sum(1)?;
        while precedence <= 1 && is_relation(self.peek()) {
            let operator = self.advance();
            let right = self.relation(2)?;
            left = self.node(Node::Binary { operator, left, right });
        }
        self.relations -= 1;
        Some(left)
    }

    fn sum(&mut self, precedence: u8) -> Option<NodeId> {
        entered(&mut self.sums)?;
        let mut left = self.unary()?;
        loop {
            let level = match self.peek() {
                Kind::Star | Kind::Slash | Kind::Percent => 2,
                Kind::Plus | Kind::Minus => 1,
                _ => break,
            };
            if level < precedence {
                break;
            }
            let operator = self.advance();
            let right = self.sum(level + 1)?;
            left = self.node(Node::Binary { operator, left, right });
        }
        self.sums -= 1;
        Some(left)
    }

    fn unary(&mut self) -> Option<NodeId> {
        let kind = self.peek();
        let is_prefix = kind == Kind::Exclamation || (kind == Kind::Minus && !self.at_negative_number());
        if !is_prefix {
            return self.member();
        }
        let mut operators = Vec::new();
        while let Some(operator) = self.accept(kind) {
            operators.push(operator);
        }
        let operand = self.member()?;
        Some(self.node(Node::Prefix { operators, operand }))
    }

    fn at_negative_number(&self) -> bool {
        self.peek() == Kind::Minus && matches!(self.peek_at(1), Kind::Int | Kind::Float)
    }

    fn member(&mut self) -> Option<NodeId> {
        let start = self.at as TokenId;
        let mut operand = self.primary()?;
        loop {
            operand = match self.peek() {
                Kind::Dot if self.peek_at(1) == Kind::Identifier && self.peek_at(2) == Kind::LeftParen => {
                    self.advance();
                    let name = Some(self.advance());
                    let open = Some(self.advance());
                    let arguments = self.arguments()?;
                    self.node(Node::MemberCall { start, operand, name, open, arguments })
                }
                Kind::Dot => {
                    let dot = Some(self.advance());
                    let question = self.accept(Kind::Question);
                    let field = Some(self.name()?);
                    self.node(Node::Select { start, operand, dot, question, field })
                }
                Kind::LeftBracket => {
                    let open = Some(self.advance());
                    let question = self.accept(Kind::Question);
                    let index = self.expression()?;
                    self.accept(Kind::RightBracket)?;
                    self.node(Node::Index { start, operand, open, question, index })
                }
                _ => return Some(operand),
            };
        }
    }

    fn name(&mut self) -> Option<Name> {
        match self.peek() {
            Kind::Identifier | Kind::QuotedIdentifier => {
                let start = self.advance();
                Some(Name { start, token: Some(start) })
            }
            _ => None,
        }
    }

    fn arguments(&mut self) -> Option<Vec<NodeId>> {
        let mut arguments = Vec::new();
        if self.accept(Kind::RightParen).is_some() {
            return Some(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if self.accept(Kind::Comma).is_none() {
                self.accept(Kind::RightParen)?;
                return Some(arguments);
            }
        }
    }

    fn primary(&mut self) -> Option<NodeId> {
        match self.peek() {
            Kind::Identifier | Kind::Dot => self.named(),
            Kind::LeftParen => {
                self.advance();
                let inner = self.expression()?;
                self.accept(Kind::RightParen)?;
                Some(inner)
            }
            Kind::LeftBracket => self.list(),
            Kind::LeftBrace => self.map(),
            Kind::Minus if self.at_negative_number() => {
                let sign = Some(self.advance());
                let token = self.advance();
                Some(self.node(Node::Literal { sign, token }))
            }
            Kind::Int
            | Kind::Uint
            | Kind::Float
            | Kind::String
            | Kind::Bytes
            | Kind::True
            | Kind::False
            | Kind::Null => {
                let token = self.advance();
                Some(self.node(Node::Literal { sign: None, token }))
            }
            _ => None,
        }
    }

    fn named(&mut self) -> Option<NodeId> {
        let start = self.at as TokenId;
        let dot = self.accept(Kind::Dot).is_some();
        let mut ahead = 1;
        while self.peek_at(ahead) == Kind::Dot && self.peek_at(ahead + 1) == Kind::Identifier {
            ahead += 2;
        }
        if self.peek_at(ahead) == Kind::LeftBrace {
            return self.message(start, dot);
        }
        let name = Some(self.accept(Kind::Identifier)?);
        match self.accept(Kind::LeftParen) {
            Some(open) => {
                let arguments = self.arguments()?;
                Some(self.node(Node::Call { start, dot, name, open: Some(open), arguments }))
            }
            None => Some(self.node(Node::Ident { start, dot, name })),
        }
    }

    fn list(&mut self) -> Option<NodeId> {
        let open = Some(self.advance());
        let mut elements = Vec::new();
        if self.accept(Kind::Comma).is_some() {
            self.accept(Kind::RightBracket)?;
        } else if self.accept(Kind::RightBracket).is_none() {
            loop {
                let question = self.accept(Kind::Question);
                elements.push((question, self.expression()?));
                if self.ended(Kind::RightBracket)? {
                    break;
                }
            }
        }
        Some(self.node(Node::List { open, elements }))
    }

    fn map(&mut self) -> Option<NodeId> {
        let open = Some(self.advance());
        let mut entries = Vec::new();
        if self.accept(Kind::Comma).is_some() {
            self.accept(Kind::RightBrace)?;
        } else if self.accept(Kind::RightBrace).is_none() {
            loop {
                let question = self.accept(Kind::Question);
                let key = self.expression()?;
                let colon = self.accept(Kind::Colon)?;
                let value = self.expression()?;
                entries.push(MapEntry { question, key, colon, value });
                if self.ended(Kind::RightBrace)? {
                    break;
                }
            }
        }
        Some(self.node(Node::Map { open, entries }))
    }

    fn message(&mut self, start: TokenId, dot: bool) -> Option<NodeId> {
        let mut names = vec![self.accept(Kind::Identifier)?];
        while self.accept(Kind::Dot).is_some() {
            names.push(self.accept(Kind::Identifier)?);
        }
        let open = Some(self.accept(Kind::LeftBrace)?);
        let mut fields = Vec::new();
        if self.accept(Kind::Comma).is_some() {
            self.accept(Kind::RightBrace)?;
        } else if self.accept(Kind::RightBrace).is_none() {
            loop {
                let question = self.accept(Kind::Question);
                let name = self.name()?;
                let colon = self.accept(Kind::Colon)?;
                let value = self.expression()?;
                fields.push(MessageField { question, name, colon, value });
                if self.ended(Kind::RightBrace)? {
                    break;
                }
            }
        }
        Some(self.node(Node::Message { dot, names, open, start, fields }))
    }

    /// Returns whether a list ends here, after an optional comma, rather than continuing after a comma.
    fn ended(&mut self, close: Kind) -> Option<bool> {
        let more = self.accept(Kind::Comma).is_some();
        if self.accept(close).is_some() {
            return Some(true);
        }
        more.then_some(false)
    }
}

fn is_relation(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Less | Kind::LessEquals | Kind::GreaterEquals | Kind::Greater | Kind::Equals | Kind::NotEquals | Kind::In
    )
}
