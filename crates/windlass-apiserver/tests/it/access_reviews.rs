//! Access reviews.

use http::Method;
use serde_json::{Value, json};

use crate::client::Client;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const OWN: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const LOCAL: &str = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

fn get_pods() -> Value {
    json!({"verb": "get", "resource": "pods", "namespace": "default"})
}

/// Lets eve view the default namespace, and gives her a binding to a role that does not exist.
async fn client() -> Client {
    let client = Client::new().await;
    for role in ["view", "gone"] {
        let binding = json!({
            "metadata": {"name": role}, "roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": "eve"}],
        });
        client.post(BINDINGS, &binding).await.expect(201);
    }
    client
}

#[tokio::test]
async fn reviews_answer_with_the_reason_of_the_decision() {
    let client = client().await;
    let view = "RBAC: allowed by RoleBinding \"view/default\" of ClusterRole \"view\" to User \"eve\"";
    let gone = "RBAC: clusterrole.rbac.authorization.k8s.io \"gone\" not found";
    let mut secrets = get_pods();
    secrets["resource"] = "secrets".into();
    for (spec, expected) in [
        (json!({"user": "eve", "resourceAttributes": get_pods()}), json!({"allowed": true, "reason": view})),
        (json!({"user": "eve", "resourceAttributes": secrets}), json!({"allowed": false, "reason": gone})),
        (json!({"user": "bob", "resourceAttributes": get_pods()}), json!({"allowed": false})),
        (json!({"groups": ["system:masters"], "resourceAttributes": get_pods()}), json!({"allowed": true})),
    ] {
        for path in [REVIEWS, LOCAL] {
            let review = client.post(path, &json!({"spec": spec})).await.expect(201);
            assert_eq!((&review["status"], &review["spec"]), (&expected, &spec), "{path}");
        }
    }
    // Groups that every user has are not added.
    let path = json!({"path": "/version", "verb": "get"});
    let review = client.post(REVIEWS, &json!({"spec": {"user": "x", "nonResourceAttributes": path}})).await.expect(201);
    assert_eq!(review["status"], json!({"allowed": false}));
    let own = json!({"spec": {"nonResourceAttributes": path}});
    let review = client.send_as("eve", Method::POST, OWN, &own).await.expect(201);
    let reason = review["status"]["reason"].as_str().unwrap();
    assert!(reason.ends_with("to Group \"system:authenticated\""), "{reason}");
    assert_eq!(client.send_as("eve", Method::POST, REVIEWS, &own).await.code, 403);
}

#[tokio::test]
async fn selectors_that_are_not_understood_are_reported() {
    let client = client().await;
    let evaluate = async |selectors: Value| {
        let mut attributes = get_pods();
        for (field, selector) in selectors.as_object().unwrap() {
            attributes[field] = selector.clone();
        }
        let review = json!({"spec": {"user": "eve", "resourceAttributes": attributes}});
        let status = client.post(REVIEWS, &review).await.expect(201)["status"].clone();
        assert_eq!(status["allowed"], true);
        status["evaluationError"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(evaluate(json!({"fieldSelector": {"rawSelector": "a=b"}})).await, "");
    assert_eq!(
        evaluate(json!({"fieldSelector": {"rawSelector": "a"}, "labelSelector": {"rawSelector": "a in (b"}})).await,
        "spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector ignored \
         due to parse error"
    );
    let requirements = json!([{"key": "a", "operator": "Near"}, {"key": "b", "operator": "Exists"}]);
    assert_eq!(
        evaluate(json!({"labelSelector": {"requirements": requirements}})).await,
        "spec.resourceAttributes.labelSelector partially ignored due to parse error"
    );
}

#[tokio::test]
async fn invalid_reviews_are_rejected_with_the_messages_of_kube_apiserver() {
    let client = client().await;
    let user = |spec: Value| {
        let mut review = json!({"spec": spec});
        review["spec"]["user"] = "bob".into();
        review
    };
    let path = json!({"path": "/x", "verb": "get"});
    let mut selectors = get_pods();
    selectors["fieldSelector"] = json!({"rawSelector": "a=b", "requirements": [{"operator": "In"}]});
    selectors["labelSelector"] = json!({"requirements": [{"key": "a b", "operator": "Exists", "values": ["x y"]}]});
    let mut elsewhere = get_pods();
    elsewhere["namespace"] = "other".into();
    for (at, review, expected) in [
        (
            REVIEWS,
            json!({}),
            "[spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes \
             must be specified, spec.user: Invalid value: \"\": at least one of user or group must be specified]",
        ),
        (
            OWN,
            json!({"spec": {"resourceAttributes": get_pods(), "nonResourceAttributes": path}}),
            "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"get\"}: cannot be specified in \
             combination with resourceAttributes",
        ),
        (
            LOCAL,
            user(json!({"nonResourceAttributes": path})),
            "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"get\"}: disallowed on this kind of \
             request",
        ),
        (
            LOCAL,
            user(json!({"resourceAttributes": elsewhere})),
            "spec.resourceAttributes.namespace: Invalid value: \"other\": must match metadata.namespace",
        ),
        (
            REVIEWS,
            user(json!({"resourceAttributes": selectors})),
            "[spec.resourceAttributes.fieldSelector.rawSelector: Invalid value: \"a=b\": may not specified at the same \
             time as requirements, spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be \
             specified, spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be specified \
             when `operator` is 'In' or 'NotIn', spec.resourceAttributes.labelSelector.requirements[0].values: \
             Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist', \
             spec.resourceAttributes.labelSelector.requirements[0].key: Invalid value: \"a b\": name part must consist \
             of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
             'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), \
             spec.resourceAttributes.labelSelector.requirements[0].values[0]: Invalid value: \"x y\": a valid label \
             must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
             an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')]",
        ),
    ] {
        let answer = client.post(at, &review).await;
        let expected = format!(".authorization.k8s.io \"\" is invalid: {expected}");
        assert_eq!((answer.code, answer.message()), (422, expected), "{at} {review}");
    }
    let mut named = user(json!({"resourceAttributes": get_pods()}));
    named["metadata"] = json!({"name": "x", "labels": {"a": "b"}});
    for (at, start, end) in [
        (REVIEWS, "{\"name\":\"x\",\"labels\":{\"a\":\"b\"},\"managedFields\":[{\"manager\":", ": must be empty"),
        (LOCAL, "{\"name\":\"x\",\"namespace\":\"default\",\"labels\":", ": must be empty except for namespace"),
    ] {
        let message = client.post(at, &named).await.message();
        let start = format!(".authorization.k8s.io \"\" is invalid: metadata: Invalid value: {start}");
        assert!(message.starts_with(&start) && message.ends_with(end), "{message}");
    }
}

#[tokio::test]
async fn users_see_their_own_rules() {
    let client = client().await;
    let ask = async |namespace: &str| {
        let review = json!({"spec": {"namespace": namespace}});
        client.send_as("eve", Method::POST, RULES, &review).await
    };
    let nowhere = ask("").await;
    assert_eq!((nowhere.code, nowhere.message().as_str()), (400, "no namespace on request"));
    let review = ask("kube-system").await.expect(201);
    assert_eq!((&review["metadata"], &review["spec"]), (&json!({}), &json!({})));
    let status = &review["status"];
    assert_eq!(
        status["resourceRules"],
        json!([
            {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
            {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
        ])
    );
    assert_eq!(status["nonResourceRules"].as_array().unwrap().len(), 2);
    assert_eq!((&status["incomplete"], status.get("evaluationError")), (&json!(false), None));
    let status = ask("default").await.expect(201)["status"].clone();
    assert!(status["resourceRules"].as_array().unwrap().len() > 10);
    assert_eq!(status["evaluationError"], "clusterrole.rbac.authorization.k8s.io \"gone\" not found");
}

#[tokio::test]
async fn a_resource_that_cannot_be_listed_has_no_path_outside_of_namespaces() {
    let client = Client::new().await;
    for path in ["/apis/authorization.k8s.io/v1/localsubjectaccessreviews", "/api/v1/bindings"] {
        for method in [Method::GET, Method::POST] {
            let answer = client.ask(method.clone(), path, &[("content-type", "application/json")], "{}").await;
            let message = "the server could not find the requested resource";
            assert_eq!((answer.code, answer.message().as_str()), (404, message), "{method} {path}");
        }
    }
    assert_eq!(client.post("/api/v1/pods", &json!({})).await.code, 405);
    // A review has no path of its own, either.
    assert_eq!(client.delete(&format!("{REVIEWS}/x")).await.code, 404);
    assert_eq!(client.delete(REVIEWS).await.code, 405);
}
