//! Label selectors.

use std::fmt;

use serde_json::{Map, Value};

use super::{
    Error,
    lexer::{Lexer, Token},
};
use crate::{
    field::{FieldError, Path, quote},
    names,
};

/// An operator of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`: also true if the label is absent.
    NotIn,
    /// `key=a`
    Equals,
    /// `key==a`
    DoubleEquals,
    /// `key!=a`: also true if the label is absent.
    NotEquals,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>1`
    GreaterThan,
    /// `key<1`
    LessThan,
}

/// A condition on one label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted values.
    values: Vec<String>,
}

/// A conjunction of requirements, sorted by key. An empty selector selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl LabelSelector {
    /// Returns a selector for every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Returns a selector for no object.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Parses the form used in query strings: `a=b,c!=d,e in (x,y),!f,g>3`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut requirements = Vec::new();
        let mut lexer = Lexer::new(text);
        loop {
            match lexer.peek() {
                Token::End => break,
                Token::Word(_) | Token::Not => {}
                other => return Err(found(other, ", expected: !, identifier, or 'end of string'")),
            }
            let requirement = parse_requirement(&mut lexer)
                .map_err(|Error(text)| Error(format!("unable to parse requirement: {text}")))?;
            requirements.push(requirement);
            match lexer.next() {
                Token::End => break,
                Token::Comma => match lexer.peek() {
                    Token::Word(_) | Token::Not => {}
                    other => return Err(found(other, ", expected: identifier after ','")),
                },
                other => return Err(found(other, ", expected: ',' or 'end of string'")),
            }
        }
        Ok(Self::of(requirements))
    }

    /// Builds a selector from a `metav1.LabelSelector`: null selects nothing, an empty one everything.
    pub fn from_object(selector: &Value) -> Result<Self, Error> {
        let Value::Object(selector) = selector else { return Ok(Self::nothing()) };
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            requirements.push(Requirement::new(key, Operator::Equals, vec![text(Some(value))])?);
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let operator = match text(expression.get("operator")).as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(Error(format!("{} is not a valid label selector operator", quote(other)))),
            };
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.map(|value| text(Some(value))).collect();
            requirements.push(Requirement::new(&text(expression.get("key")), operator, values)?);
        }
        Ok(Self::of(requirements))
    }

    /// Builds a selector from a map of labels, such as `spec.selector` of a Service, without validation.
    pub fn from_map(labels: &Map<String, Value>) -> Self {
        Self::of(
            labels
                .iter()
                .map(|(key, value)| Requirement {
                    key: key.clone(),
                    operator: Operator::Equals,
                    values: vec![text(Some(value))],
                })
                .collect(),
        )
    }

    fn of(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Self { requirements, nothing: false }
    }

    /// Returns whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// Returns the requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns whether an object is selected; `label` looks up its labels.
    pub fn matches<'v>(&self, label: impl Fn(&str) -> Option<&'v str>) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// Like [`Self::matches`], with labels sorted by key.
    pub fn matches_sorted<K: AsRef<str>, V: AsRef<str>>(&self, labels: &[(K, V)]) -> bool {
        self.matches(|key| {
            let position = labels.binary_search_by(|(have, _)| have.as_ref().cmp(key)).ok()?;
            Some(labels[position].1.as_ref())
        })
    }

    /// Returns the only value that a label may have, if its first requirement specifies one.
    pub fn requires_exact_match(&self, label: &str) -> Option<&str> {
        let requirement = self.requirements.iter().find(|requirement| requirement.key == label)?;
        match (requirement.operator, requirement.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl Requirement {
    /// Returns a validated requirement: the key and values must be valid for labels, and their number must suit the
    /// operator.
    pub fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, Error> {
        let mut errors = Vec::new();
        errors.extend(check_key(key, &Path::new("key")));
        let path = Path::new("values");
        let wrong = |detail: &str| FieldError::invalid(&path, &list(&values), detail);
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                errors.push(wrong("for 'in', 'notin' operators, values set can't be empty"));
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                errors.push(wrong("exact-match compatibility requires one single value"));
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                errors.push(wrong("values set must be empty for exists and does not exist"));
            }
            Operator::GreaterThan | Operator::LessThan => {
                if values.len() != 1 {
                    errors.push(wrong("for 'Gt', 'Lt' operators, exactly one value is required"));
                }
                for (index, value) in values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err()) {
                    let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                    errors.push(FieldError::invalid(&path.index(index), &Value::from(value.as_str()), detail));
                }
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            let problems = names::is_valid_label_value(value);
            if !problems.is_empty() {
                let place = path.index(index).key(key);
                errors.push(FieldError::invalid(&place, &Value::from(value.as_str()), problems.join("; ")));
            }
        }
        if !errors.is_empty() {
            return Err(aggregate(&errors));
        }
        values.sort();
        Ok(Self { key: key.to_owned(), operator, values })
    }

    /// Returns the key of the label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Returns the sorted values to compare with.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Returns whether a label with this value, or the absence of the label, satisfies the requirement.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|have| have == value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value, |label, bound| label > bound),
            Operator::LessThan => self.compare(value, |label, bound| label < bound),
        }
    }

    fn compare(&self, value: Option<&str>, holds: impl Fn(i64, i64) -> bool) -> bool {
        let parsed =
            (value.and_then(|value| value.parse().ok()), self.values.first().and_then(|bound| bound.parse().ok()));
        matches!(parsed, (Some(label), Some(bound)) if holds(label, bound))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, requirement) in self.requirements.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

fn parse_requirement(lexer: &mut Lexer<'_>) -> Result<Requirement, Error> {
    let negated = lexer.peek() == Token::Not;
    if negated {
        lexer.next();
    }
    let key = match lexer.next() {
        Token::Word(key) => key,
        other => return Err(found(other, ", expected: identifier")),
    };
    if let Some(error) = check_key(key, &Path::root()) {
        return Err(Error(error.to_string()));
    }
    if negated {
        return Requirement::new(key, Operator::DoesNotExist, Vec::new());
    }
    if matches!(lexer.peek(), Token::End | Token::Comma) {
        return Requirement::new(key, Operator::Exists, Vec::new());
    }
    let operator = match lexer.next() {
        Token::Word("in") => Operator::In,
        Token::Word("notin") => Operator::NotIn,
        Token::Equals => Operator::Equals,
        Token::DoubleEquals => Operator::DoubleEquals,
        Token::NotEquals => Operator::NotEquals,
        Token::Greater => Operator::GreaterThan,
        Token::Less => Operator::LessThan,
        other => return Err(found(other, ", expected: in, notin, =, ==, !=, gt, lt")),
    };
    let values = match operator {
        Operator::In | Operator::NotIn => parse_set(lexer)?,
        _ => match lexer.peek() {
            Token::End | Token::Comma => vec![String::new()],
            Token::Word(value) => {
                lexer.next();
                vec![value.to_owned()]
            }
            other => return Err(found(other, ", expected: identifier")),
        },
    };
    Requirement::new(key, operator, values)
}

/// Parses `(a,b)`; an empty place between commas or parentheses is the empty value.
fn parse_set(lexer: &mut Lexer<'_>) -> Result<Vec<String>, Error> {
    match lexer.next() {
        Token::Open => {}
        other => return Err(found(other, " expected: '('")),
    }
    let mut values = Vec::new();
    match lexer.peek() {
        Token::Close => values.push(String::new()),
        Token::Word(_) | Token::Comma => parse_values(lexer, &mut values)?,
        other => return Err(found(other, ", expected: ',', ')' or identifier")),
    }
    lexer.next();
    values.sort();
    values.dedup();
    Ok(values)
}

/// Parses the values up to the closing parenthesis, which is not consumed.
fn parse_values(lexer: &mut Lexer<'_>, values: &mut Vec<String>) -> Result<(), Error> {
    loop {
        match lexer.next() {
            Token::Word(value) => {
                values.push(value.to_owned());
                match lexer.peek() {
                    Token::Comma => {}
                    Token::Close => return Ok(()),
                    other => return Err(found(other, ", expected: ',' or ')'")),
                }
            }
            Token::Comma => {
                if values.is_empty() || matches!(lexer.peek(), Token::Close | Token::Comma) {
                    values.push(String::new());
                }
                if lexer.peek() == Token::Close {
                    return Ok(());
                }
            }
            other => return Err(found(other, ", expected: ',', or identifier")),
        }
    }
}

fn found(token: Token<'_>, expected: &str) -> Error {
    Error(format!("found '{}'{expected}", token.text()))
}

fn check_key(key: &str, path: &Path) -> Option<FieldError> {
    let problems = names::is_qualified_name(key);
    (!problems.is_empty()).then(|| FieldError::invalid(path, &Value::from(key), problems.join("; ")))
}

/// Joins errors into one message, without duplicates.
fn aggregate(errors: &[FieldError]) -> Error {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    Error(if texts.len() == 1 { texts.remove(0) } else { format!("[{}]", texts.join(", ")) })
}

/// Converts values for an error message: Go has nil instead of an empty list.
fn list(values: &[String]) -> Value {
    if values.is_empty() { Value::Null } else { Value::from(values) }
}

fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}
