//! Plans a checked expression: converts it to the steps of a program.
//!
//! Only values that kube-apiserver precomputes are precomputed here, because precomputed values cost nothing: lists and
//! maps of constants, conversions of constants, regular expressions, and sets of constants after `in`.

use std::collections::BTreeSet;

use super::composition::VARIABLES;
use super::guard::{Guard, argument_types};
use super::node::{Attribute, CallNode, Element, Fold, Node, Qualifier, QualifierKey, Root, StructNode};
use super::{Bindings, PlanError, Program};
use crate::ast::{Comprehension, Entry, Expr, ExprKind, Literal};
use crate::checker::{Checked, Reference};
use crate::library;
use crate::runtime_cost::CallCost;
use crate::types::Type;
use crate::value::{Key, Value, is_struct};

const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

/// Functions with several overloads that share one implementation.
const SINGLETONS: [&str; 18] = [
    "!_",
    "-_",
    "_+_",
    "_-_",
    "_*_",
    "_/_",
    "_%_",
    "_<_",
    "_<=_",
    "_>_",
    "_>=_",
    "@in",
    "size",
    "type",
    "dyn",
    "matches",
    "sort",
    "@sortByAssociatedKeys",
];

/// Plans a checked expression.
pub(super) fn plan(checked: &Checked) -> Result<Program, PlanError> {
    let mut planner = Planner { checked, globals: Vec::new(), composed: Vec::new(), scope: Vec::new(), locals: 0 };
    let root = planner.plan(&checked.expr)?;
    Ok(Program { root, globals: planner.globals, composed: planner.composed, locals: planner.locals })
}

struct Planner<'c> {
    checked: &'c Checked,
    globals: Vec<String>,
    /// Names of the composed variables.
    composed: Vec<String>,
    /// Variables of comprehensions and their slots, innermost last.
    scope: Vec<(&'c str, usize)>,
    locals: usize,
}

impl<'c> Planner<'c> {
    fn plan(&mut self, expr: &'c Expr) -> Result<Node, PlanError> {
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(Node::Constant(constant(literal))),
            ExprKind::Ident(name) => self.ident(expr, name),
            ExprKind::Select { operand, field, test_only } => {
                if let Some(reference @ (Reference::Ident(_) | Reference::Constant(..))) =
                    self.checked.reference(expr.id)
                {
                    return self.reference(expr, reference);
                }
                if matches!(self.checked.type_of(operand.id), Type::Object(name) if **name == *VARIABLES) {
                    return Ok(self.composed(field, *test_only));
                }
                let mut attribute = self.plan(operand)?.into_attribute();
                let key = QualifierKey::Constant(Value::string(&**field));
                attribute.select(Qualifier { key, optional: false, test: *test_only });
                attribute.test = *test_only;
                Ok(Node::Attribute(Box::new(attribute)))
            }
            ExprKind::Call { target, function, args } => self.call(expr, target.as_deref(), function, args),
            ExprKind::List { elements, optional } => {
                let mut nodes = Vec::with_capacity(elements.len());
                for (index, element) in elements.iter().enumerate() {
                    nodes.push(Element { value: self.plan(element)?, optional: optional.contains(&index) });
                }
                let known = nodes.iter().all(|element| element.value.constant().is_some());
                fold_constant(Node::List(nodes), known)
            }
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Struct { name, entries } if is_struct(name) => self.structure(name, entries),
            ExprKind::Struct { name, .. } => Err(PlanError(format!("unknown type: {name}"))),
            ExprKind::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn ident(&mut self, expr: &Expr, name: &str) -> Result<Node, PlanError> {
        let plain = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, place)) = self.scope.iter().rev().find(|(other, _)| *other == plain) {
            return Ok(Node::Attribute(Box::new(Attribute::new(Root::Local(*place)))));
        }
        match self.checked.reference(expr.id) {
            Some(reference @ (Reference::Ident(_) | Reference::Constant(..))) => self.reference(expr, reference),
            _ => Ok(self.global(plain)),
        }
    }

    fn reference(&mut self, expr: &Expr, reference: &Reference) -> Result<Node, PlanError> {
        match reference {
            Reference::Constant(_, literal) => Ok(Node::Constant(constant(literal))),
            Reference::Ident(name) if matches!(self.checked.type_of(expr.id), Type::Type(_)) => {
                Ok(Node::Constant(Value::Type(name.as_str().into())))
            }
            Reference::Ident(name) => Ok(self.global(name.strip_prefix('.').unwrap_or(name))),
            Reference::Overloads(_) => Err(PlanError("a function is no value".to_owned())),
        }
    }

    fn global(&mut self, name: &str) -> Node {
        let index = self.globals.iter().position(|other| other == name).unwrap_or_else(|| {
            self.globals.push(name.to_owned());
            self.globals.len() - 1
        });
        Node::Attribute(Box::new(Attribute::new(Root::Global(index))))
    }

    /// Plans the use of a composed variable.
    fn composed(&mut self, name: &str, test_only: bool) -> Node {
        if !self.composed.iter().any(|known| known == name) {
            self.composed.push(name.to_owned());
        }
        match test_only {
            true => Node::Constant(Value::Bool(true)),
            false => Node::Attribute(Box::new(Attribute::new(Root::Composed(name.into())))),
        }
    }

    fn structure(&mut self, name: &str, entries: &'c [Entry]) -> Result<Node, PlanError> {
        let mut fields = Vec::with_capacity(entries.len());
        for entry in entries {
            let ExprKind::Literal(Literal::String(field)) = &entry.key.kind else { continue };
            let element = Element { value: self.plan(&entry.value)?, optional: entry.optional };
            fields.push((field.as_str().into(), element));
        }
        Ok(Node::Struct(Box::new(StructNode { name: name.into(), fields })))
    }

    fn map(&mut self, entries: &'c [Entry]) -> Result<Node, PlanError> {
        let mut nodes = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = self.plan(&entry.key)?;
            nodes.push((key, Element { value: self.plan(&entry.value)?, optional: entry.optional }));
        }
        let known = nodes.iter().all(|(key, value)| key.constant().is_some() && value.value.constant().is_some());
        fold_constant(Node::Map(nodes), known)
    }

    fn call(
        &mut self,
        expr: &'c Expr,
        target: Option<&'c Expr>,
        function: &'c str,
        args: &'c [Expr],
    ) -> Result<Node, PlanError> {
        if let ("_?._", [variables, Expr { kind: ExprKind::Literal(Literal::String(field)), .. }]) = (function, args)
            && matches!(self.checked.type_of(variables.id), Type::Object(name) if **name == *VARIABLES)
        {
            // A variable that is declared is present: select it from a map that has it.
            let key = Value::string(&**field);
            let value = Element { value: self.composed(field, false), optional: false };
            let map = Node::Map(vec![(Node::Constant(key.clone()), value)]);
            return index(vec![map, Node::Constant(key)], true);
        }
        let mut arguments = Vec::with_capacity(args.len() + 1);
        for argument in target.into_iter().chain(args) {
            arguments.push(self.plan(argument)?);
        }
        let overloads = self.checked.overloads(expr.id);
        let overload = if let [overload] = overloads { overload } else { "" };
        match (function, arguments.len()) {
            ("_&&_", _) => return Ok(Node::And(arguments)),
            ("_||_", _) => return Ok(Node::Or(arguments)),
            ("_==_" | "_!=_", 2) => {
                return Ok(Node::Equal { negated: function == "_!=_", operands: pair(arguments) });
            }
            ("_?_:_", 3) => return Ok(conditional(arguments)),
            ("_[_]", 2) => return index(arguments, false),
            ("_?._" | "_[?_]", 2) => return index(arguments, true),
            ("or", 2) if matches!(overload, "" | "optional_or_optional") => {
                return Ok(Node::OrElse { unwrap: false, operands: pair(arguments) });
            }
            ("orValue", 2) if matches!(overload, "" | "optional_orValue_value") => {
                return Ok(Node::OrElse { unwrap: true, operands: pair(arguments) });
            }
            _ => {}
        }
        let name = function.strip_prefix('.').unwrap_or(function);
        let Some(found) = library::function(name) else {
            return Err(PlanError(format!("no such overload: {name}")));
        };
        if name == "@in"
            && overload == "in_list"
            && let Some(Value::List(list)) = arguments[1].constant()
        {
            if list.is_empty() {
                return Ok(Node::Constant(Value::Bool(false)));
            }
            if let Some(set) = members(list) {
                return Ok(Node::Member { element: Box::new(arguments.swap_remove(0)), set });
            }
        }
        let regex = match (name, arguments.get(1).and_then(Node::constant)) {
            ("matches" | "find" | "findAll", Some(Value::String(pattern))) => {
                Some(library::regex::compile(pattern).map_err(PlanError)?)
            }
            _ => None,
        };
        let guards = if regex.is_some() || SINGLETONS.contains(&name) {
            Vec::new()
        } else {
            Guard::for_call(name, overload, &argument_types(self.checked, target.into_iter().chain(args)))
        };
        let early_exit = arguments.is_empty()
            || arguments.len() > 2
            || regex.is_some()
            || name == "format"
            || (overload.is_empty() && !SINGLETONS.contains(&name));
        let known = CONVERSIONS.contains(&name) && matches!(&arguments[..], [Node::Constant(_)]);
        let call = CallNode {
            function: found,
            overload,
            cost: CallCost::of(name, overload),
            arguments,
            early_exit,
            lenient: name == "@not_strictly_false",
            guards,
            regex,
            consumes: None,
        };
        fold_constant(Node::Call(Box::new(call)), known)
    }

    fn place(&mut self) -> usize {
        self.locals += 1;
        self.locals - 1
    }

    fn comprehension(&mut self, comprehension: &'c Comprehension) -> Result<Node, PlanError> {
        let init = self.plan(&comprehension.init)?;
        let range = self.plan(&comprehension.range)?;
        let depth = self.scope.len();
        let (accumulator, variable) = (self.place(), self.place());
        let second = comprehension.second.as_ref().map(|name| (name, self.place()));
        // The accumulator shadows variables of the same name.
        if let Some((name, place)) = second {
            self.scope.push((name, place));
        }
        self.scope.push((&comprehension.variable, variable));
        self.scope.push((&comprehension.accumulator, accumulator));
        let condition = self.plan(&comprehension.condition)?;
        let mut step = self.plan(&comprehension.step)?;
        self.scope.truncate(depth);
        self.scope.push((&comprehension.accumulator, accumulator));
        let result = self.plan(&comprehension.result)?;
        self.scope.truncate(depth);
        consume(&mut step, &comprehension.step, &comprehension.accumulator, accumulator);
        let second = second.map(|(_, place)| place);
        Ok(Node::Fold(Box::new(Fold { range, variable, second, accumulator, init, condition, step, result })))
    }
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::string(text.as_str()),
        Literal::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
    }
}

/// Evaluates a step whose operands are constants.
fn fold_constant(node: Node, known: bool) -> Result<Node, PlanError> {
    if !known {
        return Ok(node);
    }
    let program = Program { root: node, globals: Vec::new(), composed: Vec::new(), locals: 0 };
    match program.eval(&Bindings::new(), None).result {
        Ok(value) => Ok(Node::Constant(value)),
        Err(error) => Err(PlanError(error.to_string())),
    }
}

fn pair(mut arguments: Vec<Node>) -> Box<[Node; 2]> {
    let second = arguments.remove(1);
    Box::new([arguments.remove(0), second])
}

fn conditional(mut arguments: Vec<Node>) -> Node {
    let otherwise = arguments.remove(2).into_attribute();
    let branches = Box::new([arguments.remove(1).into_attribute(), otherwise]);
    let condition = arguments.remove(0);
    Node::Attribute(Box::new(Attribute::new(Root::Conditional { condition, branches })))
}

fn index(mut arguments: Vec<Node>, optional: bool) -> Result<Node, PlanError> {
    let key = match arguments.remove(1) {
        Node::Constant(key) if Key::from_value(&key).is_some() => QualifierKey::Constant(key),
        Node::Constant(key) => return Err(PlanError(format!("invalid qualifier type: {}", key.go_type()))),
        node => QualifierKey::Computed(node.into_attribute()),
    };
    let mut attribute = arguments.remove(0).into_attribute();
    attribute.select(Qualifier { key, optional, test: false });
    Ok(Node::Attribute(Box::new(attribute)))
}

/// Returns the elements of a list as a set, including equal numbers of other types; `None` if some cannot be in a set.
fn members(list: &crate::value::List<'static>) -> Option<BTreeSet<Key<'static>>> {
    let mut set = BTreeSet::new();
    for item in list.iter() {
        let item = item.ok()?;
        set.insert(Key::from_value(&item)?);
        for function in ["int", "uint", "double"] {
            if let (Value::Int(_) | Value::Uint(_) | Value::Double(_), Ok(other)) = (&item, item.convert(function)) {
                let exact = !matches!(item, Value::Double(_)) || other.equals(&item) == Ok(true);
                set.extend(Key::from_value(&other).filter(|_| exact));
            }
        }
    }
    Some(set)
}

/// Lets a step that adds to the accumulator consume it if nothing else in the step needs it.
fn consume(step: &mut Node, expr: &Expr, name: &str, place: usize) {
    let ExprKind::Call { target: None, function, args } = &expr.kind else { return };
    match step {
        Node::Call(call) if matches!(function.as_str(), "_+_" | "cel.@mapInsert") => {
            let first = matches!(&call.arguments[0], Node::Attribute(attribute)
                if matches!(attribute.root, Root::Local(local) if local == place) && attribute.qualifiers.is_empty());
            if first && !args[1..].iter().any(|argument| mentions(argument, name)) {
                call.consumes = Some(place);
            }
        }
        Node::Attribute(attribute) if function == "_?_:_" => {
            if let Root::Conditional { branches, .. } = &mut attribute.root {
                for (branch, expr) in branches.iter_mut().zip(&args[1..]) {
                    if let Root::Value(node) = &mut branch.root {
                        consume(node, expr, name, place);
                    }
                }
            }
        }
        _ => {}
    }
}

fn mentions(expr: &Expr, name: &str) -> bool {
    match &expr.kind {
        ExprKind::Literal(_) => false,
        ExprKind::Ident(ident) => ident == name,
        ExprKind::Select { operand, .. } => mentions(operand, name),
        ExprKind::Call { target, args, .. } => {
            target.iter().any(|target| mentions(target, name)) || args.iter().any(|argument| mentions(argument, name))
        }
        ExprKind::List { elements, .. } => elements.iter().any(|element| mentions(element, name)),
        ExprKind::Map(entries) | ExprKind::Struct { entries, .. } => {
            entries.iter().any(|entry| mentions(&entry.key, name) || mentions(&entry.value, name))
        }
        // An inner comprehension shadows the name with its own accumulator, but not in its range and initial value.
        ExprKind::Comprehension(inner) => {
            let outer = mentions(&inner.range, name) || mentions(&inner.init, name);
            let body = || [&inner.condition, &inner.step, &inner.result].into_iter().any(|part| mentions(part, name));
            outer || (inner.accumulator != name && body())
        }
    }
}
