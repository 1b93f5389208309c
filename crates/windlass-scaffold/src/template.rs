//! Templates: plain files with placeholders.
//!
//! `{{name}}` is replaced by a value. A line that consists only of a placeholder is replaced by all lines of the value,
//! each with the same indentation, and is removed if the value is empty. `%if name`, `%else` and `%end` on lines of
//! their own select lines by whether a value is non-empty; `%if !name` negates the condition.
//!
//! The templates need nothing more, and the syntax does not collide with braces in Rust, YAML and GitHub workflows
//! (`${{ name }}` has spaces). A malformed template is a defect of this crate, which its tests find: they render every
//! template.

use std::{borrow::Cow, collections::BTreeMap};

/// Values of placeholders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values(BTreeMap<&'static str, Cow<'static, str>>);

impl Values {
    /// Adds a value.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.0.insert(name, value.into());
        self
    }

    /// Adds a value that is only used in conditions.
    #[must_use]
    pub(crate) fn flag(self, name: &'static str, is_set: bool) -> Self {
        self.with(name, if is_set { "yes" } else { "" })
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("the template placeholder {name:?} has no value"))
    }
}

/// Renders a template.
pub(crate) fn render(template: &str, values: &Values) -> String {
    let mut text = String::with_capacity(template.len());
    // For each enclosing `%if`, whether its lines are included.
    let mut taken: Vec<bool> = Vec::new();
    for line in template.lines() {
        if let Some(condition) = line.strip_prefix("%if ") {
            taken.push(match condition.strip_prefix('!') {
                Some(name) => values.get(name).is_empty(),
                None => !values.get(condition).is_empty(),
            });
        } else if line == "%else" {
            let last = taken.last_mut().expect("%else must follow %if");
            *last = !*last;
        } else if line == "%end" {
            taken.pop().expect("%end must follow %if");
        } else if taken.iter().all(|taken| *taken) {
            render_line(line, values, &mut text);
        }
    }
    assert!(taken.is_empty(), "%if without %end");
    text
}

fn render_line(line: &str, values: &Values, text: &mut String) {
    let trimmed = line.trim_start();
    let alone = trimmed.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).filter(|name| is_name(name));
    if let Some(name) = alone {
        let indent = &line[..line.len() - trimmed.len()];
        for line in values.get(name).lines() {
            if !line.is_empty() {
                text.push_str(indent);
            }
            text.push_str(line);
            text.push('\n');
        }
        return;
    }
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        match after.split_once("}}").filter(|(name, _)| is_name(name)) {
            Some((name, after)) => {
                text.push_str(values.get(name));
                rest = after;
            }
            // The second brace may start a placeholder.
            None => {
                text.push('{');
                rest = &rest[before.len() + 1..];
            }
        }
    }
    text.push_str(rest);
    text.push('\n');
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, expected: &str) {
        let values = Values::default().with("kind", "Foo").with("lines", "a\n\nb").with("none", "").flag("set", true);
        assert_eq!(render(template, &values), expected);
    }

    #[test]
    fn placeholders_within_a_line_are_replaced() {
        check("pub struct {{kind}}Spec {}\n", "pub struct FooSpec {}\n");
    }

    #[test]
    fn a_placeholder_on_its_own_line_is_indented_or_removed() {
        check("x\n  {{lines}}\n  {{none}}\ny\n", "x\n  a\n\n  b\ny\n");
    }

    #[test]
    fn conditions_select_lines() {
        check("%if set\na\n%if none\nb\n%else\nc\n%end\n%else\nd\n%end\n%if !none\ne\n%end\n", "a\nc\ne\n");
    }

    #[test]
    fn other_braces_are_left_alone() {
        check("key: ${{ github.sha }} {{}} {{ {{kind}}\n", "key: ${{ github.sha }} {{}} {{ Foo\n");
        check("use a::{{{kind}}, B};\n", "use a::{Foo, B};\n");
    }
}
