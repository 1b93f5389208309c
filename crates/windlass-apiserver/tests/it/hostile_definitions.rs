//! CustomResourceDefinitions and objects that try to exhaust the server: each gets a clear answer in time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http::Method;
use serde_json::{Map, Value, json};

use crate::client::{Answer, Client};
use crate::definitions::{DEFINITIONS, definition, version, widget, widgets};

mod anything;

/// Far more than any of these takes, and less than an endless computation.
const SOON: Duration = Duration::from_secs(30);
const APPLY: &str = "application/apply-patch+yaml";
const ONE: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

/// Sends a request; the response must not be a server error.
async fn send(client: &Client, method: Method, path: &str, kind: &str, body: impl Into<bytes::Bytes>) -> Answer {
    let start = Instant::now();
    let answer = client.ask(method, path, &[("content-type", kind)], body).await;
    assert!(start.elapsed() < SOON, "{path} took {:?}", start.elapsed());
    assert!(answer.code < 500, "{path}: {}", answer.message());
    answer
}

async fn post(client: &Client, path: &str, body: &Value) -> Answer {
    send(client, Method::POST, path, "application/json", body.to_string()).await
}

async fn apply(client: &Client, name: &str, spec: &Value) -> Answer {
    let path = format!("{}/{name}?fieldManager=hostile&force=true", widgets("v1"));
    send(client, Method::PATCH, &path, APPLY, widget("v1", name, spec).to_string()).await
}

async fn create(client: &Client, name: &str, spec: &Value) -> Answer {
    post(client, &widgets("v1"), &widget("v1", name, spec)).await
}

/// Creates widgets with a schema of their `spec`.
async fn define(client: &Client, spec: &Value) -> Answer {
    post(client, DEFINITIONS, &definition(&json!([version("v1", true, spec)]))).await
}

/// Returns a client of a server with such widgets.
async fn defined(spec: &Value) -> Client {
    let client = Client::new().await;
    define(&client, spec).await.expect(201);
    client
}

fn nest(levels: usize, inner: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(inner, |value, _| wrap(value))
}

fn named(count: usize, make: impl Fn(usize) -> Value) -> Value {
    (0..count).map(|index| (format!("p{index}"), make(index))).collect::<Map<_, _>>().into()
}

fn each<T: Into<Value>>(count: usize, make: impl Fn(usize) -> T) -> Value {
    (0..count).map(|index| make(index).into()).collect::<Vec<Value>>().into()
}

/// Checks that a response is a rejection that contains a string.
#[track_caller]
fn rejected(answer: &Answer, code: u16, why: &str) {
    let message = answer.message();
    let shown: String = message.chars().take(500).collect();
    assert_eq!(answer.code, code, "{shown}");
    assert!(message.contains(why), "{shown}");
}

#[tokio::test]
async fn schemas_nest_to_a_limit_and_work_up_to_it() {
    let leaf = || json!({"type": "string"});
    let object = |inner| json!({"type": "object", "properties": {"a": inner}});
    let list = |inner| json!({"type": "array", "items": inner});
    let map = |inner| json!({"type": "object", "additionalProperties": inner});
    let all_of = |inner| json!({"allOf": [inner]});
    let not = |inner| json!({"not": inner});
    let schema = |shape: usize, levels: usize| match shape {
        0 => nest(levels, leaf(), object),
        1 => nest(levels, leaf(), list),
        2 => nest(levels, leaf(), map),
        3 => json!({"type": "string", "allOf": [nest(levels, json!({"minLength": 1}), all_of)]}),
        _ => json!({"type": "string", "not": nest(levels - levels % 2, json!({"maxLength": 0}), not)}),
    };
    for shape in 0..5 {
        let client = defined(&schema(shape, 190)).await;
        let value = match shape {
            0 | 2 => nest(190, json!("x"), |inner| json!({"a": inner})),
            1 => nest(190, json!("x"), |inner| json!([inner])),
            _ => json!("x"),
        };
        create(&client, "a", &value).await.expect(201);
        apply(&client, "a", &value).await.expect(200);
        client.get("/openapi/v2").await;
        client.get("/openapi/v3/apis/example.com/v1").await;
        let client = client.restarted().await;
        let path = format!("{}/a", widgets("v1"));
        let patch = json!({"metadata": {"labels": {"a": "b"}}});
        assert_eq!(client.merge(&path, &patch).await.code, 200);
        client.delete(ONE).await;

        for levels in [210, 400] {
            let answer = define(&Client::new().await, &schema(shape, levels)).await;
            rejected(&answer, 422, "schemas must not be nested more than 200 levels deep");
        }
    }
    rejected(&define(&Client::new().await, &schema(0, 900)).await, 400, "exceeded max depth");
}

#[tokio::test]
async fn objects_nest_to_a_limit_and_work_up_to_it() {
    let client = defined(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})).await;
    let body = |name: &str, levels: usize| {
        let deep = format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        widget("v1", name, &json!("deep")).to_string().replace("\"deep\"", &deep)
    };
    let managed = |name: &str, levels: usize| {
        let fields = format!("{}{{}}{}", "{\"f:a\":".repeat(levels), "}".repeat(levels));
        let mut object = widget("v1", name, &json!({}));
        object["metadata"]["managedFields"] = json!([{
            "manager": "a", "operation": "Update", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1",
            "time": "2020-01-01T00:00:00Z", "fieldsV1": "deep",
        }]);
        object.to_string().replace("\"deep\"", &fields)
    };
    let json = "application/json";
    for levels in [120, 130, 980] {
        let name = format!("d{levels}");
        let one = format!("{}/{name}", widgets("v1"));
        send(&client, Method::POST, &widgets("v1"), json, body(&name, levels)).await.expect(201);
        let path = format!("{one}?fieldManager=x&force=true");
        send(&client, Method::PATCH, &path, APPLY, body(&name, levels)).await.expect(200);
        let patch = json!([{"op": "test", "path": "/spec/a/a", "value": {}}, {"op": "remove", "path": "/spec/a"}]);
        send(&client, Method::PATCH, &one, "application/json-patch+json", patch.to_string()).await;
        send(&client, Method::POST, &widgets("v1"), json, managed(&format!("m{levels}"), levels)).await.expect(201);
    }
    for levels in [1_100, 100_000] {
        for body in [body("d", levels), managed("d", levels)] {
            let answer = send(&client, Method::POST, &widgets("v1"), json, body.clone()).await;
            rejected(&answer, 400, "exceeded max depth");
            let path = format!("{}/d?fieldManager=x", widgets("v1"));
            assert_eq!(send(&client, Method::PATCH, &path, APPLY, body).await.code, 400);
        }
    }
    client.restarted().await.get(&widgets("v1")).await.expect(200);
}

#[tokio::test]
async fn long_lists_in_schemas_are_checked_once() {
    let wide = json!({"type": "object", "properties": named(5_000, |_| json!({"type": "string", "default": "x"}))});
    let client = defined(&wide).await;
    let given = named(10_000, |_| json!(1));
    let answer = create(&client, "a", &given).await;
    rejected(&answer, 422, "spec.p1: Invalid value");
    let warnings: usize = answer.headers.get_all("warning").iter().map(http::HeaderValue::len).sum();
    assert!(warnings > 0 && warnings < 16 << 10, "{warnings} bytes of warnings");
    assert_eq!(create(&client, "a", &json!({})).await.expect(201)["spec"].as_object().unwrap().len(), 5_000);

    let client = defined(&json!({"type": "string", "enum": each(50_000, |index| format!("v{index}"))})).await;
    rejected(&create(&client, "a", &json!("w")).await, 422, "supported values: \"v0\", \"v1\"");
    create(&client, "a", &json!("v49999")).await.expect(201);

    let client = defined(&json!({"type": "object", "required": each(20_000, |index| format!("v{index}"))})).await;
    rejected(&create(&client, "a", &json!({})).await, 422, "spec.v19999: Required value");

    let client = defined(&json!({"type": "integer", "allOf": each(5_000, |index| json!({"minimum": index}))})).await;
    rejected(&create(&client, "a", &json!(-1)).await, 422, "greater than or equal to 4999");
    let bad = json!({"type": "object", "properties": named(2_000, |_| json!({"type": "strin", "default": 1}))});
    rejected(&define(&Client::new().await, &bad).await, 422, "p1999");
}

#[tokio::test]
async fn patterns_take_bounded_memory_and_time() {
    let text = |pattern: &str| json!({"type": "string", "pattern": pattern});
    let rule = |pattern: &str| {
        let rule = format!("self.matches({})", json!(pattern));
        json!({"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": rule}]})
    };
    for (pattern, why) in [
        ("(a{1000}){1000}", "invalid repeat count"),
        ("((a{30}){30}){30}", "invalid repeat count"),
        (r"\p{L}{1000}", "expression too large"),
        (&"(".repeat(999), "missing closing )"),
        (&format!("{}a{}", "(".repeat(2_000), ")".repeat(2_000)), "expression nests too deeply"),
    ] {
        rejected(&define(&Client::new().await, &text(pattern)).await, 422, why);
        rejected(&define(&Client::new().await, &rule(pattern)).await, 422, "invalid matches argument");
    }
    // Each version alone would be accepted.
    let versions =
        each(40, |index| version(&format!("v{index}"), index == 0, &text(&format!(r"\p{{L}}{{100}}{index}"))));
    rejected(&post(&Client::new().await, DEFINITIONS, &definition(&versions)).await, 422, "expression too large");
    let rules = each(40, |index| json!({"rule": format!(r"self.matches('\\p{{L}}{{100}}{index}')")}));
    let many = json!({"type": "string", "maxLength": 9, "x-kubernetes-validations": rules});
    rejected(&define(&Client::new().await, &many).await, 422, "invalid matches argument");

    // Only the length of the text limits the time of a match.
    let client = defined(&text(&"[a-z]".repeat(20_000))).await;
    rejected(&create(&client, "a", &json!("ab".repeat(500_000))).await, 422, "too many steps");
    rejected(&create(&client, "a", &json!("ab")).await, 422, "should match");
    let client = defined(&text("^(a|aa)+$")).await;
    create(&client, "a", &json!("a".repeat(1_000_000))).await.expect(201);

    // Patterns that come from the object itself.
    let each_one = json!({"type": "array", "maxItems": 100_000, "items": {
        "type": "string", "maxLength": 20, "x-kubernetes-validations": [{"rule": "!'x'.matches(self)"}],
    }});
    let client = defined(&each_one).await;
    let patterns = each(2_000, |index| format!(r"\p{{L}}{{100}}{index}"));
    rejected(&create(&client, "a", &patterns).await, 422, "expression too large");
    create(&client, "a", &each(200, |index| format!(r"\d{{10}}{index}"))).await.expect(201);
}

#[tokio::test]
async fn rules_that_would_run_for_ever_are_rejected() {
    let text = json!({"type": "string", "maxLength": 10});
    let with = |schema: &Value, rule: &str| {
        let mut schema = schema.clone();
        schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
        schema
    };
    let loops = "self.all(a, self.all(b, self.all(c, a + b + c > 0)))";
    let ten = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
    let expensive = [
        with(&json!({"type": "array", "items": {"type": "integer"}}), loops),
        with(&json!({"type": "array", "maxItems": 1000, "items": {"type": "integer"}}), loops),
        with(&text, &format!("{}true{}", format!("{ten}.all(x, ").repeat(20), ")".repeat(20))),
        with(&text, "lists.range(1000000000).size() > 0"),
        with(&json!({"type": "string"}), "self.replace('', self).replace('', self).size() > 0"),
    ];
    for schema in expensive {
        rejected(&define(&Client::new().await, &schema).await, 422, "cost exceeds budget");
    }
    let around = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let malformed = [
        around("(", "true", ")", 20_000),
        around("[", "", "]", 40_000),
        around("{1:", "1", "}", 20_000),
        around("true ? true : ", "true", "", 6_000),
        around("self", "", ".a", 30_000),
        around("self", "[0]", "", 1) + &"[0]".repeat(30_000),
        vec!["1"; 20_000].join(" + "),
        "?:&&((".repeat(15_000),
        "\"".repeat(99_999),
        "a".repeat(1_000_000),
    ];
    for rule in malformed {
        let answer = define(&Client::new().await, &with(&text, &rule)).await;
        rejected(&answer, 422, "compilation failed");
    }
    // Long, but harmless.
    for rule in [format!("{}true", "!".repeat(40_000)), vec!["true"; 5_000].join(" && ")] {
        let client = defined(&with(&text, &rule)).await;
        create(&client, "a", &json!("x")).await.expect(201);
    }
    let rules = each(2_000, |index| json!({"rule": format!("self.size() < {}", index + 10)}));
    let client = defined(&json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": rules})).await;
    create(&client, "a", &json!("x")).await.expect(201);

    // A rule that may be cheap is stopped when it is not.
    let pairs = json!({"type": "array", "maxItems": 1100, "items": {"type": "integer"}});
    let client = defined(&with(&pairs, "self.all(a, self.all(b, a + b >= 0))")).await;
    let answer = create(&client, "a", &each(1_100, |index| index)).await;
    rejected(&answer, 422, "call cost exceeds limit");
    let failing = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self != 'x'"}]});
    let client = defined(&json!({"type": "array", "items": failing})).await;
    rejected(&create(&client, "a", &each(20_000, |_| "x")).await, 422, "spec[19999]");
}

#[tokio::test]
async fn defaults_that_multiply_are_stopped() {
    let list = |inner| {
        json!({
            "type": "array", "default": [{}, {}, {}, {}, {}, {}, {}, {}],
            "items": {"type": "object", "properties": {"a": inner}},
        })
    };
    let client =
        defined(&json!({"type": "object", "properties": {"a": nest(40, json!({"type": "string"}), list)}})).await;
    rejected(&create(&client, "a", &json!({})).await, 400, "defaults take more than");
    rejected(&apply(&client, "b", &json!({})).await, 400, "defaults take more than");
    // Three levels are harmless.
    let client =
        defined(&json!({"type": "object", "properties": {"a": nest(3, json!({"type": "string"}), list)}})).await;
    create(&client, "a", &json!({})).await.expect(201);
    let large = json!({"type": "array", "items": {"type": "object", "properties": {
        "a": {"type": "string", "default": "x".repeat(10_000)},
    }}});
    let client = defined(&large).await;
    rejected(&create(&client, "a", &each(100_000, |_| json!({}))).await, 400, "defaults take more than");
}

#[tokio::test]
async fn wide_objects_and_their_managed_fields_take_bounded_time() {
    let schema = json!({"type": "object", "properties": {
        "name": {"type": "string"},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
            "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
        }},
        "free": {"type": "object", "additionalProperties": {"type": "integer"}},
    }});
    let mut of = version("v1", true, &schema);
    let paths = [".spec", "..a..b..c", ".spec..[*]", ".spec.set[?(@=='x')]", ".spec.set[5:0:1]"];
    of["additionalPrinterColumns"] = each(
        500,
        |index| json!({"name": format!("c{index}"), "type": "string", "jsonPath": paths[index % paths.len()]}),
    );
    of["selectableFields"] = json!([{"jsonPath": ".spec.name"}]);
    let client = Client::new().await;
    post(&client, DEFINITIONS, &definition(&json!([of]))).await.expect(201);
    let count = 2_500;
    for (name, spec) in [
        ("set", json!({"set": each(count, |index| format!("s{index}"))})),
        ("map", json!({"map": each(count, |index| json!({"k": format!("k{index}"), "v": index}))})),
        ("free", json!({"free": named(count, |index| json!(index))})),
    ] {
        create(&client, name, &spec).await.expect(201);
        apply(&client, name, &spec).await.expect(200);
        apply(&client, name, &json!({})).await.expect(200);
        let path = format!("{}/{name}", widgets("v1"));
        let insert = each(3_000, |_| json!({"op": "add", "path": "/spec/set/0", "value": "z"}));
        send(&client, Method::PATCH, &path, "application/json-patch+json", insert.to_string()).await;
    }
    rejected(&create(&client, "same", &json!({"set": each(count, |_| "x")})).await, 422, "Duplicate value");
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let start = Instant::now();
    let shown = client.ask(Method::GET, &widgets("v1"), &table, "").await;
    assert!(shown.code == 200 && shown.raw.len() < 80 << 20, "{} with {} bytes", shown.code, shown.raw.len());
    client.get(&format!("{}?fieldSelector=spec.name%3Dx", widgets("v1"))).await.expect(200);
    assert!(start.elapsed() < SOON);

    let mut object = widget("v1", "managed", &json!({"name": "x"}));
    object["metadata"]["managedFields"] = each(2_000, |index| {
        json!({
            "manager": format!("m{index}"), "operation": "Apply", "apiVersion": "example.com/v1",
            "fieldsType": "FieldsV1", "time": "2020-01-01T00:00:00Z",
            "fieldsV1": {"f:spec": {"f:name": {}, (format!("f:x{index}")): {}}},
        })
    });
    post(&client, &widgets("v1"), &object).await.expect(201);
    apply(&client, "managed", &json!({"name": "y"})).await;
    let path = format!("{}/managed", widgets("v1"));
    client.merge(&path, &json!({"spec": {"name": "z"}})).await.expect(200);
}

#[tokio::test]
async fn many_versions_and_many_names_cost_no_more_than_their_sum() {
    let client = Client::new().await;
    let empty = json!({"type": "object"});
    let versions = each(500, |index| version(&format!("v{index}"), index == 0, &empty));
    post(&client, DEFINITIONS, &definition(&versions)).await.expect(201);
    let start = Instant::now();
    for path in ["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/example.com/v7", "/apis"] {
        assert_eq!(client.get(path).await.code, 200);
    }
    assert!(start.elapsed() < SOON);
    post(&client, &widgets("v7"), &widget("v7", "a", &json!({}))).await.expect(201);
    client.get(&format!("{}/a", widgets("v499"))).await.expect(200);

    let client = Client::new().await;
    let short = each(10_000, |index| format!("s{index}"));
    let mut first = definition(&json!([version("v1", true, &empty)]));
    first["spec"]["names"]["shortNames"] = short.clone();
    post(&client, DEFINITIONS, &first).await.expect(201);
    let mut second = first.clone();
    second["metadata"]["name"] = json!("gadgets.example.com");
    second["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget", "shortNames": short});
    post(&client, DEFINITIONS, &second).await.expect(201);
    let stored = client.get(&format!("{DEFINITIONS}/gadgets.example.com")).await.expect(200);
    assert_eq!(stored["status"]["conditions"][0]["reason"], "ShortNamesConflict");

    for field in ["plural", "kind", "singular"] {
        let mut long = definition(&json!([version("v1", true, &empty)]));
        long["spec"]["names"][field] = json!("w".repeat(500_000));
        rejected(&post(&Client::new().await, DEFINITIONS, &long).await, 422, "must be no more than 63");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn other_requests_are_served_while_a_large_definition_is_validated() {
    let client = Arc::new(Client::new().await);
    let wide = json!({"type": "object", "properties": named(10_000, |_| json!({"type": "string"}))});
    let body = definition(&json!([version("v1", true, &wide)]));
    let large = tokio::spawn({
        let client = client.clone();
        async move { post(&client, DEFINITIONS, &body).await.expect(201) }
    });
    let others = tokio::spawn(async move {
        let mut answered = 0;
        while !large.is_finished() {
            client.get("/api/v1/namespaces/default").await.expect(200);
            answered += 1;
            tokio::task::yield_now().await;
        }
        large.await.unwrap();
        answered
    });
    assert!(others.await.unwrap() > 20);
}
