//! CEL expressions of authentication: mapping and validation of the claims of a token, and validation of the user.
//!
//! An expression can use one variable: `claims`, a map of any values, or `user`. Names of claims that are not
//! identifiers are escaped as in rules of custom resources: `claims.example__dot__com`.

use std::sync::{Arc, LazyLock};

use serde_json::{Number, Value as Json};
use windlass_schema::{go_regex, sorting::Gather as _};

use crate::ast::{Expr, ExprKind, Literal};
use crate::checker::{self, Environment, TypeProvider};
use crate::interpreter::{Bindings, Program};
use crate::parser;
use crate::rules::PER_CALL_LIMIT;
use crate::types::Type;
use crate::value::{Value, unescape};

/// The variable of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// `claims`: the claims of a token.
    Claims,
    /// `user`: the user that the claims were mapped to.
    User,
}

/// The type that an expression must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// Any type; the value is checked when it is used.
    Any,
    /// A `bool`.
    Bool,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Expression {
    text: String,
    variable: Variable,
    program: Program,
    uses_email: bool,
    uses_email_verified: bool,
}

/// The value of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A `bool`.
    Bool(bool),
    /// A `string`.
    Text(String),
    /// A list of strings.
    Texts(Vec<String>),
    /// `null`
    Null,
    /// A value of any other type.
    Other,
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Returns kube-apiserver's error for an invalid expression.
    pub fn compile(text: &str, variable: Variable, returns: Returns) -> Result<Self, String> {
        let environment = match variable {
            Variable::Claims => &*CLAIMS,
            Variable::User => &*USER,
        };
        // The values of claims are declared as `any`, which is checked like `dyn`.
        let failed = |issues: crate::source::Errors| {
            format!("compilation failed: {}", issues.to_string().replace("map(string, dyn)", "map(string, any)"))
        };
        let mut parsed = parser::parse(text, parser::Options::KUBERNETES).map_err(failed)?;
        unescape_fields(&mut parsed.expr);
        let checked = checker::check(&parsed, environment).map_err(failed)?;
        if returns == Returns::Bool && *checked.result_type() != Type::Bool {
            return Err("must evaluate to bool".to_owned());
        }
        let program = go_regex::with_shared_limits(|| Program::new(&checked));
        let program = program.map_err(|error| format!("program instantiation failed: {error}"))?;
        let uses = |claim| variable == Variable::Claims && selects(&checked.expr, claim);
        let (uses_email, uses_email_verified) = (uses("email"), uses("email_verified"));
        Ok(Self { text: text.to_owned(), variable, program, uses_email, uses_email_verified })
    }

    /// Returns the text of the expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether it selects `claims.email`.
    pub fn uses_email(&self) -> bool {
        self.uses_email
    }

    /// Returns whether it selects `claims.email_verified`.
    pub fn uses_email_verified(&self) -> bool {
        self.uses_email_verified
    }

    /// Evaluates the expression with the value of its variable. Numbers should be those of [`as_doubles`].
    ///
    /// # Errors
    /// Returns kube-apiserver's error if the evaluation fails.
    pub fn eval(&self, value: &Json) -> Result<Output, String> {
        let name = match self.variable {
            Variable::Claims => "claims",
            Variable::User => "user",
        };
        let evaluation = self.program.eval(&Bindings::new().with(name, Value::untyped(value)), Some(PER_CALL_LIMIT));
        let failed = |error| format!("expression '{}' resulted in error: {error}", self.text);
        Ok(output(&evaluation.result.map_err(failed)?))
    }
}

fn output(value: &Value<'_>) -> Output {
    match value {
        Value::Null => Output::Null,
        Value::Bool(value) => Output::Bool(*value),
        Value::String(text) => Output::Text(text.to_string()),
        Value::List(list) => {
            let texts = list.iter().map(|item| item.ok()?.as_str().map(str::to_owned));
            texts.collect::<Option<_>>().map_or(Output::Other, Output::Texts)
        }
        _ => Output::Other,
    }
}

/// Returns JSON in which all numbers are floating-point numbers, as kube-apiserver decodes claims.
pub fn as_doubles(value: Json) -> Json {
    match value {
        Json::Number(number) => number.as_f64().and_then(Number::from_f64).map_or(Json::Null, Json::Number),
        Json::Array(items) => Json::Array(items.into_iter().map(as_doubles).collect()),
        Json::Object(fields) => Json::Object(fields.into_iter().map(|(key, value)| (key, as_doubles(value))).gather()),
        other => other,
    }
}

static CLAIMS: LazyLock<Environment> = LazyLock::new(|| {
    Environment::standard_kubernetes().clone().with_variable("claims", Type::map(Type::String, Type::Dyn))
});

static USER: LazyLock<Environment> = LazyLock::new(|| {
    let environment = Environment::standard_kubernetes().clone().with_provider(Arc::new(UserType));
    environment.with_variable("user", Type::object(USER_INFO))
});

const USER_INFO: &str = "kubernetes.UserInfo";

/// The type of `user`.
struct UserType;

impl TypeProvider for UserType {
    fn find_type(&self, name: &str) -> Option<Type> {
        (name == USER_INFO).then(|| Type::object(name))
    }

    fn find_field(&self, object: &str, field: &str) -> Option<Type> {
        match (object, field) {
            (USER_INFO, "username" | "uid") => Some(Type::String),
            (USER_INFO, "groups") => Some(Type::list(Type::String)),
            (USER_INFO, "extra") => Some(Type::map(Type::String, Type::list(Type::String))),
            _ => None,
        }
    }
}

/// Calls a function with each direct part of an expression.
fn for_parts<'e>(expr: &'e Expr, call: &mut dyn FnMut(&'e Expr)) {
    match &expr.kind {
        ExprKind::Literal(_) | ExprKind::Ident(_) => {}
        ExprKind::Select { operand, .. } => call(operand),
        ExprKind::Call { target, args, .. } => target.iter().map(|target| &**target).chain(args).for_each(call),
        ExprKind::List { elements, .. } => elements.iter().for_each(call),
        ExprKind::Map(entries) | ExprKind::Struct { entries, .. } => {
            entries.iter().flat_map(|entry| [&entry.key, &entry.value]).for_each(call);
        }
        ExprKind::Comprehension(fold) => {
            [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result].into_iter().for_each(call);
        }
    }
}

/// Returns whether an expression selects a claim, including by `claims.?name`.
fn selects(expr: &Expr, claim: &str) -> bool {
    let is_claims = |expr: &Expr| matches!(&expr.kind, ExprKind::Ident(name) if name == "claims");
    let found = match &expr.kind {
        ExprKind::Select { operand, field, .. } => is_claims(operand) && field == claim,
        ExprKind::Call { target: None, function, args } if function == "_?._" => match &args[..] {
            [operand, Expr { kind: ExprKind::Literal(Literal::String(field)), .. }] => {
                is_claims(operand) && field == claim
            }
            _ => false,
        },
        _ => false,
    };
    let mut within = found;
    if !found {
        for_parts(expr, &mut |part| within = within || selects(part, claim));
    }
    within
}

/// Replaces escaped names of selected fields, so that `claims.a__dot__b` is the claim `a.b`.
fn unescape_fields(expr: &mut Expr) {
    let plain = |field: &mut String| {
        if let Some(name) = unescape(field)
            && name != field.as_str()
        {
            *field = name.into_owned();
        }
    };
    match &mut expr.kind {
        ExprKind::Literal(_) | ExprKind::Ident(_) => {}
        ExprKind::Select { operand, field, .. } => {
            plain(field);
            unescape_fields(operand);
        }
        ExprKind::Call { target, function, args } => {
            if let ("_?._", Some(Expr { kind: ExprKind::Literal(Literal::String(field)), .. })) =
                (function.as_str(), args.get_mut(1))
            {
                plain(field);
            }
            target.iter_mut().map(|target| &mut **target).chain(args).for_each(unescape_fields);
        }
        ExprKind::List { elements, .. } => elements.iter_mut().for_each(unescape_fields),
        ExprKind::Map(entries) | ExprKind::Struct { entries, .. } => {
            entries.iter_mut().flat_map(|entry| [&mut entry.key, &mut entry.value]).for_each(unescape_fields);
        }
        ExprKind::Comprehension(fold) => {
            [&mut fold.range, &mut fold.init, &mut fold.condition, &mut fold.step, &mut fold.result]
                .into_iter()
                .for_each(unescape_fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(text: &str) -> Result<Output, String> {
        let claims = json!({
            "sub": "jane", "exp": 20, "iat": 10, "email": "j@x", "email_verified": false, "empty": "",
            "groups": ["a", ""], "mixed": ["a", 1], "nested": {"a.b": {"c-d": "deep"}}, "example.com/x": "slash",
        });
        Expression::compile(text, Variable::Claims, Returns::Any)?.eval(&as_doubles(claims))
    }

    #[test]
    fn claims_are_untyped_and_their_names_can_be_escaped() {
        let text = |text: &str| Ok(Output::Text(text.to_owned()));
        assert_eq!(claims("'x:' + claims.sub"), text("x:jane"));
        assert_eq!(claims("claims.nested.a__dot__b.c__dash__d"), text("deep"));
        assert_eq!(claims("claims['nested']['a.b']['c-d']"), text("deep"));
        assert_eq!(claims("claims.?example__dot__com__slash__x.orValue('none')"), text("slash"));
        assert_eq!(claims("has(claims.example__dot__com__slash__x)"), Ok(Output::Bool(true)));
        assert_eq!(claims("claims.groups + ['c']"), Ok(Output::Texts(["a", "", "c"].map(str::to_owned).to_vec())));
        assert_eq!(claims("claims.mixed"), Ok(Output::Other));
        assert_eq!(claims("claims.exp"), Ok(Output::Other));
        assert_eq!(claims("claims.?nothing"), Ok(Output::Other));
        assert_eq!(claims("null"), Ok(Output::Null));
    }

    #[test]
    fn numbers_of_claims_are_doubles() {
        assert_eq!(claims("claims.exp - claims.iat <= 10"), Ok(Output::Bool(true)));
        assert_eq!(claims("claims.exp == 20 && type(claims.exp) == double"), Ok(Output::Bool(true)));
    }

    #[test]
    fn errors_match_kube_apiserver() {
        let missing = "expression 'claims.nothing' resulted in error: no such key: nothing";
        assert_eq!(claims("claims.nothing"), Err(missing.to_owned()));
        let rule = |text| Expression::compile(text, Variable::Claims, Returns::Bool).map(|_| ());
        assert_eq!(rule("claims.sub"), Err("must evaluate to bool".to_owned()));
        let wrong = rule("claims[1]").unwrap_err();
        assert!(wrong.contains("'_[_]' applied to '(map(string, any), int)'"), "{wrong}");
        assert!(rule("user.username == ''").unwrap_err().contains("undeclared reference to 'user'"));
        assert!(Expression::compile("user.nothing", Variable::User, Returns::Any).is_err());
    }

    #[test]
    fn a_user_has_a_name_a_uid_groups_and_extra() {
        let user = json!({"username": "jane", "uid": "u", "groups": ["a"], "extra": {"example.com/x": ["1"]}});
        for text in [
            "!user.username.startsWith('system:') && user.uid == 'u'",
            "user.groups.all(group, group != 'system:masters')",
            "user.extra.example__dot__com__slash__x == ['1'] && user.extra['example.com/x'][0] == '1'",
        ] {
            let rule = Expression::compile(text, Variable::User, Returns::Bool).unwrap();
            assert_eq!(rule.eval(&user), Ok(Output::Bool(true)), "{text}");
        }
    }

    #[test]
    fn uses_of_the_email_claims_are_found_anywhere() {
        for (text, email, verified) in [
            ("claims.email", true, false),
            ("claims.?email.orValue('')", true, false),
            ("claims.email_verified ? claims.email : ''", true, true),
            ("[{'a': claims.email}].map(x, x.a)[0]", true, false),
            ("claims.x.exists(e, e == claims.email_verified)", false, true),
            ("claims['email']", false, false),
            ("claims.email.x", true, false),
        ] {
            let expression = Expression::compile(text, Variable::Claims, Returns::Any).unwrap();
            assert_eq!((expression.uses_email(), expression.uses_email_verified()), (email, verified), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[a-z_.?\\[\\]'(){}+0-9 !]{0,40}") {
            if let Ok(expression) = Expression::compile(&text, Variable::Claims, Returns::Any) {
                let _ = expression.eval(&json!({"a": 1.0}));
            }
        }
    }
}
