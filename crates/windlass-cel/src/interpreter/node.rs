//! The steps of a program.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_schema::go_regex::Pattern;

use super::guard::Guard;
use crate::library::Function;
use crate::runtime_cost::CallCost;
use crate::value::{Key, Value};

/// A step of a program.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// A known value.
    Constant(Value<'static>),
    /// A name with selections from it.
    Attribute(Box<Attribute>),
    /// `&&`
    And(Vec<Node>),
    /// `||`
    Or(Vec<Node>),
    /// `==`, or `!=` if negated.
    Equal { negated: bool, operands: Box<[Node; 2]> },
    /// A call.
    Call(Box<CallNode>),
    /// `in` with a list of constants.
    Member { element: Box<Node>, set: BTreeSet<Key<'static>> },
    /// `a.or(b)`, or `a.orValue(b)` if `unwrap` is set.
    OrElse { unwrap: bool, operands: Box<[Node; 2]> },
    /// `[a, ?b]`
    List(Vec<Element>),
    /// `{a: b, ?c: d}`
    Map(Vec<(Node, Element)>),
    /// `Name{field: a, ?other: b}`
    Struct(Box<StructNode>),
    /// A comprehension.
    Fold(Box<Fold>),
}

/// A struct to construct.
#[derive(Debug, Clone)]
pub(super) struct StructNode {
    pub(super) name: Arc<str>,
    pub(super) fields: Vec<(Arc<str>, Element)>,
}

/// An element of a list, or a value of a map.
#[derive(Debug, Clone)]
pub(super) struct Element {
    pub(super) value: Node,
    pub(super) optional: bool,
}

/// A call of a function.
#[derive(Debug, Clone)]
pub(super) struct CallNode {
    pub(super) function: Function,
    /// Empty if it is only known at run time.
    pub(super) overload: &'static str,
    pub(super) cost: CallCost,
    pub(super) arguments: Vec<Node>,
    /// Whether the first argument that fails ends the call, at no cost.
    pub(super) early_exit: bool,
    /// Whether arguments may fail.
    pub(super) lenient: bool,
    /// The overloads to try at run time; empty if not needed.
    pub(super) guards: Vec<Guard>,
    /// The compiled regular expression, if it is a constant.
    pub(super) regex: Option<Pattern>,
    /// The accumulator that is the first argument and no longer needed.
    pub(super) consumes: Option<usize>,
}

/// A name or value and the selections from it.
#[derive(Debug, Clone)]
pub(super) struct Attribute {
    pub(super) root: Root,
    pub(super) qualifiers: Vec<Qualifier>,
    /// Whether it only tests for the presence of the last field.
    pub(super) test: bool,
}

/// The value to select from.
#[derive(Debug, Clone)]
pub(super) enum Root {
    /// A variable of the evaluation.
    Global(usize),
    /// A variable of a comprehension.
    Local(usize),
    /// A composed variable, `variables.name`, which is evaluated when it is first used.
    Composed(Box<str>),
    /// A value.
    Value(Node),
    /// `a ? b : c`
    Conditional { condition: Node, branches: Box<[Attribute; 2]> },
}

/// A field or index.
#[derive(Debug, Clone)]
pub(super) struct Qualifier {
    pub(super) key: QualifierKey,
    pub(super) optional: bool,
    /// Whether it only tests for presence.
    pub(super) test: bool,
}

#[derive(Debug, Clone)]
pub(super) enum QualifierKey {
    Constant(Value<'static>),
    Computed(Attribute),
}

/// A comprehension.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    pub(super) range: Node,
    /// Slot of the element or key.
    pub(super) variable: usize,
    /// Slot of the value.
    pub(super) second: Option<usize>,
    /// Slot of the accumulator.
    pub(super) accumulator: usize,
    pub(super) init: Node,
    pub(super) condition: Node,
    pub(super) step: Node,
    pub(super) result: Node,
}

impl Node {
    /// Returns the value if it is known.
    pub(super) fn constant(&self) -> Option<&Value<'static>> {
        match self {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// Converts the step to a value from which a field can be selected.
    pub(super) fn into_attribute(self) -> Attribute {
        match self {
            Node::Attribute(attribute) => *attribute,
            node => Attribute { root: Root::Value(node), qualifiers: Vec::new(), test: false },
        }
    }
}

impl Attribute {
    pub(super) fn new(root: Root) -> Attribute {
        Attribute { root, qualifiers: Vec::new(), test: false }
    }

    /// Adds a selection; for a condition, to both branches.
    pub(super) fn select(&mut self, qualifier: Qualifier) {
        match &mut self.root {
            Root::Conditional { branches, .. } => {
                branches[0].select(qualifier.clone());
                branches[1].select(qualifier);
            }
            _ => self.qualifiers.push(qualifier),
        }
    }
}
