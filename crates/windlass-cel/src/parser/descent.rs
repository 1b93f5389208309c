//! The parser of correct texts: recursive descent, one pass, no recovery.
//!
//! It only says *that* a text is wrong; what is wrong with it is for `recovery` to tell.

use super::token::{Kind, Token};
use super::tree::{MapEntry, MessageField, Name, Node, NodeId, TokenId};

/// How often a rule of the grammar may be within itself.
pub(super) const MAXIMUM_DEPTH: u32 = 250;

/// Why there is no tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// The text is not an expression.
    Syntax,
    /// It is nested too deeply.
    TooDeep,
}

type Result<T> = std::result::Result<T, Failure>;

struct Descent<'a> {
    tokens: &'a [Token],
    at: usize,
    nodes: Vec<Node>,
    expressions: u32,
    relations: u32,
    sums: u32,
}

/// The nodes of a text and the outermost one.
pub(super) fn parse(tokens: &[Token]) -> Result<(Vec<Node>, NodeId)> {
    let nodes = Vec::with_capacity(tokens.len());
    let mut descent = Descent { tokens, at: 0, nodes, expressions: 0, relations: 0, sums: 0 };
    let root = descent.expression()?;
    if descent.peek() != Kind::End {
        return Err(Failure::Syntax);
    }
    Ok((descent.nodes, root))
}

fn entered(depth: &mut u32) -> Result<()> {
    *depth += 1;
    if *depth > MAXIMUM_DEPTH { Err(Failure::TooDeep) } else { Ok(()) }
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

    fn expect(&mut self, kind: Kind) -> Result<TokenId> {
        if self.peek() == kind { Ok(self.advance()) } else { Err(Failure::Syntax) }
    }

    fn accept(&mut self, kind: Kind) -> Option<TokenId> {
        (self.peek() == kind).then(|| self.advance())
    }

    fn node(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() as NodeId - 1
    }

    fn expression(&mut self) -> Result<NodeId> {
        entered(&mut self.expressions)?;
        let condition = self.logic(true)?;
        let node = match self.accept(Kind::Question) {
            None => condition,
            Some(question) => {
                let yes = self.logic(true)?;
                self.expect(Kind::Colon)?;
                let no = self.expression()?;
                self.node(Node::Ternary { condition, question, yes, no })
            }
        };
        self.expressions -= 1;
        Ok(node)
    }

    fn logic(&mut self, any: bool) -> Result<NodeId> {
        let start = self.at as TokenId;
        let first = if any { self.logic(false)? } else { self.relation(1)? };
        let operator = if any { Kind::Or } else { Kind::And };
        if self.peek() != operator {
            return Ok(first);
        }
        let mut operators = Vec::new();
        let mut terms = vec![first];
        while let Some(token) = self.accept(operator) {
            operators.push(token);
            let term = if any { self.logic(false)? } else { self.relation(1)? };
            terms.push(term);
        }
        Ok(self.node(Node::Logic { any, start, operators, terms }))
    }

    fn relation(&mut self, precedence: u8) -> Result<NodeId> {
        entered(&mut self.relations)?;
        let mut left = self.sum(1)?;
        while precedence <= 1 && is_relation(self.peek()) {
            let operator = self.advance();
            let right = self.relation(2)?;
            left = self.node(Node::Binary { operator, left, right });
        }
        self.relations -= 1;
        Ok(left)
    }

    fn sum(&mut self, precedence: u8) -> Result<NodeId> {
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
        Ok(left)
    }

    fn unary(&mut self) -> Result<NodeId> {
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
        Ok(self.node(Node::Prefix { operators, operand }))
    }

    fn at_negative_number(&self) -> bool {
        self.peek() == Kind::Minus && matches!(self.peek_at(1), Kind::Int | Kind::Float)
    }

    fn member(&mut self) -> Result<NodeId> {
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
                    self.expect(Kind::RightBracket)?;
                    self.node(Node::Index { start, operand, open, question, index })
                }
                _ => return Ok(operand),
            };
        }
    }

    fn name(&mut self) -> Result<Name> {
        match self.peek() {
            Kind::Identifier | Kind::QuotedIdentifier => {
                let start = self.advance();
                Ok(Name { start, token: Some(start) })
            }
            _ => Err(Failure::Syntax),
        }
    }

    fn arguments(&mut self) -> Result<Vec<NodeId>> {
        let mut arguments = Vec::new();
        if self.accept(Kind::RightParen).is_some() {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if self.accept(Kind::Comma).is_none() {
                self.expect(Kind::RightParen)?;
                return Ok(arguments);
            }
        }
    }

    fn primary(&mut self) -> Result<NodeId> {
        match self.peek() {
            Kind::Identifier | Kind::Dot => self.named(),
            Kind::LeftParen => {
                self.advance();
                let inner = self.expression()?;
                self.expect(Kind::RightParen)?;
                Ok(inner)
            }
            Kind::LeftBracket => self.list(),
            Kind::LeftBrace => self.map(),
            Kind::Minus if self.at_negative_number() => {
                let sign = Some(self.advance());
                let token = self.advance();
                Ok(self.node(Node::Literal { sign, token }))
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
                Ok(self.node(Node::Literal { sign: None, token }))
            }
            _ => Err(Failure::Syntax),
        }
    }

    fn named(&mut self) -> Result<NodeId> {
        let start = self.at as TokenId;
        let dot = self.accept(Kind::Dot).is_some();
        let mut ahead = 1;
        while self.peek_at(ahead) == Kind::Dot && self.peek_at(ahead + 1) == Kind::Identifier {
            ahead += 2;
        }
        if self.peek_at(ahead) == Kind::LeftBrace {
            return self.message(start, dot);
        }
        let name = Some(self.expect(Kind::Identifier)?);
        match self.accept(Kind::LeftParen) {
            Some(open) => {
                let arguments = self.arguments()?;
                Ok(self.node(Node::Call { start, dot, name, open: Some(open), arguments }))
            }
            None => Ok(self.node(Node::Ident { start, dot, name })),
        }
    }

    fn list(&mut self) -> Result<NodeId> {
        let open = Some(self.advance());
        let mut elements = Vec::new();
        if self.accept(Kind::Comma).is_some() {
            self.expect(Kind::RightBracket)?;
        } else if self.accept(Kind::RightBracket).is_none() {
            loop {
                let question = self.accept(Kind::Question);
                elements.push((question, self.expression()?));
                if self.ended(Kind::RightBracket)? {
                    break;
                }
            }
        }
        Ok(self.node(Node::List { open, elements }))
    }

    fn map(&mut self) -> Result<NodeId> {
        let open = Some(self.advance());
        let mut entries = Vec::new();
        if self.accept(Kind::Comma).is_some() {
            self.expect(Kind::RightBrace)?;
        } else if self.accept(Kind::RightBrace).is_none() {
            loop {
                let question = self.accept(Kind::Question);
                let key = self.expression()?;
                let colon = self.expect(Kind::Colon)?;
                let value = self.expression()?;
                entries.push(MapEntry { question, key, colon, value });
                if self.ended(Kind::RightBrace)? {
                    break;
                }
            }
        }
        Ok(self.node(Node::Map { open, entries }))
    }

    fn message(&mut self, start: TokenId, dot: bool) -> Result<NodeId> {
        let mut names = vec![self.expect(Kind::Identifier)?];
        while self.accept(Kind::Dot).is_some() {
            names.push(self.expect(Kind::Identifier)?);
        }
        let open = Some(self.expect(Kind::LeftBrace)?);
        let mut fields = Vec::new();
        if self.accept(Kind::Comma).is_some() {
            self.expect(Kind::RightBrace)?;
        } else if self.accept(Kind::RightBrace).is_none() {
            loop {
                let question = self.accept(Kind::Question);
                let name = self.name()?;
                let colon = self.expect(Kind::Colon)?;
                let value = self.expression()?;
                fields.push(MessageField { question, name, colon, value });
                if self.ended(Kind::RightBrace)? {
                    break;
                }
            }
        }
        Ok(self.node(Node::Message { dot, names, open, start, fields }))
    }

    /// Whether a list ends here, after one comma or none, rather than going on after a comma.
    fn ended(&mut self, close: Kind) -> Result<bool> {
        let more = self.accept(Kind::Comma).is_some();
        if self.accept(close).is_some() {
            return Ok(true);
        }
        if more { Ok(false) } else { Err(Failure::Syntax) }
    }
}

fn is_relation(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Less
            | Kind::LessEquals
            | Kind::GreaterEquals
            | Kind::Greater
            | Kind::Equals
            | Kind::NotEquals
            | Kind::In
    )
}
