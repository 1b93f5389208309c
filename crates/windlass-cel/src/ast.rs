//! Parsed expressions with macros expanded: the tree used by checking, cost estimation and evaluation.

/// The ID of an expression, unique within its tree.
pub type ExprId = u32;

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// The ID, by which positions, types and references are stored.
    pub id: ExprId,
    /// The kind of expression.
    pub kind: ExprKind,
}

/// The kinds of expressions.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A literal.
    Literal(Literal),
    /// A name, possibly with dots once resolved; a leading dot is kept.
    Ident(String),
    /// `operand.field`, or `has(operand.field)`.
    Select {
        /// The object or map.
        operand: Box<Expr>,
        /// The field.
        field: String,
        /// Whether it only tests for the presence of the field.
        test_only: bool,
    },
    /// A call of a function or operator (`_+_`, `_&&_`, `_[_]`, `_?._`, ...).
    Call {
        /// The receiver of `target.function(args)`.
        target: Option<Box<Expr>>,
        /// The name of the function.
        function: String,
        /// The arguments.
        args: Vec<Expr>,
    },
    /// `[a, ?b]`
    List {
        /// The elements.
        elements: Vec<Expr>,
        /// Indexes of the optional elements.
        optional: Vec<usize>,
    },
    /// `{k: v, ?k: v}`
    Map(Vec<Entry>),
    /// `Name{field: value}`
    Struct {
        /// The name of the type.
        name: String,
        /// The fields; keys are string literals.
        entries: Vec<Entry>,
    },
    /// A comprehension: a fold over a list or map, which macros expand to.
    Comprehension(Box<Comprehension>),
}

/// An entry of a map or struct literal.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The ID of the entry.
    pub id: ExprId,
    /// The key.
    pub key: Expr,
    /// The value.
    pub value: Expr,
    /// Whether the value is an optional, whose entry may be absent.
    pub optional: bool,
}

/// A fold over a list or map.
#[derive(Debug, Clone, PartialEq)]
pub struct Comprehension {
    /// The list or map.
    pub range: Expr,
    /// The name of the element (of a list) or key (of a map).
    pub variable: String,
    /// The name of the value in comprehensions with two variables, whose first variable is the index or key.
    pub second: Option<String>,
    /// The name of the accumulator.
    pub accumulator: String,
    /// The initial value of the accumulator.
    pub init: Expr,
    /// Whether to continue.
    pub condition: Expr,
    /// The next value of the accumulator.
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
