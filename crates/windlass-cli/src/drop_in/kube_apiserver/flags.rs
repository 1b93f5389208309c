//! The command line of kube-apiserver, which is one of Go's `pflag` package.

use std::collections::BTreeMap;

use windlass_plane::NodePortRange;
use windlass_schema::{go_format::parse_bool, time::parse_duration};

use super::table::FLAGS;

/// A flag of kube-apiserver.
#[derive(Debug)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) meaning: Meaning,
}

/// Type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Needs no value.
    Bool,
    /// Needs no value: whether and how to print the version.
    Version,
    Int,
    Float,
    Duration,
    Ip,
    PortRange,
    Text,
    /// Strings separated by commas; further flags add to the list.
    Strings,
    /// A string per flag.
    TextArray,
    /// `key=value`, separated by commas; further flags add to the list.
    Pairs,
}

/// Meaning of a flag for Windlass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// As in kube-apiserver.
    Used,
    /// Ignored: it tunes something that Windlass lacks, or requests its only behavior.
    Quiet,
    /// Not supported.
    Ignored,
}

/// A parsed command line.
#[derive(Debug)]
pub(super) enum Parsed {
    Help,
    Version,
    Flags(Flags),
}

/// Flags in the order in which they were given.
#[derive(Debug, Default)]
pub(super) struct Flags(Vec<(&'static Flag, String)>);

impl Flags {
    /// The value of a flag; the last one counts.
    pub(super) fn last(&self, name: &str) -> Option<&str> {
        self.values(name).last()
    }

    /// The values of all given flags, by name.
    pub(super) fn shown(&self) -> BTreeMap<String, String> {
        let mut shown = BTreeMap::new();
        for (flag, value) in &self.0 {
            let is_list = matches!(flag.kind, Kind::Strings | Kind::TextArray);
            let values = || self.values(flag.name).collect::<Vec<_>>().join(",");
            shown.insert(flag.name.to_owned(), if is_list { format!("[{}]", values()) } else { value.clone() });
        }
        shown
    }

    /// All values of a flag.
    pub(super) fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(flag, _)| flag.name == name).map(|(_, value)| value.as_str())
    }

    /// The parts of a flag that is a list.
    pub(super) fn list<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.values(name).flat_map(|value| value.split(',')).map(str::trim).filter(|part| !part.is_empty())
    }

    /// Keys and values of a flag with pairs. A key without a value has none.
    pub(super) fn pairs<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
        self.list(name).map(|pair| match pair.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim())),
            None => (pair, None),
        })
    }

    /// Names of given flags, without repetition.
    pub(super) fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.0.iter().map(|(flag, _)| flag.name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Given flags that have no effect here.
    pub(super) fn ignored(&self) -> Vec<&'static str> {
        let ignored = |name: &&str| find(name).is_some_and(|flag| flag.meaning == Meaning::Ignored);
        self.names().into_iter().filter(ignored).collect()
    }
}

/// Finds a flag by its name.
pub(super) fn find(name: &str) -> Option<&'static Flag> {
    FLAGS.binary_search_by_key(&name, |flag| flag.name).ok().map(|index| &FLAGS[index])
}

/// Parses a command line. Errors are those of kube-apiserver.
pub(super) fn parse(arguments: &[String]) -> Result<Parsed, String> {
    let mut flags = Flags::default();
    let mut extra: Vec<&str> = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            extra.extend(arguments.map(String::as_str));
            break;
        }
        if let Some(flag) = argument.strip_prefix("--") {
            if flag.starts_with(['-', '=']) {
                return Err(format!("bad flag syntax: {argument}"));
            }
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (flag, None),
            };
            let flag = find(&name.replace('_', "-")).ok_or_else(|| format!("unknown flag: --{name}"))?;
            flags.add(flag, value, &mut arguments)?;
        } else if let Some(short) = argument.strip_prefix('-').filter(|short| !short.is_empty()) {
            let rest = short.get(1..).unwrap_or_default();
            let name = match short.as_bytes().first() {
                Some(b'v') => "v",
                Some(b'h') => "help",
                _ => {
                    let letter = short.chars().next().unwrap_or_default();
                    return Err(format!("unknown shorthand flag: '{letter}' in {argument}"));
                }
            };
            let flag = find(name).ok_or_else(|| format!("unknown flag: --{name}"))?;
            let value = Some(rest.strip_prefix('=').unwrap_or(rest)).filter(|_| !rest.is_empty());
            flags.add(flag, value, &mut arguments)?;
        } else {
            extra.push(argument);
        }
    }
    if flags.last("help").is_some_and(|value| value == "true") {
        return Ok(Parsed::Help);
    }
    if !extra.is_empty() {
        let quoted: Vec<String> = extra.iter().map(|one| format!("{one:?}")).collect();
        return Err(format!("\"kube-apiserver\" does not take any arguments, got [{}]", quoted.join(" ")));
    }
    if flags.last("version").is_some_and(|value| value != "false") {
        return Ok(Parsed::Version);
    }
    Ok(Parsed::Flags(flags))
}

impl Flags {
    fn add<'a>(
        &mut self,
        flag: &'static Flag,
        value: Option<&str>,
        arguments: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), String> {
        let value = match (value, flag.kind) {
            (Some(value), _) => value,
            (None, Kind::Bool | Kind::Version) => "true",
            (None, _) => arguments.next().ok_or_else(|| match flag.name {
                "v" => "flag needs an argument: 'v' in -v".to_owned(),
                name => format!("flag needs an argument: --{name}"),
            })?,
        };
        check(flag.kind, value).map_err(|problem| {
            let name = if flag.name == "v" { "-v, --v".to_owned() } else { format!("--{}", flag.name) };
            format!("invalid argument {value:?} for {name:?} flag: {problem}")
        })?;
        let value = match (flag.kind, parse_bool(value)) {
            (Kind::Bool, Some(value)) => value.to_string(),
            _ => value.to_owned(),
        };
        self.0.push((flag, value));
        Ok(())
    }
}

/// Checks a value, with the errors of Go.
fn check(kind: Kind, value: &str) -> Result<(), String> {
    let syntax = |function: &str| format!("strconv.{function}: parsing {value:?}: invalid syntax");
    match kind {
        Kind::Bool => parse_bool(value).map(drop).ok_or_else(|| syntax("ParseBool")),
        Kind::Int => match value.parse::<i128>() {
            Ok(number) if i64::try_from(number).is_err() => {
                Err(format!("strconv.ParseInt: parsing {value:?}: value out of range"))
            }
            Ok(_) => Ok(()),
            Err(_) => Err(syntax("ParseInt")),
        },
        Kind::Float => value.parse::<f64>().map(drop).map_err(|_| syntax("ParseFloat")),
        Kind::Duration => parse_duration(value).map(drop),
        Kind::Ip => {
            value.trim().parse::<std::net::IpAddr>().map(drop).map_err(|_| format!("failed to parse IP: {value:?}"))
        }
        Kind::PortRange => value.parse::<NodePortRange>().map(drop).map_err(|error| error.to_string()),
        Kind::Version | Kind::Text | Kind::Strings | Kind::TextArray | Kind::Pairs => Ok(()),
    }
}

/// The list of all flags. envtest looks for names at the beginning of lines.
pub(super) fn help() -> String {
    let list = |meaning: Meaning| -> String {
        FLAGS.iter().filter(|flag| flag.meaning == meaning).map(|flag| format!("      --{}\n", flag.name)).collect()
    };
    format!(
        "Serve the API of Kubernetes from windlass, with the flags of kube-apiserver.\n\nUsage:\n  kube-apiserver [flags]\n\n\
         Flags with the meaning that they have in kube-apiserver:\n{}\n\
         Flags that tune what windlass does not have, or ask for what it always does:\n{}\n\
         Flags that are accepted with a warning, and have no effect:\n{}\n\
         Environment:\n\
         \x20     WINDLASS_CONTROLLERS   control loops to run, such as '*'; none by default\n\
         \x20     WINDLASS_NODES         number of simulated nodes; 0 by default\n",
        list(Meaning::Used),
        list(Meaning::Quiet),
        list(Meaning::Ignored),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Flags, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&arguments)? {
            Parsed::Flags(flags) => Ok(flags),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(FLAGS.is_sorted_by(|one, next| one.name < next.name), "no flag is listed twice");
        assert!(FLAGS.iter().all(|flag| find(flag.name).is_some()));
    }

    #[test]
    fn values_follow_the_flag_or_are_the_next_argument() {
        let flags = parsed(
            "--secure-port=1 --bind-address 127.0.0.1 --allow-privileged --anonymous-auth=0 -v3 --secure_port=2",
        );
        let flags = flags.unwrap();
        let expected = [("secure-port", "2"), ("bind-address", "127.0.0.1"), ("allow-privileged", "true")];
        for (name, value) in expected.into_iter().chain([("anonymous-auth", "false"), ("v", "3")]) {
            assert_eq!(flags.last(name), Some(value), "{name}");
        }
        let flags =
            parsed("--feature-gates=A=true,B=false --feature-gates C --etcd-servers=http://a:1,http://b:2").unwrap();
        let gates: Vec<_> = flags.pairs("feature-gates").collect();
        assert_eq!(gates, [("A", Some("true")), ("B", Some("false")), ("C", None)]);
        assert_eq!(flags.list("etcd-servers").collect::<Vec<_>>(), ["http://a:1", "http://b:2"]);
        assert_eq!(parsed("--cors-allowed-origins=a --profiling=false").unwrap().ignored(), ["cors-allowed-origins"]);
    }

    #[test]
    fn wrong_command_lines_are_rejected_with_the_messages_of_kube_apiserver() {
        for (line, expected) in [
            ("--foo", "unknown flag: --foo"),
            ("--insecure-port=0", "unknown flag: --insecure-port"),
            ("-x", "unknown shorthand flag: 'x' in -x"),
            ("--=a", "bad flag syntax: --=a"),
            ("--secure-port", "flag needs an argument: --secure-port"),
            ("extra", "\"kube-apiserver\" does not take any arguments, got [\"extra\"]"),
            ("--allow-privileged true", "\"kube-apiserver\" does not take any arguments, got [\"true\"]"),
            (
                "--secure-port=abc",
                "invalid argument \"abc\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"abc\": invalid syntax",
            ),
            (
                "--allow-privileged=maybe",
                "invalid argument \"maybe\" for \"--allow-privileged\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (
                "--service-node-port-range=9-8",
                "invalid argument \"9-8\" for \"--service-node-port-range\" flag: end port cannot be less than start port: 9-8",
            ),
            ("--bind-address=abc", "invalid argument \"abc\" for \"--bind-address\" flag: failed to parse IP: \"abc\""),
            (
                "--request-timeout=abc",
                "invalid argument \"abc\" for \"--request-timeout\" flag: time: invalid duration \"abc\"",
            ),
        ] {
            assert_eq!(parsed(line).unwrap_err(), expected, "{line}");
        }
    }

    #[test]
    fn help_has_a_line_for_every_flag() {
        let help = help();
        for flag in FLAGS {
            assert!(help.contains(&format!("\n      --{}\n", flag.name)), "{}", flag.name);
        }
        assert!(matches!(parse(&["--help".to_owned()]), Ok(Parsed::Help)));
        assert!(matches!(parse(&["--version".to_owned()]), Ok(Parsed::Version)));
    }
}
