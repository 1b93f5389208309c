//! Expressions with kube-apiserver's results: values, errors and costs.

use std::sync::{Arc, OnceLock};

use serde_json::Value as Json;
use windlass_schema::structural::Structural;

use super::{Bindings, Program};
use crate::checker::{Checked, Environment, check};
use crate::declared::{DeclType, Declared};
use crate::parser::{Options, parse};
use crate::types::Type;
use crate::value::{EvalError, Value};

mod properties;

struct Fixture {
    schema: Structural,
    object: Json,
    old: Json,
    environment: Environment,
}

impl Fixture {
    fn new(answers: &Json) -> Fixture {
        let schema = Structural::compile(&answers["schema"]).expect("the schema must be structural");
        let declared = DeclType::of(&schema, true).expect("the schema must have a type");
        let provider = Declared::new("selfType1".to_owned(), Arc::new(declared));
        let own = provider.self_type();
        let optional = Type::Opaque("optional_type".into(), [own.clone()].into());
        let environment = Environment::standard_kubernetes()
            .clone()
            .with_provider(Arc::new(provider))
            .with_variable("self", own)
            .with_variable("oldSelf", optional);
        Fixture { schema, object: answers["object"].clone(), old: answers["old"].clone(), environment }
    }

    fn shared() -> &'static Fixture {
        static FIXTURE: OnceLock<Fixture> = OnceLock::new();
        FIXTURE.get_or_init(|| Fixture::new(&answers()))
    }

    fn check(&self, text: &str) -> Result<Checked, String> {
        let parsed = parse(text, Options::KUBERNETES).map_err(|error| error.to_string())?;
        check(&parsed, &self.environment).map_err(|error| error.to_string())
    }

    fn bindings(&self) -> Bindings<'_> {
        Bindings::new()
            .with("self", Value::resource(&self.object, &self.schema))
            .with("oldSelf", Value::resource(&self.old, &self.schema).map(Value::some))
    }
}

fn answers() -> Json {
    serde_json::from_str(include_str!("tests/answers.json")).expect("the recorded results must be JSON")
}

/// Evaluates every expression of a file and compares it with the recorded result.
fn compare(answers: &Json) {
    let fixture = Fixture::new(answers);
    let mut differences = Vec::new();
    for answer in answers["answers"].as_array().expect("there must be recorded results") {
        let text = answer["expr"].as_str().expect("a recorded result must have an expression");
        let field = |name: &str| answer[name].as_str().unwrap_or_default();
        let checked = match fixture.check(text) {
            Ok(checked) => checked,
            Err(error) => {
                differences.push(format!("{text}\n    does not check: {error}"));
                continue;
            }
        };
        let program = match Program::new(&checked) {
            Ok(program) => program,
            Err(error) => {
                if error.to_string() != field("program") {
                    differences.push(format!("{text}\n    is no program: {error}\n    expected {answer}"));
                }
                continue;
            }
        };
        let evaluation = program.eval(&fixture.bindings(), None);
        let (value, error) = match &evaluation.result {
            Ok(value) => (value.to_literal(), String::new()),
            Err(error) => (String::new(), error.to_string()),
        };
        let cost = answer["cost"].as_u64().unwrap_or_default();
        if value != field("value") || error != field("error") || evaluation.cost != cost || !field("program").is_empty()
        {
            differences.push(format!("{text}\n    gives {value}{error} ({})\n    expected {answer}", evaluation.cost));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn results_and_costs_match_kube_apiserver() {
    compare(&answers());
}

#[test]
fn results_and_costs_on_lists_match_kube_apiserver() {
    let answers = include_str!("tests/answers_of_a_list.json");
    compare(&serde_json::from_str(answers).expect("the recorded results must be JSON"));
}

#[test]
fn an_evaluation_ends_when_it_exceeds_its_limit() {
    let answers = answers();
    let fixture = Fixture::new(&answers);
    let checked = fixture.check("[1, 2, 3].all(x, [1, 2, 3].all(y, x * y < 100))").expect("it must check");
    let program = Program::new(&checked).expect("it must plan");
    let whole = program.eval(&fixture.bindings(), None).cost;
    assert!(program.eval(&fixture.bindings(), Some(whole)).result.is_ok());
    for limit in 0..whole {
        let evaluation = program.eval(&fixture.bindings(), Some(limit));
        let error = evaluation.result.expect_err("it must be cancelled").to_string();
        assert_eq!(error, "operation cancelled: actual cost limit exceeded");
        assert!(evaluation.cost > limit);
    }
}

#[test]
fn ranges_beyond_the_cost_limit_are_not_built() {
    let fixture = Fixture::shared();
    let checked = fixture.check("lists.range(9000000000).size() > 0").expect("it must check");
    let evaluation = Program::new(&checked).expect("it must plan").eval(&fixture.bindings(), Some(1_000_000));
    assert_eq!(evaluation.result.expect_err("it must be cancelled"), EvalError::CostLimitExceeded);
    assert!(evaluation.cost > 1_000_000);
}
