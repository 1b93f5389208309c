//! Converts the parse tree to expressions: names, literals, operators; macros are expanded on the way.

use super::Options;
use super::descent::MAXIMUM_DEPTH;
use super::literal;
use super::token::{Kind, Token};
use super::tree::{Name, Node, NodeId, TokenId};
use crate::ast::{Entry, Expr, ExprId, ExprKind, Literal};
use crate::source::{Errors, Location};

/// Reserved words, which cannot be names of variables.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// The expression is nested too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooDeep;

type Built = Result<Expr, TooDeep>;

/// Builds the expressions of one string.
pub(super) struct Builder<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a [Token],
    pub(super) nodes: &'a [Node],
    pub(super) options: Options,
    pub(super) positions: Vec<u32>,
    pub(super) errors: &'a mut Errors,
    pub(super) source: &'a crate::source::Source,
    pub(super) depth: u32,
}

impl Builder<'_> {
    /// Builds the expression of a node.
    pub(super) fn build(&mut self, id: NodeId) -> Built {
        let nodes = self.nodes;
        let counted = matches!(
            nodes[id as usize],
            Node::Ternary { .. }
                | Node::Binary { .. }
                | Node::Select { .. }
                | Node::MemberCall { .. }
                | Node::Index { .. }
        );
        if counted {
            self.depth += 1;
            if self.depth > MAXIMUM_DEPTH {
                return Err(TooDeep);
            }
        }
        let built = self.build_node(&nodes[id as usize])?;
        if counted {
            self.depth -= 1;
        }
        Ok(built)
    }

    fn build_node(&mut self, node: &Node) -> Built {
        match node {
            Node::Missing => Ok(self.nothing(None)),
            Node::Unreadable(start) => Ok(self.nothing(Some(*start))),
            Node::Ternary { condition, question, yes, no } => {
                let condition = self.build(*condition)?;
                let id = self.id(Some(*question));
                let yes = self.build(*yes)?;
                let no = self.build(*no)?;
                Ok(call(id, "_?_:_", vec![condition, yes, no]))
            }
            Node::Logic { any, start, operators, terms } => self.logic(*any, *start, operators, terms),
            Node::Binary { operator, left, right } => {
                let left = self.build(*left)?;
                let id = self.id(Some(*operator));
                let right = self.build(*right)?;
                Ok(call(id, binary_function(self.tokens[*operator as usize].kind), vec![left, right]))
            }
            Node::Prefix { operators, operand } => {
                if operators.len() % 2 == 0 {
                    return self.build(*operand);
                }
                let id = self.id(Some(operators[0]));
                let operand = self.build(*operand)?;
                let is_not = self.tokens[operators[0] as usize].kind == Kind::Exclamation;
                Ok(call(id, if is_not { "!_" } else { "-_" }, vec![operand]))
            }
            Node::Select { start, operand, dot, question, field } => {
                self.select(*start, *operand, *dot, *question, *field)
            }
            Node::MemberCall { start, operand, name, open, arguments } => {
                let target = self.build(*operand)?;
                let Some(name) = *name else { return Ok(self.nothing(Some(*start))) };
                let id = self.id(*open);
                let arguments = self.all(arguments)?;
                Ok(self.call_or_macro(id, self.token_text(name).to_owned(), Some(target), arguments))
            }
            Node::Index { start, operand, open, question, index } => {
                let target = self.build(*operand)?;
                let Some(open) = *open else { return Ok(self.nothing(Some(*start))) };
                let id = self.id(Some(open));
                let index = self.build(*index)?;
                if question.is_some() && !self.options.optionals {
                    return Ok(self.wrong(Some(open), "unsupported syntax '[?'"));
                }
                Ok(call(id, if question.is_some() { "_[?_]" } else { "_[_]" }, vec![target, index]))
            }
            Node::Ident { start, dot, name } => Ok(match self.variable(*start, *dot, *name) {
                Ok((name, token)) => Expr { id: self.id(Some(token)), kind: ExprKind::Ident(name) },
                Err(wrong) => wrong,
            }),
            Node::Call { start, dot, name, open, arguments } => match self.variable(*start, *dot, *name) {
                Ok((name, _)) => {
                    let id = self.id(*open);
                    let arguments = self.all(arguments)?;
                    Ok(self.call_or_macro(id, name, None, arguments))
                }
                Err(wrong) => Ok(wrong),
            },
            Node::List { open, elements } => self.list(*open, elements),
            Node::Map { .. } | Node::Message { .. } => self.aggregate(node),
            Node::Literal { sign, token } => Ok(self.literal(*sign, *token)),
        }
    }

    fn all(&mut self, nodes: &[NodeId]) -> Result<Vec<Expr>, TooDeep> {
        nodes.iter().map(|node| self.build(*node)).collect()
    }

    fn logic(&mut self, any: bool, start: TokenId, operators: &[TokenId], terms: &[NodeId]) -> Built {
        let mut built = vec![self.build(terms[0])?];
        let mut ids = Vec::with_capacity(operators.len());
        for (index, operator) in operators.iter().enumerate() {
            let Some(term) = terms.get(index + 1) else {
                let wanted =
                    if any { "unexpected character, wanted '||'" } else { "unexpected character, wanted '&&'" };
                return Ok(self.wrong(Some(start), wanted));
            };
            built.push(self.build(*term)?);
            ids.push(self.id(Some(*operator)));
        }
        if ids.is_empty() {
            return Ok(built.swap_remove(0));
        }
        let mut terms = built.into_iter();
        Ok(balanced(if any { "_||_" } else { "_&&_" }, &ids, &mut terms))
    }

    fn select(
        &mut self,
        start: TokenId,
        operand: NodeId,
        dot: Option<TokenId>,
        question: Option<TokenId>,
        field: Option<Name>,
    ) -> Built {
        let operand = self.build(operand)?;
        let (Some(dot), Some(field)) = (dot, field) else { return Ok(self.nothing(Some(start))) };
        let name = match self.field_name(field) {
            Ok(name) => name,
            Err(message) => {
                self.wrong(Some(field.start), message);
                String::new()
            }
        };
        if question.is_none() {
            let id = self.id(Some(dot));
            return Ok(Expr {
                id,
                kind: ExprKind::Select { operand: Box::new(operand), field: name, test_only: false },
            });
        }
        if !self.options.optionals {
            return Ok(self.wrong(Some(dot), "unsupported syntax '.?'"));
        }
        let field = Expr { id: self.id(Some(field.start)), kind: ExprKind::Literal(Literal::String(name)) };
        let id = self.id(Some(dot));
        Ok(call(id, "_?._", vec![operand, field]))
    }

    fn list(&mut self, open: Option<TokenId>, elements: &[(Option<TokenId>, NodeId)]) -> Built {
        let id = self.id(open);
        let mut built = Vec::with_capacity(elements.len());
        let mut optional = Vec::new();
        for (index, (question, element)) in elements.iter().enumerate() {
            built.push(self.build(*element)?);
            if question.is_some() {
                if self.options.optionals {
                    optional.push(index);
                } else {
                    self.wrong(*question, "unsupported syntax '?'");
                }
            }
        }
        Ok(Expr { id, kind: ExprKind::List { elements: built, optional } })
    }

    fn aggregate(&mut self, node: &Node) -> Built {
        let mut built = Vec::new();
        match node {
            Node::Map { open, entries } => {
                let id = self.id(*open);
                for entry in entries {
                    let entry_id = self.id(Some(entry.colon));
                    if entry.question.is_some() && !self.options.optionals {
                        self.wrong(entry.question, "unsupported syntax '?'");
                        continue;
                    }
                    let key = self.build(entry.key)?;
                    let value = self.build(entry.value)?;
                    built.push(Entry { id: entry_id, key, value, optional: entry.question.is_some() });
                }
                Ok(Expr { id, kind: ExprKind::Map(built) })
            }
            Node::Message { dot, names, open, start, fields } => {
                let name: Vec<&str> = names.iter().map(|name| self.token_text(*name)).collect();
                let name = format!("{}{}", if *dot { "." } else { "" }, name.join("."));
                let id = self.id(*open);
                let first = fields.first().map_or(*start, |field| field.question.unwrap_or(field.name.start));
                for field in fields {
                    let entry_id = self.id(Some(field.colon));
                    if field.question.is_some() && !self.options.optionals {
                        self.wrong(field.question, "unsupported syntax '?'");
                        continue;
                    }
                    match self.field_name(field.name) {
                        Err(message) => {
                            self.wrong(Some(first), message);
                        }
                        Ok(name) => {
                            let value = self.build(field.value)?;
                            let key = Expr { id: entry_id, kind: ExprKind::Literal(Literal::String(name)) };
                            built.push(Entry { id: entry_id, key, value, optional: field.question.is_some() });
                        }
                    }
                }
                Ok(Expr { id, kind: ExprKind::Struct { name, entries: built } })
            }
            _ => Ok(self.nothing(None)),
        }
    }

    fn literal(&mut self, sign: Option<TokenId>, token: TokenId) -> Expr {
        let Token { kind, start, end, .. } = self.tokens[token as usize];
        let text = &self.text[start..end];
        let value = match kind {
            Kind::Int => literal::integer(text, sign.is_some()),
            Kind::Uint => literal::unsigned(text),
            Kind::Float => literal::double(text, sign.is_some()),
            Kind::String => literal::string(text).map(Literal::String),
            Kind::Bytes => literal::bytes(text).map(Literal::Bytes),
            Kind::True => Ok(Literal::Bool(true)),
            Kind::False => Ok(Literal::Bool(false)),
            _ => Ok(Literal::Null),
        };
        let at = Some(sign.unwrap_or(token));
        match value {
            Ok(value) => Expr { id: self.id(at), kind: ExprKind::Literal(value) },
            Err(message) => self.wrong(at, message),
        }
    }

    /// Returns the name of a variable or function and its token.
    fn variable(&mut self, start: TokenId, dot: bool, name: Option<TokenId>) -> Result<(String, TokenId), Expr> {
        let Some(token) = name else { return Err(self.nothing(Some(start))) };
        let text = self.token_text(token);
        if RESERVED.contains(&text) {
            let message = format!("reserved identifier: {text}");
            return Err(self.wrong(Some(start), message));
        }
        Ok((if dot { format!(".{text}") } else { text.to_owned() }, token))
    }

    fn field_name(&self, name: Name) -> Result<String, &'static str> {
        let Some(token) = name.token else { return Err("unsupported ident kind") };
        let text = self.token_text(token);
        if self.tokens[token as usize].kind != Kind::QuotedIdentifier {
            Ok(text.to_owned())
        } else if self.options.quoted_identifiers {
            Ok(text[1..text.len() - 1].to_owned())
        } else {
            Err("unsupported syntax: '`'")
        }
    }

    fn token_text(&self, token: TokenId) -> &str {
        let Token { start, end, .. } = self.tokens[token as usize];
        &self.text[start..end]
    }

    /// Returns a new ID for an expression that starts at a token.
    pub(super) fn id(&mut self, token: Option<TokenId>) -> ExprId {
        let position = token.map_or(u32::MAX, |token| self.tokens[token as usize].offset);
        self.id_at(position)
    }

    /// Returns a new ID for an expression that starts at an offset.
    pub(super) fn id_at(&mut self, position: u32) -> ExprId {
        self.positions.push(position);
        self.positions.len() as ExprId - 1
    }

    /// Returns a placeholder for an unreadable expression. No macro accepts its kind as a name.
    pub(super) fn nothing(&mut self, token: Option<TokenId>) -> Expr {
        Expr { id: self.id(token), kind: ExprKind::Literal(Literal::Null) }
    }

    /// Reports an error at a token.
    fn wrong(&mut self, token: Option<TokenId>, message: impl Into<String>) -> Expr {
        let nothing = self.nothing(token);
        let location = self.location(nothing.id);
        self.errors.report(location, message);
        nothing
    }

    /// Returns the location of an expression.
    pub(super) fn location(&self, id: ExprId) -> Location {
        super::location(self.source, &self.positions, id)
    }
}

/// Builds a function call.
pub(super) fn call(id: ExprId, function: &str, args: Vec<Expr>) -> Expr {
    Expr { id, kind: ExprKind::Call { target: None, function: function.to_owned(), args } }
}

/// Builds a chain of one logical operator as a balanced tree.
fn balanced(function: &str, ids: &[ExprId], terms: &mut impl Iterator<Item = Expr>) -> Expr {
    let Some((middle, left, right)) = split(ids) else {
        return terms.next().expect("a chain must have one term more than operators");
    };
    let left = balanced(function, left, terms);
    let right = balanced(function, right, terms);
    call(middle, function, vec![left, right])
}

fn split(ids: &[ExprId]) -> Option<(ExprId, &[ExprId], &[ExprId])> {
    let middle = ids.len() / 2;
    ids.get(middle).map(|id| (*id, &ids[..middle], &ids[middle + 1..]))
}

fn binary_function(kind: Kind) -> &'static str {
    match kind {
        Kind::Plus => "_+_",
        Kind::Minus => "_-_",
        Kind::Star => "_*_",
        Kind::Slash => "_/_",
        Kind::Percent => "_%_",
        Kind::Less => "_<_",
        Kind::LessEquals => "_<=_",
        Kind::GreaterEquals => "_>=_",
        Kind::Greater => "_>_",
        Kind::Equals => "_==_",
        Kind::NotEquals => "_!=_",
        _ => "@in",
    }
}
