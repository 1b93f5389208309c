//! Run-time cost, counted during evaluation. The numbers match kube-apiserver's, so that the same requests are
//! rejected.
//!
//! Names, fields and indexes cost one each, lists ten, maps thirty, and calls according to [`CallCost`].

use crate::value::{EvalError, Map, Opaque, Value};

/// The cost of creating a list.
pub(crate) const LIST: u64 = 10;
/// The cost of creating a map.
pub(crate) const MAP: u64 = 30;

/// The cost of an authorization check: an expression can afford two.
const CHECK: u64 = 350_000;
/// The cost of creating a struct.
pub(crate) const STRUCT: u64 = 40;

const TRAVERSAL: f64 = 0.1;
const REGEX: f64 = 0.25;

/// Counts cost up to a limit.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    cost: u64,
    limit: u64,
}

impl Meter {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Meter { cost: 0, limit: limit.unwrap_or(u64::MAX) }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Refunds an overcharge.
    pub(crate) fn refund(&mut self, cost: u64) {
        self.cost = self.cost.saturating_sub(cost);
    }

    /// Adds to the cost; fails once the limit is exceeded.
    #[inline]
    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::CostLimitExceeded) } else { Ok(()) }
    }
}

/// Cost formula of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum CallCost {
    /// One.
    Unit,
    /// A traversal of everything in the first argument.
    Traverse,
    /// The size of the first argument, times a factor.
    Size(f64),
    /// The size of the result, times a factor.
    ResultSize(f64),
    /// Matching a regular expression against a string.
    Regex,
    /// Searching for a string in a string.
    Search,
    /// `==`: the smaller size, or one for types of the libraries.
    Equal,
    /// The smaller of both sizes.
    Smaller,
    /// The sum of both sizes.
    Concatenate,
    /// `in` a list.
    Membership,
    /// Whether a CIDR contains an address, given as a string or not.
    ContainsIp(bool),
    /// Whether a CIDR contains another one, given as a string or not.
    ContainsCidr(bool),
    /// Validation against a format.
    Validate,
    /// An authorization check.
    Check,
    /// Parsing a selector.
    Selector,
    /// A list as long as the result.
    MakeList,
    /// A list with the number of elements in the argument, times the depth.
    Flatten,
    /// Comparing every element of an argument with every other.
    SelfCompare(usize),
    /// Comparing every element with every element of the other list, times a factor.
    Sets(f64),
}

impl CallCost {
    /// Returns the cost function of a call; the overload is empty if it is only known at run time.
    pub(crate) fn of(function: &str, overload: &str) -> CallCost {
        match overload {
            "list_slice" | "lists_range" | "list_reverse" => return CallCost::MakeList,
            "list_flatten" | "list_flatten_int" => return CallCost::Flatten,
            "list_distinct" => return CallCost::SelfCompare(0),
            "list_sets_contains_list" | "list_sets_intersects_list" => return CallCost::Sets(1.0),
            "list_sets_equivalent_list" => return CallCost::Sets(2.0),
            _ if overload.starts_with("list_") && overload.ends_with("_sort") => return CallCost::SelfCompare(0),
            _ if overload.starts_with("list_") && overload.ends_with("_sortByAssociatedKeys") => {
                return CallCost::SelfCompare(1);
            }
            _ => {}
        }
        match function {
            "check" => CallCost::Check,
            "fieldSelector" | "labelSelector" => CallCost::Selector,
            "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name" | "allowed"
            | "reason" | "error" | "errored" => CallCost::Unit,
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => CallCost::Traverse,
            "url"
            | "lowerAscii"
            | "upperAscii"
            | "substring"
            | "trim"
            | "jsonpatch.escapeKey"
            | "cidr"
            | "isIP"
            | "isCIDR"
            | "quantity"
            | "isQuantity"
            | "semver"
            | "isSemver" => CallCost::Size(TRAVERSAL),
            "ip" if overload == "cidr_ip" => CallCost::Unit,
            "ip" => CallCost::Size(TRAVERSAL),
            "replace" | "split" | "ip.isCanonical" => CallCost::Size(2.0 * TRAVERSAL),
            "join" => CallCost::ResultSize(2.0 * TRAVERSAL),
            "find" | "findAll" => CallCost::Regex,
            "containsIP" => CallCost::ContainsIp(overload == "cidr_contains_ip_string"),
            "containsCIDR" => CallCost::ContainsCidr(overload == "cidr_contains_cidr_string"),
            "validate" => CallCost::Validate,
            "_==_" => CallCost::Equal,
            "_!=_" => CallCost::Smaller,
            _ => match overload {
                "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" | "strings_quote"
                | "string_format" => CallCost::Size(TRAVERSAL),
                "in_list" => CallCost::Membership,
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes" => CallCost::Smaller,
                "add_string" | "add_bytes" => CallCost::Concatenate,
                "matches_string" => CallCost::Regex,
                "contains_string" => CallCost::Search,
                _ => CallCost::Unit,
            },
        }
    }

    /// Returns whether the cost depends on the result.
    pub(crate) fn needs_result(self) -> bool {
        matches!(self, CallCost::ResultSize(_) | CallCost::MakeList)
    }

    /// Returns kube-apiserver's failure to compute the cost of a call whose argument is not a list, or failed and is
    /// passed as null.
    pub(crate) fn accounting_failure(self, arguments: &[Value<'_>], failed: bool) -> Option<EvalError> {
        let go_type = |value: &Value<'_>| match value {
            Value::Null if failed => "*types.Err",
            value => value.go_type(),
        };
        match self {
            CallCost::SelfCompare(index) => match &arguments[index] {
                Value::List(_) => None,
                value => {
                    let method =
                        if value.is_comparable() && !matches!(value, Value::Bool(_)) { "Contains" } else { "Add" };
                    let kind = go_type(value);
                    Some(EvalError::Internal(format!("{kind} is not traits.Lister: missing method {method}")))
                }
            },
            CallCost::Flatten => match arguments.get(1) {
                None | Some(Value::Int(_)) => None,
                Some(value) => Some(EvalError::Internal(format!("ref.Val is {}, not types.Int", go_type(value)))),
            },
            _ => None,
        }
    }

    /// Returns the cost of a call. Failed arguments are passed as null, a failed result as `None`.
    pub(crate) fn cost(self, arguments: &[Value<'_>], result: Option<&Value<'_>>) -> u64 {
        let size = |index: usize| actual_size(&arguments[index]);
        match self {
            CallCost::Unit => 1,
            CallCost::Traverse => traversal(&arguments[0]),
            CallCost::Size(factor) => scaled(size(0), factor),
            CallCost::ResultSize(factor) => scaled(result.map_or(1, actual_size), factor),
            CallCost::Regex => ((1.0 + size(0) as f64) * TRAVERSAL).ceil() as u64 * scaled(size(1), REGEX),
            CallCost::Search => scaled(size(0), TRAVERSAL) * scaled(size(1), TRAVERSAL),
            CallCost::Equal if matches!(arguments[0], Value::Opaque(_)) => 1,
            CallCost::Equal | CallCost::Smaller => scaled(size(0).min(size(1)), TRAVERSAL),
            CallCost::Concatenate => scaled(size(0) + size(1), TRAVERSAL),
            CallCost::Membership => size(1),
            CallCost::ContainsIp(text) => {
                scaled(2 * size(0), TRAVERSAL) + if text { scaled(size(1), TRAVERSAL) } else { 0 }
            }
            CallCost::ContainsCidr(text) => {
                let compare = scaled(2 * size(0), TRAVERSAL) + scaled(size(0), TRAVERSAL) + 1;
                compare + if text { scaled(size(1), TRAVERSAL) } else { 0 }
            }
            CallCost::Validate => match &arguments[0] {
                Value::Opaque(format) if let Opaque::Format(format) = &**format => {
                    ((1.0 + size(1) as f64) * TRAVERSAL).ceil() as u64 * scaled(format.regex_size, REGEX)
                }
                _ => 1,
            },
            CallCost::Check => CHECK,
            // Every second character may begin a requirement, which is a struct and a list.
            CallCost::Selector => {
                let size = actual_size(&arguments[1]);
                LIST + scaled(size, TRAVERSAL) + scaled(scaled(size, 0.5), (LIST + STRUCT) as f64)
            }
            CallCost::MakeList => made_list(1.0, result.map_or(1, actual_size)),
            CallCost::Flatten => {
                let depth = match arguments.get(1) {
                    Some(Value::Int(depth)) => *depth as f64,
                    _ => 1.0,
                };
                made_list(depth, size(0))
            }
            CallCost::SelfCompare(index) => {
                let first = match &arguments[index] {
                    Value::List(list) => list.get(0),
                    _ => None,
                };
                let factor = match first {
                    Some(Ok(Value::String(_) | Value::Bytes(_))) => 2.0 + TRAVERSAL,
                    _ => 2.0,
                };
                made_list(factor, size(index).saturating_mul(size(index)))
            }
            CallCost::Sets(factor) => 1 + (size(0).saturating_mul(size(1)) as f64 * factor) as u64,
        }
    }
}

fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

fn made_list(factor: f64, size: u64) -> u64 {
    (size as f64 * factor) as u64 + 1 + LIST
}

/// Returns the size of a value; one for values without a size.
fn actual_size(value: &Value<'_>) -> u64 {
    match value {
        Value::Optional(Some(value)) => actual_size(value),
        value => value.size().map_or(1, |size| size as u64),
    }
}

/// Returns the cost of traversing everything in a value.
fn traversal(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => (text.len() as f64 * TRAVERSAL) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * TRAVERSAL) as u64,
        Value::List(list) => list.iter().map(|item| item.map_or(1, |item| traversal(&item))).sum(),
        Value::Map(map) => map_traversal(map),
        _ => 1,
    }
}

fn map_traversal(map: &Map<'_>) -> u64 {
    let value = |key: &Value<'_>| map.find(key).ok().flatten().map_or(1, |value| traversal(&value));
    let keys = map.keys();
    // Fields that are not in the schema are counted as well.
    let unknown = 2 * map.len().saturating_sub(keys.len()) as u64;
    keys.iter().map(|key| traversal(key) + value(key)).sum::<u64>() + unknown
}
