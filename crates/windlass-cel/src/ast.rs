//! Parsed expressions, macros expanded: the tree that checking, costing and evaluation walk.

/// The number of an expression, unique within its tree.
pub type ExprId = u32;

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// Its number; positions, types and references are kept by it.
    pub id: ExprId,
    /// What it is.
    pub kind: ExprKind,
}

/// The kinds of expressions.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A literal.
    Literal(Literal),
    /// A name, perhaps with dots once resolved; a leading dot is kept.
    Ident(String),
    /// `operand.field`, or `has(operand.field)`.
    Select {
        /// The object or map.
        operand: Box<Expr>,
        /// The field.
        field: String,
        /// Whether it only asks if the field is there.
        test_only: bool,
    },
    /// A call of a function or operator (`_+_`, `_&&_`, `_[_]`, `_?._`, ...).
    Call {
        /// The receiver of `target.function(args)`.
        target: Option<Box<Expr>>,
        /// The name.
        function: String,
        /// The arguments.
        args: Vec<Expr>,
    },
    /// `[a, ?b]`
    List {
        /// The elements.
        elements: Vec<Expr>,
        /// Which of them are optional.
        optional: Vec<usize>,
    },
    /// `{k: v, ?k: v}`
    Map(Vec<Entry>),
    /// `Name{field: value}`
    Struct {
        /// The type's name.
        name: String,
        /// The fields; keys are string literals.
        entries: Vec<Entry>,
    },
    /// A fold over a list or map, which macros expand to.
    Comprehension(Box<Comprehension>),
}

/// An entry of a map or struct literal.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its number.
    pub id: ExprId,
    /// The key.
    pub key: Expr,
    /// The value.
    pub value: Expr,
    /// Whether the value is an optional that may be absent.
    pub optional: bool,
}

/// A fold.
#[derive(Debug, Clone, PartialEq)]
pub struct Comprehension {
    /// What is folded.
    pub range: Expr,
    /// The name of the element (of a list) or key (of a map).
    pub variable: String,
    /// The name of the value, in comprehensions with two variables; the first is then the index or key.
    pub second: Option<String>,
    /// The name of the accumulator.
    pub accumulator: String,
    /// Its first value.
    pub init: Expr,
    /// Whether to go on.
    pub condition: Expr,
    /// Its next value.
    pub step: Expr,
    /// The result.
    pub result: Expr,
}

/// A literal value.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `1u`
    Uint(u64),
    /// `1.0`
    Double(f64),
    /// `'a'`
    String(String),
    /// `b'a'`
    Bytes(Vec<u8>),
}
