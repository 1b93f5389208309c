//! Costs of the operators and functions of the core language.

use super::estimate::{CallEstimate, Estimate};
use super::{Coster, Node};
use crate::ast::{Expr, ExprKind, Literal};

/// Cost per character of traversing a string.
pub(super) const TRAVERSAL: f64 = 0.1;
/// Cost per character of a regular expression.
pub(super) const REGEX: f64 = 0.25;

impl<'a> Coster<'a> {
    /// Returns the cost of one overload of a call, including its arguments.
    pub(super) fn function(
        &mut self,
        expr: &'a Expr,
        function: &str,
        overload: &str,
        target: Option<&Node<'a>>,
        args: &[Node<'a>],
        costs: &[Estimate],
    ) -> CallEstimate {
        let sum = costs.iter().fold(Estimate::ZERO, |sum, cost| sum.plus(*cost));
        let library = self.extension(overload, target, args).or_else(|| self.library(function, overload, target, args));
        if let Some(call) = library {
            return CallEstimate { cost: call.cost.plus(sum), size: call.size };
        }
        match (overload, target, args) {
            ("logical_or" | "logical_and", _, [_, _]) => {
                return CallEstimate::cost(Estimate { min: costs[0].min, max: costs[0].plus(costs[1]).max });
            }
            ("conditional", _, [_, then, otherwise]) => {
                let size = known(then).union(known(otherwise));
                if let (Some(a), Some(b)) = (self.entry_size(then.expr), self.entry_size(otherwise.expr)) {
                    self.entries.insert(expr.id, a.union(b));
                }
                return CallEstimate::sized(costs[0].plus(costs[1].union(costs[2])), size);
            }
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                let size = known(left).plus(known(right));
                if let (Some(a), Some(b)) = (self.entry_size(left.expr), self.entry_size(right.expr)) {
                    self.entries.insert(expr.id, a.union(b));
                }
                let cost = if overload == "add_list" { Estimate::ONE } else { size.scale(TRAVERSAL) };
                return CallEstimate::sized(cost.plus(sum), size);
            }
            _ => {}
        }
        let call = plain(overload, target, args).unwrap_or_else(|| CallEstimate::cost(Estimate::ONE));
        CallEstimate { cost: call.cost.plus(sum), size: call.size }
    }

    /// Returns the cost of functions of the set and list extensions.
    fn extension(&self, overload: &str, target: Option<&Node<'a>>, args: &[Node<'a>]) -> Option<CallEstimate> {
        let allocating = |factor: f64, size: Estimate| {
            CallEstimate::sized(size.scale(factor).plus(Estimate::ONE).plus(Estimate::fixed(10)), size)
        };
        let quadratic = |factor: f64, size: Estimate| allocating(factor, size.multiply(size));
        match (overload, target, args) {
            ("list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list", _, [a, b]) => {
                let factor = if overload == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
                let product = self.node_size(a).multiply(self.node_size(b));
                Some(CallEstimate::cost(product.scale(factor).plus(Estimate::ONE)))
            }
            ("list_slice", Some(list), [from, to]) => {
                let end = literal_or(to, self.node_size(list).max);
                Some(allocating(1.0, Estimate::fixed(end.wrapping_sub(literal_or(from, 0)))))
            }
            ("lists_range", None, [count]) => Some(allocating(1.0, Estimate::fixed(literal_or(count, u64::MAX)))),
            ("list_reverse", Some(list), []) => Some(allocating(1.0, self.node_size(list))),
            ("list_flatten", Some(list), []) => Some(allocating(1.0, self.node_size(list))),
            ("list_flatten_int", Some(list), [depth]) => {
                Some(allocating(literal_or(depth, u64::MAX) as f64, self.node_size(list)))
            }
            ("list_distinct", Some(list), []) => Some(quadratic(2.0, self.node_size(list))),
            _ => {
                let (by, element) = match overload.strip_prefix("list_")? {
                    rest if rest.ends_with("_sortByAssociatedKeys") => {
                        (true, rest.strip_suffix("_sortByAssociatedKeys")?)
                    }
                    rest => (false, rest.strip_suffix("_sort")?),
                };
                let factor = if matches!(element, "string" | "bytes") { 2.0 + TRAVERSAL } else { 2.0 };
                match (by, target, args) {
                    (false, Some(list), []) => Some(quadratic(factor, self.node_size(list))),
                    (true, Some(_), [keys]) => Some(quadratic(factor, self.node_size(keys))),
                    _ => None,
                }
            }
        }
    }

    /// Returns the size of an argument, as used by the libraries.
    pub(super) fn node_size(&self, node: &Node<'a>) -> Estimate {
        node.size.or_else(|| self.declared_size(&node.path)).unwrap_or(Estimate::UNKNOWN)
    }
}

/// Returns the size of an argument, as used by the core language.
fn known(node: &Node<'_>) -> Estimate {
    node.size.unwrap_or(Estimate::UNKNOWN)
}

fn plain(overload: &str, target: Option<&Node<'_>>, args: &[Node<'_>]) -> Option<CallEstimate> {
    Some(match (overload, target, args) {
        ("string_format", Some(target), _) => CallEstimate::cost(known(target).scale(TRAVERSAL)),
        ("string_to_bytes", _, [text]) => {
            let size = known(text);
            let result = Estimate { min: size.min, max: size.max.wrapping_mul(4) };
            CallEstimate::sized(size.scale(TRAVERSAL), result)
        }
        ("bytes_to_string", _, [bytes]) => {
            let size = known(bytes);
            CallEstimate::sized(size.scale(TRAVERSAL), Estimate { min: size.min / 4, max: size.max })
        }
        ("strings_quote", _, [text]) => {
            let size = known(text);
            let max = size.max.wrapping_mul(2).wrapping_add(2);
            CallEstimate::sized(size.scale(TRAVERSAL), Estimate { min: size.min.wrapping_add(2), max })
        }
        ("starts_with_string" | "ends_with_string", _, [part]) => CallEstimate::cost(known(part).scale(TRAVERSAL)),
        ("in_list", _, [_, list]) => CallEstimate::cost(known(list).scale(1.0)),
        ("matches_string", Some(text), [pattern]) => {
            let text = known(text).plus(Estimate::ONE).scale(TRAVERSAL);
            CallEstimate::cost(text.multiply(known(pattern).scale(REGEX)))
        }
        ("contains_string", Some(text), [part]) => {
            CallEstimate::cost(known(text).scale(TRAVERSAL).multiply(known(part).scale(TRAVERSAL)))
        }
        (
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals",
            _,
            [left, right],
        ) => {
            let max = known(left).max.min(known(right).max);
            CallEstimate::cost(Estimate { min: u64::from(max > 0), max }.scale(TRAVERSAL))
        }
        _ => return None,
    })
}

/// Returns the value of an argument that is a non-negative integer literal.
fn literal_or(node: &Node<'_>, otherwise: u64) -> u64 {
    match &node.expr.kind {
        ExprKind::Literal(Literal::Int(value)) => u64::try_from(*value).unwrap_or(0),
        _ => otherwise,
    }
}
