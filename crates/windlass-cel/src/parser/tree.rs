//! Parse tree of the grammar, before names, literals and macros are interpreted.
//!
//! Nodes are stored in one vector and refer to each other by index. After errors, parts may be missing.

/// Index of a token.
pub(super) type TokenId = u32;
/// Index of a node.
pub(super) type NodeId = u32;

/// A node of the parse tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// A missing part.
    Missing,
    /// An operand that could not be parsed, with its first token.
    Unreadable(TokenId),
    /// `a ? b : c`
    Ternary { condition: NodeId, question: TokenId, yes: NodeId, no: NodeId },
    /// `a || b || c`, or with `&&`
    Logic { any: bool, start: TokenId, operators: Vec<TokenId>, terms: Vec<NodeId> },
    /// `a + b` and other binary operators
    Binary { operator: TokenId, left: NodeId, right: NodeId },
    /// `!!a` or `--a`
    Prefix { operators: Vec<TokenId>, operand: NodeId },
    /// `a.b`, `a.?b`
    Select { start: TokenId, operand: NodeId, dot: Option<TokenId>, question: Option<TokenId>, field: Option<Name> },
    /// `a.b(c)`
    MemberCall { start: TokenId, operand: NodeId, name: Option<TokenId>, open: Option<TokenId>, arguments: Vec<NodeId> },
    /// `a[b]`, `a[?b]`
    Index { start: TokenId, operand: NodeId, open: Option<TokenId>, question: Option<TokenId>, index: NodeId },
    /// `a`, `.a`
    Ident { start: TokenId, dot: bool, name: Option<TokenId> },
    /// `f(a)`, `.f(a)`
    Call { start: TokenId, dot: bool, name: Option<TokenId>, open: Option<TokenId>, arguments: Vec<NodeId> },
    /// `[a, ?b]`
    List { open: Option<TokenId>, elements: Vec<(Option<TokenId>, NodeId)> },
    /// `{a: b, ?c: d}`
    Map { open: Option<TokenId>, entries: Vec<MapEntry> },
    /// `A.B{c: d}`
    Message { dot: bool, names: Vec<TokenId>, open: Option<TokenId>, start: TokenId, fields: Vec<MessageField> },
    /// A literal, with its sign.
    Literal { sign: Option<TokenId>, token: TokenId },
}

/// A name after a dot or in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    /// Position at which the name was expected.
    pub(super) start: TokenId,
    /// The name, plain or in backquotes.
    pub(super) token: Option<TokenId>,
}

/// `?key: value`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MapEntry {
    pub(super) question: Option<TokenId>,
    pub(super) key: NodeId,
    pub(super) colon: TokenId,
    pub(super) value: NodeId,
}

/// `?field: value`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MessageField {
    pub(super) question: Option<TokenId>,
    pub(super) name: Name,
    pub(super) colon: TokenId,
    pub(super) value: NodeId,
}
