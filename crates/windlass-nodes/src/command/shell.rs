//! Short shell scripts: sequences, conditions, and loops that never end.

use super::{
    program::{Flow, Machine},
    words::{Part, Token, tokens},
};

/// Words that are not commands where a command is expected.
const RESERVED: [&str; 13] =
    ["then", "elif", "else", "fi", "do", "done", "for", "case", "esac", "in", "function", "{", "}"];

/// Runs a script. `exits_on_error` is `set -e`. Returns `None` if its end is not known.
pub(super) fn run(machine: &mut Machine<'_>, script: &str, exits_on_error: bool) -> Option<Flow> {
    let tokens = tokens(script)?;
    let mut shell = Shell { machine, tokens: &tokens, at: 0, runs: true, exits_on_error };
    let flow = shell.list(&[])?;
    (shell.at == tokens.len()).then_some(flow)
}

/// A recursive-descent parser that runs what it parses, or skips it.
struct Shell<'a, 'b> {
    machine: &'a mut Machine<'b>,
    tokens: &'a [Token],
    at: usize,
    /// Whether commands run; otherwise they are only parsed.
    runs: bool,
    exits_on_error: bool,
}

impl Shell<'_, '_> {
    /// Runs commands until one of these keywords.
    fn list(&mut self, end: &[&str]) -> Option<Flow> {
        let mut last = Flow::Next(0);
        loop {
            while self.accept(";") {}
            let ends = self.peek().is_none_or(|token| token.keyword().is_some_and(|word| end.contains(&word)));
            if ends {
                return Some(last);
            }
            let runs = self.runs && matches!(last, Flow::Next(_));
            let flow = self.with(runs, Self::and_or)?;
            if runs {
                last = flow;
            }
        }
    }

    fn and_or(&mut self) -> Option<Flow> {
        let mut last = self.pipeline()?;
        let mut judged = true;
        loop {
            let wants_success = match self.peek() {
                Some(Token::Operator("&&")) => true,
                Some(Token::Operator("||")) => false,
                _ => break,
            };
            self.at += 1;
            while self.accept(";") {}
            let runs = self.runs && matches!(last, Flow::Next(code) if (code == 0) == wants_success);
            let flow = self.with(runs, Self::pipeline)?;
            if runs {
                last = flow;
            }
            // Only the failure of the last command of a list ends a script with `set -e`.
            judged = runs;
        }
        match last {
            Flow::Next(code) if self.runs && code != 0 && self.exits_on_error && judged => Some(Flow::Exit(code)),
            flow => Some(flow),
        }
    }

    fn pipeline(&mut self) -> Option<Flow> {
        let inverted = self.keyword("!");
        let mut last = self.command()?;
        while self.accept("|") {
            match self.command()? {
                Flow::Exit(code) => last = Flow::Next(code),
                flow => last = flow,
            }
        }
        Some(match last {
            Flow::Next(code) if inverted => Flow::Next(i64::from(code == 0)),
            flow => flow,
        })
    }

    fn command(&mut self) -> Option<Flow> {
        if self.keyword("if") {
            return self.conditional();
        }
        if self.keyword("while") {
            return self.endless(0);
        }
        if self.keyword("until") {
            return self.endless(1);
        }
        self.simple()
    }

    /// `if LIST; then LIST; [elif LIST; then LIST;]... [else LIST;] fi`, after `if`.
    fn conditional(&mut self) -> Option<Flow> {
        let runs = self.runs;
        let mut result = None;
        loop {
            let tests = runs && result.is_none();
            let condition = self.quietly(tests, |shell| shell.list(&["then"]))?;
            self.expect("then")?;
            let holds = tests && condition == Flow::Next(0);
            let flow = self.with(holds, |shell| shell.list(&["elif", "else", "fi"]))?;
            if holds {
                result = Some(flow);
            } else if tests && !matches!(condition, Flow::Next(_)) {
                result = Some(condition);
            }
            if self.keyword("elif") {
                continue;
            }
            if self.keyword("else") {
                let runs = runs && result.is_none();
                let flow = self.with(runs, |shell| shell.list(&["fi"]))?;
                if runs {
                    result = Some(flow);
                }
            }
            self.expect("fi")?;
            return Some(result.unwrap_or(Flow::Next(0)));
        }
    }

    /// `while true; do LIST; done`, after `while`: runs the list once. A loop that ends by its condition is not known.
    fn endless(&mut self, code: i64) -> Option<Flow> {
        let runs = self.runs;
        let condition = self.quietly(runs, |shell| shell.list(&["do"]))?;
        self.expect("do")?;
        let flow = self.list(&["done"])?;
        self.expect("done")?;
        match (runs, condition, flow) {
            (false, ..) => Some(Flow::Next(0)),
            (true, Flow::Next(got), Flow::Next(_)) if got == code => Some(Flow::Never),
            (true, Flow::Next(got), flow) if got == code => Some(flow),
            _ => None,
        }
    }

    fn simple(&mut self) -> Option<Flow> {
        if self.peek().and_then(Token::keyword).is_some_and(|word| RESERVED.contains(&word)) {
            return None;
        }
        let mut line = Vec::new();
        while let Some(Token::Word { parts, .. }) = self.peek() {
            let parts = parts.clone();
            self.at += 1;
            line.push(if self.runs { self.expand(&parts)? } else { String::new() });
        }
        if line.is_empty() {
            return None;
        }
        if !self.runs {
            return Some(Flow::Next(0));
        }
        match line.first().map(String::as_str) {
            // Assignments, functions and control of loops are not supported.
            Some(first) if first.contains('=') || matches!(first, "break" | "continue" | "return") => None,
            Some("set") => {
                for option in &line[1..] {
                    self.exits_on_error |= option.starts_with('-') && option.contains('e');
                }
                Some(Flow::Next(0))
            }
            _ => self.machine.program(&line),
        }
    }

    fn expand(&self, parts: &[Part]) -> Option<String> {
        let texts = parts.iter().map(|part| match part {
            Part::Text(text) => Some(text.clone()),
            Part::Variable(name) => self.variable(name),
            Part::Arithmetic(expression) => self.arithmetic(expression).map(|number| number.to_string()),
            Part::Command(command) => {
                let words = command.strip_prefix("expr ")?;
                self.arithmetic(words).map(|number| number.to_string())
            }
        });
        texts.collect()
    }

    fn variable(&self, name: &str) -> Option<String> {
        match name {
            "RANDOM" => Some(self.machine.random().to_string()),
            "HOSTNAME" => self.machine.pod["metadata"]["name"].as_str().map(str::to_owned),
            name => self.machine.variables.get(name),
        }
    }

    /// Returns the value of `NUMBER [OPERATOR NUMBER]...`, from left to right and without precedence: an expression
    /// with different operators is not known.
    fn arithmetic(&self, expression: &str) -> Option<i64> {
        let mut words = expression.split_whitespace();
        let mut value = self.number(words.next()?)?;
        let mut only = None;
        while let Some(operator) = words.next() {
            if *only.get_or_insert(operator) != operator {
                return None;
            }
            let right = self.number(words.next()?)?;
            value = match operator {
                "+" => value.checked_add(right)?,
                "-" => value.checked_sub(right)?,
                "*" => value.checked_mul(right)?,
                "/" => value.checked_div(right)?,
                "%" => value.checked_rem(right)?,
                _ => return None,
            };
        }
        Some(value)
    }

    fn number(&self, word: &str) -> Option<i64> {
        let name = word.trim_start_matches('$').trim_start_matches('{').trim_end_matches('}');
        match name.parse() {
            Ok(number) => Some(number),
            Err(_) => self.variable(name)?.parse().ok(),
        }
    }

    /// Runs a part of the script, or only parses it.
    fn with(&mut self, runs: bool, part: impl FnOnce(&mut Self) -> Option<Flow>) -> Option<Flow> {
        let before = std::mem::replace(&mut self.runs, runs);
        let flow = part(self);
        self.runs = before;
        flow
    }

    /// Runs a condition, whose failure does not end a script with `set -e`.
    fn quietly(&mut self, runs: bool, part: impl FnOnce(&mut Self) -> Option<Flow>) -> Option<Flow> {
        let before = std::mem::replace(&mut self.exits_on_error, false);
        let flow = self.with(runs, part);
        self.exits_on_error = before;
        flow
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn accept(&mut self, operator: &str) -> bool {
        let accepts = matches!(self.peek(), Some(Token::Operator(found)) if *found == operator);
        self.at += usize::from(accepts);
        accepts
    }

    fn keyword(&mut self, word: &str) -> bool {
        let accepts = self.peek().and_then(Token::keyword) == Some(word);
        self.at += usize::from(accepts);
        accepts
    }

    fn expect(&mut self, word: &str) -> Option<()> {
        self.keyword(word).then_some(())
    }
}
