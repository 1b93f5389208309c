//! Estimates the maximum cost of an expression before it runs.
//!
//! The estimate is based on the checked expression and the bounds in the schema: a comprehension costs its body times
//! the maximum number of elements, and a comparison of strings their maximum length. The server rejects rules based on
//! these numbers, so they match kube-apiserver's exactly, including its quirks.

use std::collections::HashMap;

use crate::ast::{Comprehension, Entry, Expr, ExprId, ExprKind, Literal};
use crate::checker::Checked;
use crate::declared::{DeclType, Shape};
use crate::types::Type;

mod estimate;
mod functions;
mod library;
mod path;

pub use estimate::Estimate;

use estimate::EntrySize;
use path::Path;

/// Estimates the cost range of a checked expression over values of a declared type, which every variable is assumed to
/// have.
pub fn estimate(checked: &Checked, root: Option<&DeclType>) -> Estimate {
    let mut coster = Coster {
        checked,
        root,
        paths: HashMap::new(),
        locals: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
    };
    coster.cost(&checked.expr)
}

/// State of an estimation.
struct Coster<'a> {
    checked: &'a Checked,
    root: Option<&'a DeclType>,
    /// Paths through the declared types to the values of expressions.
    paths: HashMap<ExprId, Path>,
    /// Variables of comprehensions, innermost last.
    locals: HashMap<&'a str, Vec<Local>>,
    /// Sizes of results, by expression.
    sizes: HashMap<ExprId, Estimate>,
    /// Sizes of the elements of results, by expression.
    entries: HashMap<ExprId, EntrySize>,
}

/// A variable of a comprehension.
#[derive(Clone)]
struct Local {
    path: Path,
    size: Option<Estimate>,
    entry: Option<EntrySize>,
}

/// An argument or receiver of a call, as seen by the estimates of functions.
struct Node<'a> {
    path: Path,
    kind: &'a Type,
    expr: &'a Expr,
    size: Option<Estimate>,
}

impl<'a> Coster<'a> {
    fn cost(&mut self, expr: &'a Expr) -> Estimate {
        match &expr.kind {
            ExprKind::Literal(_) => Estimate::ZERO,
            ExprKind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => Path::of(name),
                };
                self.paths.insert(expr.id, path);
                Estimate::ONE
            }
            ExprKind::Select { operand, field, test_only } => self.select(expr, operand, field, *test_only),
            ExprKind::Call { target, function, args } => self.call(expr, target.as_deref(), function, args),
            ExprKind::List { elements, .. } => self.create_list(expr, elements),
            ExprKind::Map(entries) => self.create_map(expr, entries),
            ExprKind::Struct { entries, .. } => {
                let fields = entries.iter().fold(Estimate::ZERO, |sum, entry| sum.plus(self.cost(&entry.value)));
                fields.plus(Estimate::fixed(40))
            }
            ExprKind::Comprehension(fold) if is_bind(fold) => self.bind(expr, fold),
            ExprKind::Comprehension(fold) => self.comprehension(expr, fold),
        }
    }

    fn select(&mut self, expr: &'a Expr, operand: &'a Expr, field: &str, test_only: bool) -> Estimate {
        let sum = self.cost(operand);
        if test_only {
            // Testing for the presence of a field costs nothing beyond reaching it.
            return sum;
        }
        let path = self.path(operand).append(field);
        self.paths.insert(expr.id, path);
        match self.checked.type_of(operand.id) {
            Type::Map(..) | Type::Object(_) | Type::Param(_) => sum.plus(Estimate::ONE),
            Type::Opaque(name, _) if is_struct(name) => sum.plus(Estimate::ONE),
            _ => sum,
        }
    }

    fn call(&mut self, expr: &'a Expr, target: Option<&'a Expr>, function: &str, args: &'a [Expr]) -> Estimate {
        if let ("dyn", [only]) = (function, args) {
            let cost = self.cost(only);
            self.copy_sizes(expr, only);
            return Estimate::ONE.plus(cost);
        }
        let mut costs = Vec::with_capacity(args.len());
        let mut nodes = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(arg));
            nodes.push(self.node(arg));
        }
        let checked = self.checked;
        let overloads = checked.overloads(expr.id);
        if overloads.is_empty() {
            return Estimate::ZERO;
        }
        let mut sum = Estimate::ZERO;
        let receiver = target.map(|target| {
            sum = sum.plus(self.cost(target));
            self.node(target)
        });
        let mut cost = Estimate { min: u64::MAX, max: 0 };
        let mut size: Option<Estimate> = None;
        for overload in overloads {
            let call = self.function(expr, function, overload, receiver.as_ref(), &nodes, &costs);
            cost = cost.union(call.cost);
            if let Some(result) = call.size {
                size = Some(size.map_or(result, |size| size.union(result)));
            }
            let step = match *overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), Some(container)) = (step, args.first()) {
                size = self.entry_size(container).map(|entry| entry.value);
                let path = self.path(container).append(step);
                self.paths.insert(expr.id, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        self.set_size(expr, size);
        sum.plus(cost)
    }

    fn create_list(&mut self, expr: &'a Expr, elements: &'a [Expr]) -> Estimate {
        let mut sum = Estimate::ZERO;
        let mut size = if elements.is_empty() { Estimate::ZERO } else { Estimate::EMPTY };
        for element in elements {
            sum = sum.plus(self.cost(element));
            size = size.union(self.size_or_unknown(element));
        }
        self.entries.insert(expr.id, EntrySize { of_map: false, key: Estimate::ONE, value: size });
        sum.plus(Estimate::fixed(10))
    }

    fn create_map(&mut self, expr: &'a Expr, entries: &'a [Entry]) -> Estimate {
        let mut sum = Estimate::ZERO;
        let empty = if entries.is_empty() { Estimate::ZERO } else { Estimate::EMPTY };
        let (mut keys, mut values) = (empty, empty);
        for entry in entries {
            sum = sum.plus(self.cost(&entry.key));
            sum = sum.plus(self.cost(&entry.value));
            keys = keys.union(self.size_or_unknown(&entry.key));
            values = values.union(self.size_or_unknown(&entry.value));
        }
        self.entries.insert(expr.id, EntrySize { of_map: true, key: keys, value: values });
        sum.plus(Estimate::fixed(30))
    }

    fn comprehension(&mut self, expr: &'a Expr, fold: &'a Comprehension) -> Estimate {
        let mut sum = self.cost(&fold.range).plus(self.cost(&fold.init));
        self.push_local(&fold.accumulator, &fold.init);

        let entry = self.entry_size(&fold.range);
        let of_list = match &entry {
            Some(entry) => !entry.of_map,
            None => matches!(self.checked.type_of(fold.range.id), Type::List(_)),
        };
        let keys = entry.as_ref().map(|entry| entry.key);
        let values = entry.as_ref().map(|entry| entry.value);
        let range = self.path(&fold.range);
        match &fold.second {
            Some(second) => {
                self.push(&fold.variable, range.append(if of_list { "@indices" } else { "@keys" }), keys);
                let range = self.path(&fold.range);
                self.push(second, range.append(if of_list { "@items" } else { "@values" }), values);
            }
            None if of_list => self.push(&fold.variable, range.append("@items"), values),
            None => self.push(&fold.variable, range.append("@keys"), keys),
        }

        let condition = self.cost(&fold.condition);
        let step = self.cost(&fold.step);
        self.pop(&fold.variable);
        if let Some(second) = &fold.second {
            self.pop(second);
        }
        sum = sum.plus(self.cost(&fold.result));
        self.pop(&fold.accumulator);

        let count = self.size_or_unknown(&fold.range);
        sum = sum.plus(count.multiply(step.plus(condition)));
        match &fold.init.kind {
            ExprKind::Literal(_) => {
                let size = self.size(&fold.init);
                self.set_size(expr, size);
            }
            ExprKind::List { .. } | ExprKind::Map(_) => {
                self.set_size(expr, Some(count));
                if let Some(entry) = self.entry_size(&fold.step) {
                    self.entries.insert(expr.id, entry);
                }
            }
            _ => {}
        }
        sum
    }

    fn bind(&mut self, expr: &'a Expr, fold: &'a Comprehension) -> Estimate {
        let mut sum = self.cost(&fold.range).plus(self.cost(&fold.init));
        self.push_local(&fold.accumulator, &fold.init);
        sum = sum.plus(self.cost(&fold.result));
        self.pop(&fold.accumulator);
        self.copy_sizes(expr, &fold.result);
        sum
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name)?.last()
    }

    fn push(&mut self, name: &'a str, path: Path, size: Option<Estimate>) {
        self.locals.entry(name).or_default().push(Local { path, size, entry: None });
    }

    fn push_local(&mut self, name: &'a str, expr: &'a Expr) {
        let (path, entry) = (self.path(expr), self.entry_size(expr));
        let size = self.size(expr);
        self.locals.entry(name).or_default().push(Local { path, size, entry });
    }

    fn pop(&mut self, name: &str) {
        if let Some(stack) = self.locals.get_mut(name) {
            stack.pop();
        }
    }

    fn path(&self, expr: &Expr) -> Path {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn node(&mut self, expr: &'a Expr) -> Node<'a> {
        let mut path = self.path(expr);
        if path.first().is_some_and(|first| matches!(&*first, "__result__" | "@result")) {
            path = Path::default();
        }
        Node { path, kind: self.checked.type_of(expr.id), expr, size: self.size(expr) }
    }

    fn set_size(&mut self, expr: &Expr, size: Option<Estimate>) {
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
    }

    fn copy_sizes(&mut self, to: &Expr, from: &'a Expr) {
        let size = self.size(from);
        self.set_size(to, size);
        if let Some(entry) = self.entry_size(from) {
            self.entries.insert(to.id, entry);
        }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Estimate {
        self.size(expr).unwrap_or(Estimate::UNKNOWN)
    }

    /// Returns the size of an expression's value: as computed, or of the literal, or as declared, or from its type, or
    /// from the variable.
    fn size(&mut self, expr: &Expr) -> Option<Estimate> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = written_size(expr) {
            return Some(size);
        }
        if let Some(size) = self.declared_size(&self.path(expr)) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.type_of(expr.id)) {
            return Some(Estimate::ONE);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn entry_size(&self, expr: &Expr) -> Option<EntrySize> {
        if let Some(entry) = self.entries.get(&expr.id) {
            return Some(*entry);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.entry),
            _ => None,
        }
    }

    /// Returns the size that the declared types give to the value at a path, regardless of the variable it starts at.
    fn declared_size(&self, path: &Path) -> Option<Estimate> {
        let mut found = Found::Declared(self.root?);
        path.first()?;
        for step in path.steps().iter().skip(1) {
            found = match (found, &**step) {
                (Found::Declared(declared), "@items" | "@values") => Found::Declared(declared.element()?),
                (Found::Declared(DeclType { shape: Shape::Map(_), .. }), "@keys") => Found::Key,
                (Found::Declared(declared), field) => Found::Declared(declared.field(field)?),
                (Found::Key, _) => return None,
            };
        }
        match found {
            Found::Declared(declared) => Some(Estimate { min: 0, max: declared.max_elements as u64 }),
            // The keys of maps have no declared length.
            Found::Key => Some(Estimate::ZERO),
        }
    }
}

/// The target of a path.
#[derive(Clone, Copy)]
enum Found<'a> {
    Declared(&'a DeclType),
    Key,
}

/// Returns whether a Kubernetes type counts as a struct.
fn is_struct(name: &str) -> bool {
    matches!(name, "kubernetes.Quantity" | "kubernetes.URL" | "kubernetes.Semver" | "kubernetes.NamedFormat")
}

fn is_scalar(kind: &Type) -> bool {
    match kind {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Opaque(name, parameters) if &**name == "optional_type" => parameters.first().is_some_and(is_scalar),
        _ => false,
    }
}

fn written_size(expr: &Expr) -> Option<Estimate> {
    let size = match &expr.kind {
        ExprKind::Literal(Literal::String(text)) => text.chars().count(),
        ExprKind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        ExprKind::Literal(_) => 1,
        ExprKind::List { elements, .. } => elements.len(),
        ExprKind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(Estimate::fixed(size as u64))
}

/// Returns whether a comprehension only binds a name to a value.
fn is_bind(fold: &Comprehension) -> bool {
    matches!(&fold.range.kind, ExprKind::List { elements, .. } if elements.is_empty())
        && matches!(&fold.condition.kind, ExprKind::Literal(Literal::Bool(false)))
        && fold.accumulator != "__result__"
}

#[cfg(test)]
mod tests;
