//! Templates: plain files with holes.
//!
//! `{{name}}` is replaced by a value. A line that is nothing but a hole takes all lines of its value, each as far in
//! as the hole, and vanishes if the value is empty. `%if name`, `%else` and `%end` on lines of their own choose lines
//! by whether a value is empty; `%if !name` the other way round.
//!
//! This is all that the templates need, and it leaves alone what Rust, YAML and GitHub workflows have braces for
//! (`${{ name }}` has spaces). A template that is wrong is a defect of this crate, found by its tests: every template is
//! rendered there.

use std::{borrow::Cow, collections::BTreeMap};

/// Values for the holes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values(BTreeMap<&'static str, Cow<'static, str>>);

impl Values {
    /// With a value.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.0.insert(name, value.into());
        self
    }

    /// With a value that is only asked whether it is there.
    #[must_use]
    pub(crate) fn flag(self, name: &'static str, is_set: bool) -> Self {
        self.with(name, if is_set { "yes" } else { "" })
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("the template's {name:?} must have a value"))
    }
}

/// The text of a template.
pub(crate) fn render(template: &str, values: &Values) -> String {
    let mut text = String::with_capacity(template.len());
    // For each `%if` around the line, whether its lines are taken.
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
    assert!(taken.is_empty(), "%if must have its %end");
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
            // The second brace may begin a hole.
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
    fn holes_within_a_line_are_filled() {
        check("pub struct {{kind}}Spec {}\n", "pub struct FooSpec {}\n");
    }

    #[test]
    fn a_hole_alone_takes_its_lines_with_its_indentation_or_vanishes() {
        check("x\n  {{lines}}\n  {{none}}\ny\n", "x\n  a\n\n  b\ny\n");
    }

    #[test]
    fn lines_are_chosen_by_what_is_set() {
        check("%if set\na\n%if none\nb\n%else\nc\n%end\n%else\nd\n%end\n%if !none\ne\n%end\n", "a\nc\ne\n");
    }

    #[test]
    fn braces_of_others_are_left_alone() {
        check("key: ${{ github.sha }} {{}} {{ {{kind}}\n", "key: ${{ github.sha }} {{}} {{ Foo\n");
        check("use a::{{{kind}}, B};\n", "use a::{Foo, B};\n");
    }
}
