//! Programs whose end is known.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use serde_json::Value;

use super::{Behaviour, shell, variables::Variables};
use crate::containers::items;

/// Maximum nesting depth of shells.
const DEPTH: u32 = 4;
/// Time that a request over the network takes.
const REQUEST: Duration = Duration::from_secs(1);

/// A container that runs: the time that has passed, and what it can see.
pub(super) struct Machine<'a> {
    pub(super) pod: &'a Value,
    container: &'a Value,
    pub(super) variables: &'a Variables,
    restarts: u64,
    pub(super) elapsed: Duration,
    depth: u32,
}

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// It has ended with this code, and the next command runs.
    Next(i64),
    /// The shell has ended with this code.
    Exit(i64),
    /// It never ends.
    Never,
}

impl<'a> Machine<'a> {
    pub(super) fn new(pod: &'a Value, container: &'a Value, variables: &'a Variables, restarts: u64) -> Self {
        Self { pod, container, variables, restarts, elapsed: Duration::ZERO, depth: 0 }
    }

    /// Runs a command line to its end. Returns `None` if the end is not known.
    pub(super) fn run(mut self, line: &[String]) -> Option<Behaviour> {
        Some(match self.program(line)? {
            Flow::Next(code) | Flow::Exit(code) => Behaviour::Ends { after: self.elapsed, code: code & 0xff },
            Flow::Never => Behaviour::Runs,
        })
    }

    /// Runs a program.
    pub(super) fn program(&mut self, line: &[String]) -> Option<Flow> {
        let (program, arguments) = line.split_first()?;
        let name = program.rsplit('/').next().unwrap_or(program);
        match name {
            "true" | ":" => Some(Flow::Next(0)),
            "false" => Some(Flow::Next(1)),
            // They end at once, and what they print does not matter.
            "echo" | "printf" | "date" | "hostname" | "id" | "whoami" | "pwd" | "env" | "touch" | "mkdir" | "cat"
            | "trap" | "export" | "unset" | "cd" | "umask" | "chmod" => Some(Flow::Next(0)),
            "sleep" => self.sleep(arguments),
            "exit" => match arguments {
                [] => Some(Flow::Exit(0)),
                [code] => Some(Flow::Exit(code.parse().ok()?)),
                _ => None,
            },
            "exec" => match self.program(arguments)? {
                Flow::Next(code) => Some(Flow::Exit(code)),
                flow => Some(flow),
            },
            "expr" => Some(Flow::Next(0)),
            "test" => self.test(arguments),
            "[" | "[[" => {
                let (last, condition) = arguments.split_last()?;
                if !matches!(last.as_str(), "]" | "]]") {
                    return None;
                }
                self.test(condition)
            }
            "sh" | "bash" | "ash" | "dash" => self.shell(arguments),
            "wget" | "curl" | "nc" | "nslookup" | "dig" | "ping" if self.is_one_shot() => {
                self.elapsed += REQUEST;
                Some(Flow::Next(0))
            }
            _ => None,
        }
    }

    fn sleep(&mut self, arguments: &[String]) -> Option<Flow> {
        for argument in arguments {
            if matches!(argument.as_str(), "infinity" | "inf") {
                return Some(Flow::Never);
            }
            let unit = argument.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
            let number: f64 = argument[..argument.len() - unit.len()].parse().ok()?;
            let seconds = match unit {
                "" | "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return None,
            };
            self.elapsed = self.elapsed.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        }
        (!arguments.is_empty()).then_some(Flow::Next(0))
    }

    /// Runs `sh -c SCRIPT`. A shell without a script reads from the standard input, which is empty.
    fn shell(&mut self, arguments: &[String]) -> Option<Flow> {
        let [options, script, ..] = arguments else {
            return arguments.is_empty().then_some(Flow::Next(0));
        };
        let options = options.strip_prefix('-').filter(|options| options.ends_with('c'))?;
        if self.depth == DEPTH || !options.chars().all(|option| "cexu".contains(option)) {
            return None;
        }
        self.depth += 1;
        let flow = shell::run(self, script, options.contains('e'));
        self.depth -= 1;
        Some(match flow? {
            Flow::Exit(code) => Flow::Next(code),
            flow => flow,
        })
    }

    fn test(&self, arguments: &[String]) -> Option<Flow> {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let holds = match words[..] {
            ["!", ref rest @ ..] => {
                let rest: Vec<String> = rest.iter().map(|word| (*word).to_owned()).collect();
                return Some(match self.test(&rest)? {
                    Flow::Next(code) => Flow::Next(i64::from(code == 0)),
                    flow => flow,
                });
            }
            ["-z", text] => text.is_empty(),
            ["-n", text] | [text] => !text.is_empty(),
            ["-e" | "-f" | "-r", path] => self.has_file(path)?,
            [left, "=" | "==", right] => left == right,
            [left, "!=", right] => left != right,
            [left, operator, right] => {
                let (left, right): (i64, i64) = (left.parse().ok()?, right.parse().ok()?);
                match operator {
                    "-eq" => left == right,
                    "-ne" => left != right,
                    "-lt" => left < right,
                    "-le" => left <= right,
                    "-gt" => left > right,
                    "-ge" => left >= right,
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(Flow::Next(i64::from(!holds)))
    }

    /// Returns whether a file exists: only files of an `emptyDir` that the script itself touches are known. They exist
    /// when it runs again.
    fn has_file(&self, path: &str) -> Option<bool> {
        let words = ["command", "args"].into_iter().flat_map(|field| items(self.container, field));
        let mut scripts = words.filter_map(Value::as_str);
        let name = path.rsplit('/').next().filter(|name| !name.is_empty())?;
        let touched = scripts.any(|script| script.contains("touch ") && script.contains(name));
        let mounts = items(self.container, "volumeMounts").iter();
        let mut mounts = mounts.filter(|mount| mount["mountPath"].as_str().is_some_and(|at| path.starts_with(at)));
        let volume = mounts.next().map(|mount| &mount["name"])?;
        let volume = items(&self.pod["spec"], "volumes").iter().find(|one| one["name"] == *volume)?;
        (touched && volume.get("emptyDir").is_some()).then_some(self.restarts > 0)
    }

    /// Returns whether the pod is expected to terminate.
    fn is_one_shot(&self) -> bool {
        self.pod["spec"]["restartPolicy"] != "Always"
    }

    /// Returns a random number from 0 to 32767, which is constant for a run of the container.
    pub(super) fn random(&self) -> i64 {
        let mut hasher = DefaultHasher::new();
        (self.pod["metadata"]["uid"].as_str(), self.restarts).hash(&mut hasher);
        i64::from(hasher.finish() as u16 & 0x7fff)
    }
}
