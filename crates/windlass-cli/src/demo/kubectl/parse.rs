//! Parsing of commands.

use anyhow::{Context as _, bail};

use super::{Kind, kind};

/// A parsed command.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Line {
    Get(Selection, Output),
    Apply { file: String },
    Delete(Selection),
    Scale { kind: &'static Kind, name: String, replicas: u32 },
    Taint { node: String, taint: Taint },
}

/// Selection of objects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Selection {
    pub(in super::super) kinds: Vec<&'static Kind>,
    pub(in super::super) name: Option<String>,
    pub(in super::super) labels: Option<String>,
    pub(in super::super) fields: Option<String>,
}

/// Output format.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Output {
    /// The server's columns.
    Table,
    /// Custom columns: headings and paths.
    Columns(Vec<(String, String)>),
    /// One field of an object.
    Field(String),
}

/// Change of a node's taints.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Taint {
    Add { key: String, value: String, effect: String },
    Remove { key: String },
}

impl Line {
    /// Parses a command.
    pub(in super::super) fn parse(line: &str) -> anyhow::Result<Self> {
        Self::understand(line).with_context(|| format!("cannot parse: {line}"))
    }

    fn understand(line: &str) -> anyhow::Result<Self> {
        let mut words = Words::split(line.strip_prefix("kubectl ").context("it does not begin with kubectl")?);
        let verb = words.next().context("the verb is missing")?;
        let line = match verb.as_str() {
            "get" => {
                let output = words.option("-o")?;
                // The story itself watches until its condition is met.
                words.flag("-w");
                Self::Get(words.selection()?, output.map_or(Ok(Output::Table), |text| shown(&text))?)
            }
            "apply" => Self::Apply { file: words.option("-f")?.context("apply needs -f")? },
            "delete" => {
                words.flag("--wait=false");
                Self::Delete(words.selection()?)
            }
            "scale" => {
                let replicas = words.option("--replicas")?.context("scale needs --replicas")?.parse()?;
                let Selection { kinds, name, .. } = words.selection()?;
                let [kind] = kinds[..] else { bail!("scale accepts only one kind") };
                Self::Scale { kind, name: name.context("scale needs a name")?, replicas }
            }
            "taint" => {
                if words.next().as_deref() != Some("nodes") {
                    bail!("only nodes have taints");
                }
                let node = words.next().context("taint needs a node")?;
                Self::Taint { node, taint: taint(&words.next().context("taint needs a taint")?)? }
            }
            other => bail!("unsupported verb {other}"),
        };
        match words.0.first() {
            Some(word) => bail!("unexpected argument {word:?}"),
            None => Ok(line),
        }
    }
}

fn shown(output: &str) -> anyhow::Result<Output> {
    if let Some(path) = output.strip_prefix("jsonpath='{").and_then(|rest| rest.strip_suffix("}'")) {
        return Ok(Output::Field(path.to_owned()));
    }
    let columns = output.strip_prefix("custom-columns=").context("-o accepts only custom-columns and jsonpath")?;
    let column = |text: &str| {
        let (heading, path) = text.split_once(':').context("a column must be HEADING:PATH")?;
        Ok((heading.to_owned(), path.to_owned()))
    };
    Ok(Output::Columns(columns.split(',').map(column).collect::<anyhow::Result<_>>()?))
}

fn taint(text: &str) -> anyhow::Result<Taint> {
    if let Some(key) = text.strip_suffix('-') {
        return Ok(Taint::Remove { key: key.to_owned() });
    }
    let (taint, effect) = text.split_once(':').context("a taint must have an effect")?;
    let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
    Ok(Taint::Add { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
}

/// Remaining words of a command.
struct Words(Vec<String>);

impl Words {
    fn split(line: &str) -> Self {
        Self(line.split_whitespace().map(str::to_owned).collect())
    }

    fn next(&mut self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    fn flag(&mut self, name: &str) {
        self.0.retain(|word| word != name);
    }

    /// Removes and returns `NAME VALUE` or `NAME=VALUE`.
    fn option(&mut self, name: &str) -> anyhow::Result<Option<String>> {
        if let Some(at) = self.0.iter().position(|word| word == name) {
            self.0.remove(at);
            if at == self.0.len() {
                bail!("{name} needs a value");
            }
            return Ok(Some(self.0.remove(at)));
        }
        let joined = |word: &String| word.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
        let at = self.0.iter().position(joined);
        Ok(at.map(|at| self.0.remove(at)[name.len() + 1..].to_owned()))
    }

    fn selection(&mut self) -> anyhow::Result<Selection> {
        let labels = self.option("-l")?;
        let fields = self.option("--field-selector")?;
        self.flag("--all");
        let kinds = self.next().context("the kind is missing")?;
        let named = |name: &str| kind(name).with_context(|| format!("unknown kind {name:?}"));
        let kinds = kinds.split(',').map(named).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Selection { kinds, name: self.next(), labels, fields })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_parsed() {
        let parse = |line: &str| Line::parse(line).unwrap();
        let pods = vec![kind("pods").unwrap()];
        assert_eq!(
            parse("kubectl get pods -l a=b -w"),
            Line::Get(
                Selection { kinds: pods.clone(), labels: Some("a=b".into()), ..Selection::default() },
                Output::Table
            )
        );
        assert_eq!(
            parse("kubectl get po -o custom-columns=POD:.metadata.name,NODE:.spec.nodeName"),
            Line::Get(
                Selection { kinds: pods.clone(), ..Selection::default() },
                Output::Columns(vec![
                    ("POD".into(), ".metadata.name".into()),
                    ("NODE".into(), ".spec.nodeName".into())
                ])
            )
        );
        assert_eq!(parse("kubectl delete pods --all"), Line::Delete(Selection { kinds: pods, ..Selection::default() }));
        assert_eq!(
            parse("kubectl scale deployment web --replicas=0"),
            Line::Scale { kind: kind("deploy").unwrap(), name: "web".into(), replicas: 0 }
        );
        assert_eq!(
            parse("kubectl taint nodes node-1 demo=broken:NoExecute"),
            Line::Taint {
                node: "node-1".into(),
                taint: Taint::Add { key: "demo".into(), value: "broken".into(), effect: "NoExecute".into() }
            }
        );
        assert_eq!(
            parse("kubectl taint nodes node-1 demo-"),
            Line::Taint { node: "node-1".into(), taint: Taint::Remove { key: "demo".into() } }
        );
    }

    #[test]
    fn unknown_commands_are_errors() {
        for line in
            ["get pods", "kubectl", "kubectl get", "kubectl get trees", "kubectl get pods a b", "kubectl explode pods"]
        {
            assert!(Line::parse(line).is_err(), "{line}");
        }
    }
}
