//! Selects the functions to place together, as a short list of prefixes of their paths.

use std::collections::BTreeMap;

/// All functions with the same path.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Function {
    /// Bytes of code.
    pub(super) size: u64,
    /// The number of functions that ran.
    pub(super) ran: u64,
}

/// The memory that a function takes which runs but is not placed with the others: less than the 64 KB that the kernel
/// maps around it, because some are neighbours.
const SCATTERED: u64 = 20_000;
/// The memory that must be saved by a line of the list.
const LINE: u64 = 4_000;

/// Returns the prefixes with the least cost: the size of all functions that they select, of which all are resident,
/// and [`SCATTERED`] bytes for each function that runs and is not selected.
pub(super) fn prefixes(functions: &BTreeMap<String, Function>) -> Vec<String> {
    let mut root = Node::default();
    for (path, function) in functions {
        let mut node = &mut root;
        node.add(*function);
        for token in tokens(path) {
            node = node.children.entry(token).or_default();
            node.add(*function);
        }
    }
    let mut prefixes = Vec::new();
    for (token, child) in &root.children {
        prefixes.extend(child.select((*token).to_owned()).1);
    }
    prefixes
}

/// Functions whose paths begin with the same tokens.
#[derive(Default)]
struct Node<'a> {
    function: Function,
    children: BTreeMap<&'a str, Node<'a>>,
}

impl Node<'_> {
    fn add(&mut self, function: Function) {
        self.function.size += function.size;
        self.function.ran += function.ran;
    }

    /// Returns the least cost of these functions, and the prefixes that lead to it.
    fn select(&self, prefix: String) -> (u64, Vec<String>) {
        if self.function.ran == 0 {
            return (0, Vec::new());
        }
        let own = self.function.ran - self.children.values().map(|child| child.function.ran).sum::<u64>();
        let (mut cost, mut prefixes) = (own * SCATTERED, Vec::new());
        for (token, child) in &self.children {
            let (child_cost, child_prefixes) = child.select(format!("{prefix}{token}"));
            cost += child_cost;
            prefixes.extend(child_prefixes);
        }
        // The shortest of equal prefixes.
        if self.function.size + LINE <= cost {
            return (self.function.size + LINE, vec![prefix]);
        }
        (cost, prefixes)
    }
}

/// Splits a path into identifiers and what is between them.
fn tokens(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let is_name = |character: char| character.is_alphanumeric() || character == '_';
        let end = match rest {
            _ if is_name(first) => rest.find(|character| !is_name(character)).unwrap_or(rest.len()),
            _ if rest.starts_with("::") || rest.starts_with("..") => 2,
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        rest = after;
        Some(token)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_select_what_ran_and_little_else() {
        let functions = [
            ("a::b::one", 1_000, 1),
            ("a::b::two", 1_000, 1),
            ("a::c::rare", 900_000, 1),
            ("a::c::never", 10_000, 0),
            ("d::run", 2_000, 1),
            ("d::run_never", 500_000, 0),
            ("e::<f..g>", 3_000, 0),
        ];
        let functions: BTreeMap<String, Function> = functions
            .iter()
            .map(|(path, size, ran)| ((*path).to_owned(), Function { size: *size, ran: *ran }))
            .collect();
        assert_eq!(prefixes(&functions), ["a::b", "d::run"]);
    }

    #[test]
    fn identifiers_are_not_split() {
        assert_eq!(
            tokens("a_b::<c..D as e>").collect::<Vec<_>>(),
            ["a_b", "::", "<", "c", "..", "D", " ", "as", " ", "e", ">"]
        );
    }
}
