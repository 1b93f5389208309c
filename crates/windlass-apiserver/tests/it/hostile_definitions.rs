//! Definitions and objects made to exhaust the server: each gets a clear answer in bounded time.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::definitions::{DEFINITIONS, definition, version, widget, widgets};

async fn post(client: &Client, what: &str, path: &str, body: &Value) -> crate::client::Answer {
    let bytes = body.to_string();
    ask(client, what, Method::POST, path, "application/json", bytes).await
}

async fn ask(client: &Client, what: &str, method: Method, path: &str, kind: &str, body: String) -> crate::client::Answer {
    let size = body.len();
    let start = Instant::now();
    let answer = client.ask(method, path, &[("content-type", kind)], body).await;
    let took = start.elapsed();
    eprintln!("{what}: {size} bytes, {} in {took:?}: {}", answer.code, answer.message().chars().take(300).collect::<String>());
    assert!(answer.code < 500, "{what}: {}", answer.message());
    answer
}

async fn define(client: &Client, what: &str, spec: &Value) -> u16 {
    let code = post(client, what, DEFINITIONS, &definition(&json!([version("v1", true, spec)]))).await.code;
    code
}

async fn clear(client: &Client) {
    let path = format!("{DEFINITIONS}/widgets.example.com");
    client.delete(&path).await;
    while client.get(&path).await.code != 404 {
        tokio::task::yield_now().await;
    }
}

fn nest(levels: usize, inner: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(inner, |value, _| wrap(value))
}

#[tokio::test]
#[ignore = "scratch"]
async fn scratch_nesting() {
    let client = Client::new().await;
    let string = || json!({"type": "string"});
    for levels in [50, 150, 190, 250, 450, 900] {
        let cases = [
            ("properties", nest(levels, string(), |s| json!({"type": "object", "properties": {"a": s}}))),
            ("items", nest(levels, string(), |s| json!({"type": "array", "items": s}))),
            ("additional", nest(levels, string(), |s| json!({"type": "object", "additionalProperties": s}))),
            ("allOf", json!({"type": "integer", "allOf": [nest(levels, json!({"minimum": 1}), |s| json!({"allOf": [s]}))]})),
            ("not", json!({"type": "integer", "not": nest(levels, json!({"minimum": 1}), |s| json!({"not": s}))})),
            ("default", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "default": nest(levels, json!({}), |s| json!({"a": s}))})),
        ];
        for (what, schema) in cases {
            let code = define(&client, &format!("{what} {levels}"), &schema).await;
            if code == 201 {
                let value = match what {
                    "items" => nest(levels, json!("x"), |v| json!([v])),
                    "allOf" | "not" => json!(3),
                    _ => nest(levels, json!("x"), |v| json!({"a": v})),
                };
                post(&client, "  object", &widgets("v1"), &widget("v1", "a", &value)).await;
                ask(&client, "  apply", Method::PATCH, &format!("{}/b?fieldManager=x&force=true", widgets("v1")), "application/apply-patch+yaml", widget("v1", "b", &value).to_string()).await;
                for path in ["/openapi/v2", "/openapi/v3/apis/example.com/v1"] {
                    let start = Instant::now();
                    let answer = client.get(path).await;
                    eprintln!("  {path} {} {:?}", answer.code, start.elapsed());
                }
                clear(&client).await;
            }
        }
    }
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    define(&client, "free", &free).await;
    for levels in [100, 120, 130, 500, 900, 990, 1200, 20000] {
        let value = format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        let mut body = widget("v1", &format!("d{levels}"), &json!("PLACE")).to_string();
        body = body.replace("\"PLACE\"", &value);
        ask(&client, &format!("object {levels}"), Method::POST, &widgets("v1"), "application/json", body.clone()).await;
        ask(&client, &format!("apply {levels}"), Method::PATCH, &format!("{}/d{levels}?fieldManager=x&force=true", widgets("v1")), "application/apply-patch+yaml", body).await;
        let fields = format!("{}{{}}{}", "{\"f:a\":".repeat(levels), "}".repeat(levels));
        let body = format!(r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"m{levels}","managedFields":[{{"manager":"a","operation":"Update","apiVersion":"example.com/v1","fieldsType":"FieldsV1","time":"2020-01-01T00:00:00Z","fieldsV1":{fields}}}]}},"spec":{{}}}}"#);
        ask(&client, &format!("managedFields {levels}"), Method::POST, &widgets("v1"), "application/json", body.clone()).await;
        ask(&client, &format!("merge managedFields {levels}"), Method::PATCH, &format!("{}/m{levels}", widgets("v1")), "application/merge-patch+json", body).await;
    }
    client.get(&widgets("v1")).await.expect(200);
}

#[tokio::test]
#[ignore = "scratch"]
async fn scratch_sizes() {
    let client = Client::new().await;
    let many = |n: usize, f: &dyn Fn(usize) -> Value| -> Value { (0..n).map(|i| (format!("p{i}"), f(i))).collect::<serde_json::Map<_, _>>().into() };
    let cases = [
        ("properties 20000", json!({"type": "object", "properties": many(20000, &|_| json!({"type": "string"}))})),
        ("enum 100000", json!({"type": "string", "enum": (0..100_000).map(|i| format!("v{i}")).collect::<Vec<_>>()})),
        ("enum 100000 twice", json!({"type": "string", "enum": (0..100_000).map(|i| format!("v{}", i / 2)).collect::<Vec<_>>()})),
        ("enum ints", json!({"type": "integer", "enum": (0..100_000).collect::<Vec<_>>()})),
        ("required", json!({"type": "object", "required": (0..100_000).map(|i| format!("v{i}")).collect::<Vec<_>>()})),
        ("allOf 50000", json!({"type": "integer", "allOf": (0..50_000).map(|i| json!({"minimum": i})).collect::<Vec<_>>()})),
        ("bad properties 20000", json!({"type": "object", "properties": many(20000, &|_| json!({"type": "strin", "format": "x"}))})),
        ("defaults 20000", json!({"type": "object", "properties": many(20000, &|_| json!({"type": "string", "default": "x"}))})),
        ("embedded 5000", json!({"type": "object", "properties": many(5000, &|_| json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}))})),
        ("bad defaults 10000", json!({"type": "object", "properties": many(10000, &|_| json!({"type": "string", "default": 1}))})),
        ("list maps 5000", json!({"type": "object", "properties": many(5000, &|_| json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": {"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}}))})),
        ("map keys 20000", json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": (0..20000).map(|i| format!("p{i}")).collect::<Vec<_>>(), "items": {"type":"object","required":(0..20000).map(|i| format!("p{i}")).collect::<Vec<_>>(),"properties":many(20000, &|_| json!({"type": "string"}))}})),
    ];
    for (what, schema) in cases {
        let code = define(&client, what, &schema).await;
        if code == 201 {
            let value = match schema["type"].as_str().unwrap() {
                "object" => json!({"a": 1, "p1": 7, "p3": {}}),
                "array" => json!([{"p0": "1"}, {"p0": "1"}]),
                "integer" => json!(-1),
                _ => json!("zz"),
            };
            post(&client, "  object", &widgets("v1"), &widget("v1", "a", &value)).await;
            let wide: Value = match schema["type"].as_str().unwrap() {
                "object" => many(100_000, &|_| json!(1)),
                "array" => (0..100_000).map(|i| json!({"p0": format!("{i}")})).collect(),
                "integer" => json!(-1),
                _ => json!(vec![1; 100_000]),
            };
            post(&client, "  wide", &widgets("v1"), &widget("v1", "b", &wide)).await;
            for path in ["/openapi/v2", "/openapi/v3/apis/example.com/v1"] {
                let start = Instant::now();
                let answer = client.get(path).await;
                eprintln!("  {path} {} {:?}", answer.code, start.elapsed());
            }
            clear(&client).await;
        }
    }
}

#[tokio::test]
#[ignore = "scratch"]
async fn scratch_patterns() {
    let client = Client::new().await;
    let alternation = (0..100_000).map(|i| format!("word{i}")).collect::<Vec<_>>().join("|");
    for pattern in [
        "(a{1000}){1000}", "((a{30}){30}){30}", r"\p{L}{1000}", r"(\p{L}\p{N}\p{S}){300}", r"[^x]{1000}", "(a*)*b", "(a|aa)+$", "((((a*)*)*)*)*", &"(".repeat(999), &format!("{}a{}", "(".repeat(900), ")".repeat(900)), &format!("{}a{}", "(?:".repeat(900), ")*".repeat(900)), &alternation, &"a?".repeat(50_000), &"[a-z]".repeat(100_000),
        r"(x{1000}|\w{1000}|\p{Greek}{500})", &r"\p{L}".repeat(5000),
    ] {
        let short: String = pattern.chars().take(40).collect();
        let schema = json!({"type": "array", "items": {"type": "string", "pattern": pattern}});
        if define(&client, &format!("pattern {short}"), &schema).await == 201 {
            for text in ["a".repeat(1_000_000), "ab".repeat(500_000)] {
                post(&client, "  long", &widgets("v1"), &widget("v1", "a", &json!([text]))).await;
            }
            clear(&client).await;
        }
        let rule = json!({"type": "string", "maxLength": 100, "x-kubernetes-validations": [{"rule": format!("self.matches({})", json!(pattern))}]});
        if define(&client, &format!("cel {short}"), &rule).await == 201 {
            post(&client, "  object", &widgets("v1"), &widget("v1", "a", &json!("a".repeat(100)))).await;
            clear(&client).await;
        }
    }
    let props: Value = (0..5000).map(|i| (format!("p{i}"), json!({"type": "string", "pattern": format!(r"\p{{L}}{{5}}{i}")}))).collect::<serde_json::Map<_, _>>().into();
    if define(&client, "5000 patterns", &json!({"type": "object", "properties": props})).await == 201 { clear(&client).await; }
    let props: Value = (0..5000).map(|i| (format!("p{i}"), json!({"type": "string", "pattern": format!(r"\p{{L}}{{50}}{i}")}))).collect::<serde_json::Map<_, _>>().into();
    if define(&client, "5000 large patterns", &json!({"type": "object", "properties": props})).await == 201 { clear(&client).await; }
    let props: Value = (0..20000).map(|i| (format!("p{i}"), json!({"type": "string", "pattern": format!("a{i}")}))).collect::<serde_json::Map<_, _>>().into();
    if define(&client, "20000 small patterns", &json!({"type": "object", "properties": props})).await == 201 { clear(&client).await; }
    let versions: Value = (0..300).map(|i| version(&format!("v{i}"), i == 0, &json!({"type": "string", "pattern": format!(r"\p{{L}}{{200}}{i}")}))).collect();
    if post(&client, "300 versions with large patterns", DEFINITIONS, &definition(&versions)).await.code == 201 { clear(&client).await; }
}

#[tokio::test]
#[ignore = "scratch"]
async fn scratch_cel() {
    let client = Client::new().await;
    let rule = |schema: Value, rule: &str| { let mut schema = schema; schema["x-kubernetes-validations"] = json!([{"rule": rule}]); schema };
    let lists = json!({"type": "array", "items": {"type": "integer"}});
    let bounded = json!({"type": "array", "maxItems": 1000, "items": {"type": "integer"}});
    let text = json!({"type": "string", "maxLength": 10});
    let cases = [
        ("nested unbounded", rule(lists.clone(), "self.all(a, self.all(b, self.all(c, a + b + c > 0)))")),
        ("nested bounded", rule(bounded.clone(), "self.all(a, self.all(b, self.all(c, a + b + c > 0)))")),
        ("deep nested const", rule(text.clone(), &format!("{}true{}", "[1,2,3,4,5,6,7,8,9,10].all(x, ".repeat(30), ")".repeat(30)))),
        ("nested 12 const map", rule(text.clone(), &format!("{}[1]{}.size() > 0", "[1,2,3,4,5,6,7,8,9,10].map(x, ".repeat(12), ")".repeat(12)))),
        ("parens", rule(text.clone(), &format!("{}true{}", "(".repeat(20000), ")".repeat(20000)))),
        ("parens 100", rule(text.clone(), &format!("{}true{}", "(".repeat(100), ")".repeat(100)))),
        ("nots", rule(text.clone(), &format!("{}true", "!".repeat(50000)))),
        ("minus", rule(text.clone(), &format!("{}1 == 1", "- ".repeat(40000)))),
        ("and chain", rule(text.clone(), &vec!["true"; 12000].join(" && "))),
        ("plus chain", rule(text.clone(), &format!("{} > 0", vec!["1"; 20000].join(" + ")))),
        ("ternary chain", rule(text.clone(), &format!("{}true", "true ? true : ".repeat(6000)))),
        ("select chain", rule(text.clone(), &format!("self{}", ".a".repeat(40000)))),
        ("index chain", rule(text.clone(), &format!("self{}", "[0]".repeat(30000)))),
        ("call chain", rule(text.clone(), &format!("self{} == ''", ".lowerAscii()".repeat(7000)))),
        ("list nest", rule(text.clone(), &format!("{}{} == []", "[".repeat(40000), "]".repeat(40000)))),
        ("map nest", rule(text.clone(), &format!("{}1{} == {{}}", "{1:".repeat(20000), "}".repeat(20000)))),
        ("long list", rule(text.clone(), &format!("[{}].size() > 0", vec!["1"; 45000].join(",")))),
        ("garbage", rule(text.clone(), &"?:&&((".repeat(15000))),
        ("quotes", rule(text.clone(), &"\"".repeat(99999))),
        ("too long", rule(text.clone(), &"a".repeat(1_000_000))),
        ("concat doubling", rule(text.clone(), &format!("{}self{}.size() > 0", "cel.bind(x, ".repeat(1), ", x + x)"))),
        ("doubling list", rule(text.clone(), "['a'].map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a).map(a,a+a).size() > 0")),
        ("string doubling", rule(json!({"type":"string"}), "self.replace('', self).replace('', self).replace('', self).size() > 0")),
        ("format", rule(text.clone(), "'%1000000000d'.format([1]) == ''")),
        ("format prec", rule(text.clone(), "'%.1000000000f'.format([1.0]) == ''")),
        ("range", rule(text.clone(), "lists.range(1000000000).size() > 0")),
        ("repeat", rule(text.clone(), "[1,2,3,4,5,6,7,8,9,10].map(a,[1,2,3,4,5,6,7,8,9,10].map(b,[1,2,3,4,5,6,7,8,9,10].map(c,[1,2,3,4,5,6,7,8,9,10].map(d,[1,2,3,4,5,6,7,8,9,10].map(e, [1,2,3,4,5,6,7,8,9,10].map(f, [1,2,3,4,5,6,7,8,9,10])))))).size() > 0")),
        ("shift", rule(text.clone(), "quantity('1e1000000000').isGreaterThan(quantity('1'))")),
    ];
    for (what, schema) in cases {
        if define(&client, what, &schema).await == 201 {
            let value = if schema["type"] == "array" { json!((0..1000).collect::<Vec<_>>()) } else { json!("abcdefghij") };
            post(&client, "  object", &widgets("v1"), &widget("v1", "a", &value)).await;
            clear(&client).await;
        }
    }
    let rules: Vec<Value> = (0..10000).map(|i| json!({"rule": format!("self.size() < {}", i + 100)})).collect();
    let many = json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": rules});
    if define(&client, "10000 rules", &many).await == 201 {
        post(&client, "  object", &widgets("v1"), &widget("v1", "a", &json!("a"))).await;
        clear(&client).await;
    }
    let bad: Vec<Value> = (0..10000).map(|i| json!({"rule": format!("self.bad{i} <")})).collect();
    define(&client, "10000 bad rules", &json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": bad})).await;
    let props: Value = (0..5000).map(|i| (format!("p{i}"), json!({"type": "string", "maxLength": 5, "x-kubernetes-validations": [{"rule": "self != 'x'"}]}))).collect::<serde_json::Map<_, _>>().into();
    if define(&client, "5000 places with a rule", &json!({"type": "object", "properties": props})).await == 201 { clear(&client).await; }
    let props: Value = (0..10000).map(|i| (format!("p{i}"), json!({"type": "string", "maxLength": 5}))).collect::<serde_json::Map<_, _>>().into();
    let rules: Vec<Value> = (0..3000).map(|i| json!({"rule": format!("!has(self.p{i}) || self.p{i} != 'x'")})).collect();
    if define(&client, "10000 properties, 3000 rules at the root", &json!({"type": "object", "properties": props, "x-kubernetes-validations": rules})).await == 201 {
        post(&client, "  object", &widgets("v1"), &widget("v1", "a", &json!({}))).await;
        clear(&client).await;
    }
    // run time
    let schema = rule(json!({"type": "array", "maxItems": 100, "items": {"type": "integer"}}), "self.all(a, self.all(b, a + b > 0))");
    if define(&client, "run time", &schema).await == 201 {
        post(&client, "  object", &widgets("v1"), &widget("v1", "a", &json!((0..100_000).collect::<Vec<_>>()))).await;
        clear(&client).await;
    }
    let schema = json!({"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'x'"}]}});
    if define(&client, "rule per item", &schema).await == 201 {
        post(&client, "  object", &widgets("v1"), &widget("v1", "a", &json!(vec!["a"; 300_000]))).await;
        post(&client, "  object", &widgets("v1"), &widget("v1", "a", &json!(vec!["x"; 300_000]))).await;
        clear(&client).await;
    }
}

#[tokio::test]
#[ignore = "scratch"]
async fn scratch_defaults() {
    let client = Client::new().await;
    let inner = |levels: usize| nest(levels, json!({"type": "object"}), |s| json!({"type": "array", "default": [{}, {}, {}, {}], "items": {"type": "object", "properties": {"a": s}}}));
    for levels in [4, 6, 8] {
        let schema = json!({"type": "object", "properties": {"a": inner(levels)}});
        if define(&client, &format!("defaults {levels}"), &schema).await == 201 {
            post(&client, "  object", &widgets("v1"), &widget("v1", "a", &json!({}))).await;
            clear(&client).await;
        }
    }
    let schema = json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string", "default": "x".repeat(10_000)}}}});
    if define(&client, "large default", &schema).await == 201 {
        post(&client, "  object", &widgets("v1"), &widget("v1", "a", &json!(vec![json!({}); 1_000]))).await;
        post(&client, "  object", &widgets("v1"), &widget("v1", "b", &json!(vec![json!({}); 10_000]))).await;
        clear(&client).await;
    }
    let schema = json!({"type": "array", "items": {"type": "integer", "allOf": (0..1000).map(|i| json!({"minimum": -i})).collect::<Vec<_>>()}});
    if define(&client, "allOf per item", &schema).await == 201 {
        post(&client, "  object", &widgets("v1"), &widget("v1", "a", &json!(vec![1; 10_000]))).await;
        clear(&client).await;
    }
}

#[tokio::test]
#[ignore = "scratch"]
async fn scratch_objects() {
    let client = Client::new().await;
    let schema = json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}},
        "free": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let mut versions = version("v1", true, &schema);
    versions["additionalPrinterColumns"] = json!([{"name": "A", "type": "string", "jsonPath": ".."}, {"name": "B", "type": "string", "jsonPath": "..a..b..c"}, {"name": "C", "type": "string", "jsonPath": ".spec.any[*][*][*]"}, {"name": "D", "type": "string", "jsonPath": ".spec.set[?(@=='x')]"}, {"name": "E", "type": "string", "jsonPath": ".spec.set[-1:-1000000:-1]"}]);
    versions["selectableFields"] = json!([{"jsonPath": ".spec.name"}]);
    versions["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["name"] = json!({"type": "string"});
    assert_eq!(post(&client, "definition", DEFINITIONS, &definition(&json!([versions]))).await.code, 201);
    let n = 60_000;
    let set: Vec<String> = (0..n).map(|i| format!("s{i}")).collect();
    let map: Vec<Value> = (0..n / 2).map(|i| json!({"k": format!("k{i}"), "v": i})).collect();
    let free: Value = (0..n).map(|i| (format!("f{i}"), json!(i))).collect::<serde_json::Map<_, _>>().into();
    for (what, spec) in [("set", json!({"set": set})), ("map", json!({"map": map})), ("free", json!({"free": free})), ("same", json!({"set": vec!["x"; n]})), ("wrong", json!({"set": vec![1; n]})), ("unknown", free.clone())] {
        let one = format!("{}/{what}", widgets("v1"));
        let object = widget("v1", what, &spec);
        post(&client, what, &widgets("v1"), &object).await;
        ask(&client, "  apply", Method::PATCH, &format!("{one}?fieldManager=x&force=true"), "application/apply-patch+yaml", object.to_string()).await;
        ask(&client, "  apply again", Method::PATCH, &format!("{one}?fieldManager=x&force=true"), "application/apply-patch+yaml", object.to_string()).await;
        ask(&client, "  apply other", Method::PATCH, &format!("{one}?fieldManager=y"), "application/apply-patch+yaml", object.to_string()).await;
        let mut less = spec.clone();
        for list in less.as_object_mut().unwrap().values_mut() { match list { Value::Array(l) => { l.pop(); l.reverse(); } Value::Object(m) => { m.remove("f3"); } _ => {} } }
        ask(&client, "  apply less", Method::PATCH, &format!("{one}?fieldManager=x&force=true"), "application/apply-patch+yaml", widget("v1", what, &less).to_string()).await;
        ask(&client, "  put", Method::PUT, &one, "application/json", object.to_string()).await;
        ask(&client, "  merge", Method::PATCH, &one, "application/merge-patch+json", json!({"spec": less}).to_string()).await;
        ask(&client, "  json test", Method::PATCH, &one, "application/json-patch+json", json!((0..5000).map(|_| json!({"op": "test", "path": "/spec", "value": less})).take(10).collect::<Vec<_>>()).to_string()).await;
        ask(&client, "  json insert", Method::PATCH, &one, "application/json-patch+json", json!((0..10000).map(|_| json!({"op": "add", "path": "/spec/set/0", "value": "z"})).collect::<Vec<_>>()).to_string()).await;
    }
    let deep = nest(900, json!(1), |v| json!({"a": v, "b": 1}));
    post(&client, "deep any", &widgets("v1"), &widget("v1", "deep", &json!({"any": deep}))).await;
    let start = Instant::now();
    let table = client.ask(Method::GET, &widgets("v1"), &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")], "").await;
    eprintln!("table {} {} {:?}", table.code, table.raw.len(), start.elapsed());
    let start = Instant::now();
    let list = client.get(&format!("{}?fieldSelector=spec.name%3Dx", widgets("v1"))).await;
    eprintln!("selected {} {} {:?}", list.code, list.raw.len(), start.elapsed());
    let managers = |n: usize| (0..n).map(|i| json!({"manager": format!("m{i}"), "operation": "Apply", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "time": "2020-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:name": {}, format!("f:x{i}"): {}}}})).collect::<Vec<_>>();
    for n in [100, 5000] {
        let mut object = widget("v1", &format!("managed{n}"), &json!({"name": "x"}));
        object["metadata"]["managedFields"] = json!(managers(n));
        post(&client, &format!("{n} managers"), &widgets("v1"), &object).await;
        object["spec"]["name"] = json!("y");
        ask(&client, "  apply", Method::PATCH, &format!("{}/managed{n}?fieldManager=z", widgets("v1")), "application/apply-patch+yaml", widget("v1", "q", &json!({"name": "y"})).to_string().replace("\"q\"", &format!("\"managed{n}\""))).await;
        ask(&client, "  merge", Method::PATCH, &format!("{}/managed{n}", widgets("v1")), "application/merge-patch+json", json!({"spec": {"name": "zz"}}).to_string()).await;
    }
}

#[tokio::test]
#[ignore = "scratch"]
async fn scratch_many() {
    let client = Client::new().await;
    let s = json!({"type": "object"});
    let versions: Value = (0..3000).map(|i| version(&format!("v{i}"), i == 0, &s)).collect();
    if post(&client, "3000 versions", DEFINITIONS, &definition(&versions)).await.code == 201 {
        for path in ["/openapi/v2", "/openapi/v3", "/apis"] { let start = Instant::now(); let a = client.get(path).await; eprintln!("  {path} {} {:?}", a.raw.len(), start.elapsed()); }
        post(&client, "  object", &widgets("v7"), &widget("v7", "a", &json!({}))).await;
        ask(&client, "  merge", Method::PATCH, &format!("{}/a", widgets("v9")), "application/merge-patch+json", json!({"metadata": {"labels": {"a": "b"}}}).to_string()).await;
        ask(&client, "  label", Method::PATCH, &format!("{DEFINITIONS}/widgets.example.com"), "application/merge-patch+json", json!({"metadata": {"labels": {"a": "b"}}}).to_string()).await;
        clear(&client).await;
    }
    let mut one = definition(&json!([version("v1", true, &s)]));
    one["spec"]["names"]["shortNames"] = json!((0..50000).map(|i| format!("s{i}")).collect::<Vec<_>>());
    one["spec"]["names"]["categories"] = json!((0..50000).map(|i| format!("s{i}")).collect::<Vec<_>>());
    if post(&client, "50000 short names", DEFINITIONS, &one).await.code == 201 {
        let mut two = one.clone();
        two["metadata"]["name"] = json!("gadgets.example.com");
        two["spec"]["names"]["plural"] = json!("gadgets");
        two["spec"]["names"]["kind"] = json!("Gadget");
        post(&client, "50000 conflicts", DEFINITIONS, &two).await;
        clear(&client).await;
        client.delete(&format!("{DEFINITIONS}/gadgets.example.com")).await;
    }
    let mut v = version("v1", true, &s);
    v["additionalPrinterColumns"] = json!((0..20000).map(|i| json!({"name": format!("c{i}"), "type": "string", "jsonPath": "..a"})).collect::<Vec<_>>());
    if post(&client, "20000 columns", DEFINITIONS, &definition(&json!([v]))).await.code == 201 {
        post(&client, "  object", &widgets("v1"), &widget("v1", "a", &json!({}))).await;
        let start = Instant::now();
        let table = client.ask(Method::GET, &widgets("v1"), &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")], "").await;
        eprintln!("table {} {} {:?}", table.code, table.raw.len(), start.elapsed());
        clear(&client).await;
    }
    v = version("v1", true, &s);
    v["additionalPrinterColumns"] = json!([{"name": "c", "type": "string", "jsonPath": format!(".{}", "..".repeat(100_000))}]);
    if post(&client, "long column", DEFINITIONS, &definition(&json!([v]))).await.code == 201 { clear(&client).await; }
    v["additionalPrinterColumns"] = json!([{"name": "c", "type": "string", "jsonPath": format!(".a{}", "[?(@.a".repeat(50_000))}]);
    if post(&client, "nested column", DEFINITIONS, &definition(&json!([v]))).await.code == 201 { clear(&client).await; }
    let mut long = definition(&json!([version(&"v".repeat(1_000_000), true, &s)]));
    post(&client, "long version", DEFINITIONS, &long).await;
    long = definition(&json!([version("v1", true, &s)]));
    long["spec"]["names"]["plural"] = json!("w".repeat(1_000_000));
    post(&client, "long plural", DEFINITIONS, &long).await;
    long["metadata"]["name"] = json!("w".repeat(1_000_000));
    post(&client, "long name", DEFINITIONS, &long).await;
    let _ = Duration::from_secs(1);
}
