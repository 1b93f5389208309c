//! Costs of the functions that Kubernetes adds.

use super::estimate::{CallEstimate, Estimate};
use super::functions::{REGEX, TRAVERSAL};
use super::{Coster, Node};
use crate::ast::{ExprKind, Literal};
use crate::types::Type;

/// Assumed length of the pattern of a named format.
const FORMAT_PATTERN: f64 = 128.0;
/// Maximum length of a format name.
const FORMAT_NAME: u64 = 64;

impl<'a> Coster<'a> {
    /// Returns the cost of calling a Kubernetes function, without its arguments; `None` for functions of the core
    /// language.
    pub(super) fn library(
        &self,
        function: &str,
        overload: &str,
        target: Option<&Node<'a>>,
        args: &[Node<'a>],
    ) -> Option<CallEstimate> {
        let one = CallEstimate::cost(Estimate::ONE);
        let traverse = |node: &Node<'a>| CallEstimate::cost(self.node_size(node).scale(TRAVERSAL));
        match (function, target, args) {
            ("check", ..) => Some(CallEstimate::cost(Estimate::fixed(350_000))),
            (
                "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name" | "allowed"
                | "reason" | "error" | "errored",
                ..,
            ) => Some(one),
            ("fieldSelector" | "labelSelector", _, [selector]) => Some(CallEstimate::cost(self.selector(selector))),
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
                Some(CallEstimate::cost(self.search(target)))
            }
            ("url" | "jsonpatch.escapeKey", _, [text]) => {
                Some(CallEstimate { size: Some(self.node_size(text)), ..traverse(text) })
            }
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
                Some(CallEstimate { size: Some(self.node_size(text)), ..traverse(text) })
            }
            ("replace", Some(text), [from, to, ..]) => Some(self.replace(text, from, to)),
            ("split", Some(text), _) => {
                let size = self.node_size(text);
                let max = match args.get(1).map(|limit| &limit.expr.kind) {
                    Some(ExprKind::Literal(Literal::Int(limit))) => *limit as u64,
                    _ => size.max,
                };
                Some(CallEstimate::sized(size.scale(2.0 * TRAVERSAL), Estimate { min: 0, max }))
            }
            ("join", Some(list), _) => Some(self.join(list, args.first())),
            ("find" | "findAll", Some(text), [pattern, ..]) => {
                let size = self.node_size(text);
                let cost = size.plus(Estimate::ONE).scale(TRAVERSAL).multiply(self.node_size(pattern).scale(REGEX));
                Some(CallEstimate::sized(cost, Estimate { min: 0, max: size.max }))
            }
            ("ip", ..) if overload == "cidr_ip" => Some(one),
            ("cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", _, [text, ..]) => {
                Some(traverse(text))
            }
            ("ip.isCanonical", _, [text, ..]) => Some(CallEstimate::cost(self.node_size(text).scale(2.0 * TRAVERSAL))),
            (
                "masked"
                | "prefixLength"
                | "family"
                | "isUnspecified"
                | "isLoopback"
                | "isLinkLocalMulticast"
                | "isLinkLocalUnicast"
                | "isGlobalUnicast",
                ..,
            ) => Some(one),
            ("containsIP" | "containsCIDR", _, [other, ..]) => {
                // An address has four or sixteen bytes.
                let address = Estimate { min: 4, max: 16 };
                let mut cost = address.plus(address).scale(TRAVERSAL);
                if function == "containsCIDR" {
                    cost = cost.plus(address.scale(TRAVERSAL)).plus(Estimate::ONE);
                }
                if matches!(overload, "cidr_contains_ip_string" | "cidr_contains_cidr_string") {
                    cost = cost.plus(self.node_size(other).scale(TRAVERSAL));
                }
                Some(CallEstimate::cost(cost))
            }
            ("validate", _, [text, ..]) => {
                Some(CallEstimate::cost(self.node_size(text).scale(TRAVERSAL).scale(FORMAT_PATTERN * REGEX)))
            }
            (
                "format.named" | "sign" | "asInteger" | "isInteger" | "asApproximateFloat" | "isGreaterThan"
                | "isLessThan" | "compareTo" | "add" | "sub" | "major" | "minor" | "patch" | "getScheme"
                | "getHostname" | "getHost" | "getPort" | "getEscapedPath" | "getQuery",
                ..,
            ) => Some(one),
            ("_==_", _, [left, right]) if left.kind == right.kind => equality(left.kind, right),
            _ => None,
        }
    }

    fn selector(&self, text: &Node<'a>) -> Estimate {
        let size = self.node_size(text);
        // Two characters make up a requirement, which is a struct and a list.
        let requirements = size.scale(0.5).scale(50.0);
        Estimate::fixed(10).plus(size.scale(TRAVERSAL)).plus(requirements)
    }

    /// Returns the cost of visiting all elements of a list, or all characters of a string.
    fn search(&self, target: &Node<'a>) -> Estimate {
        let Some(element) = first_parameter(target.kind) else { return self.node_size(target).scale(TRAVERSAL) };
        let mut each = Estimate::ONE;
        if matches!(element, Type::String | Type::Bytes) {
            each = each.plus(self.element_size(target).scale(TRAVERSAL));
        }
        self.node_size(target).multiply(each)
    }

    fn element_size(&self, list: &Node<'a>) -> Estimate {
        if list.path.first().is_none() {
            return Estimate::UNKNOWN;
        }
        self.declared_size(&list.path.extended("@items")).unwrap_or(Estimate::UNKNOWN)
    }

    fn replace(&self, text: &Node<'a>, from: &Node<'a>, to: &Node<'a>) -> CallEstimate {
        let size = self.node_size(text);
        let from = self.node_size(from);
        let to = self.node_size(to);
        let (mut count, mut kept) = (Estimate::ZERO, Estimate::ZERO);
        if from.min == 0 {
            // Replacing the empty string inserts the replacement around every character.
            count.max = size.max.saturating_add(1);
            kept.max = size.max;
        } else if to.max <= from.min {
            kept.max = size.max;
        } else {
            count.max = divide_up(size.max, from.min);
        }
        if from.max == 0 {
            count.min = size.min.saturating_add(1);
            kept.min = size.min;
        } else if from.max <= to.min {
            kept.min = size.min;
        } else {
            count.min = divide_up(size.min, from.max);
        }
        CallEstimate::sized(size.scale(2.0 * TRAVERSAL), count.multiply(to).plus(kept))
    }

    fn join(&self, list: &Node<'a>, separator: Option<&Node<'a>>) -> CallEstimate {
        let count = self.node_size(list);
        let mut size = match first_parameter(list.kind) {
            Some(_) => count.multiply(self.element_size(list)),
            None => Estimate::ZERO,
        };
        if let Some(separator) = separator {
            let separators = Estimate { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
            size = size.plus(self.node_size(separator).multiply(separators));
        }
        CallEstimate::sized(size.scale(TRAVERSAL), size)
    }
}

/// Returns the cost of comparing values of types that Kubernetes adds.
fn equality(kind: &Type, right: &Node<'_>) -> Option<CallEstimate> {
    let name = match kind {
        Type::Opaque(name, _) | Type::Object(name) => &**name,
        _ => return None,
    };
    let cost = match name {
        "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver" => Estimate::ONE,
        "kubernetes.NamedFormat" => Estimate { min: 1, max: FORMAT_NAME }.scale(TRAVERSAL),
        "kubernetes.URL" => Estimate { min: 1, max: right.size.map_or(1, |size| size.max) }.scale(TRAVERSAL),
        _ if name.starts_with("kubernetes.authorization.") => Estimate::ONE,
        _ => return None,
    };
    Some(CallEstimate::cost(cost))
}

fn first_parameter(kind: &Type) -> Option<&Type> {
    match kind {
        Type::List(element) => Some(element),
        Type::Map(key, _) => Some(key),
        Type::Type(of) => Some(of),
        Type::Opaque(_, parameters) => parameters.first(),
        _ => None,
    }
}

/// Divides and rounds up, using floats; a result that does not fit becomes 2^63.
fn divide_up(size: u64, by: u64) -> u64 {
    let quotient = (size as f64 / by as f64).ceil();
    if quotient >= 18_446_744_073_709_551_616.0 { 1 << 63 } else { quotient as u64 }
}
