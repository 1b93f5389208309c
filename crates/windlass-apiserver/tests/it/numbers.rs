//! Numbers and durations of clients, at the limits of their types.

use http::Method;
use serde_json::{Value, json};

use crate::{
    client::{CONFIG_MAPS, Client, config_map},
    definitions::{DEFINITIONS, definition, version, widget, widgets},
};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Numbers at the limits of 64 bits.
const LIMITS: [i64; 5] = [i64::MAX, i64::MIN, -1, 0, 1];

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

#[tokio::test]
async fn a_watch_lasts_as_long_as_the_client_asks_for() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    for seconds in LIMITS {
        let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds={seconds}")).await;
        assert_eq!(events.brief().await, "ADDED a", "{seconds}");
        if seconds < 0 {
            assert_eq!(events.brief().await, "end", "{seconds}");
            continue;
        }
        let labels = json!({"metadata": {"labels": {"seconds": seconds.to_string()}}});
        client.merge(&format!("{CONFIG_MAPS}/a"), &labels).await.expect(200);
        assert_eq!(events.brief().await, "MODIFIED a", "{seconds}");
    }
}

#[tokio::test]
async fn integers_that_are_none_are_rejected() {
    let client = Client::new().await;
    client.post(PODS, &pod("p", json!({}))).await.expect(201);
    for (text, why) in [
        ("9223372036854775808", "value out of range"),
        ("-9223372036854775809", "value out of range"),
        ("1e3", "invalid syntax"),
        ("0x1", "invalid syntax"),
        ("NaN", "invalid syntax"),
    ] {
        for (method, path) in [
            (Method::GET, format!("{CONFIG_MAPS}?timeoutSeconds={text}")),
            (Method::GET, format!("{CONFIG_MAPS}?watch=1&timeoutSeconds={text}")),
            (Method::GET, format!("{CONFIG_MAPS}?limit={text}")),
            (Method::DELETE, format!("{PODS}/p?gracePeriodSeconds={text}")),
            (Method::GET, format!("{PODS}/p/log?tailLines={text}")),
            (Method::GET, format!("{PODS}/p/log?limitBytes={text}")),
            (Method::GET, format!("{PODS}/p/log?sinceSeconds={text}")),
        ] {
            let answer = client.ask(method, &path, &[], "").await;
            let message = format!("strconv.ParseInt: parsing \"{text}\": {why}");
            assert_eq!((answer.code, answer.message()), (400, message), "{path}");
        }
    }
}

#[tokio::test]
async fn integers_at_their_limits_are_accepted_or_invalid() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    client.post(PODS, &pod("p", json!({}))).await.expect(201);
    for number in LIMITS {
        client.get(&format!("{CONFIG_MAPS}?limit={number}&timeoutSeconds={number}")).await.expect(200);
        client
            .delete(&format!("{CONFIG_MAPS}?labelSelector=x&limit={number}&timeoutSeconds={number}"))
            .await
            .expect(200);
        for name in ["tailLines", "limitBytes", "sinceSeconds"] {
            let code = client.get(&format!("{PODS}/p/log?{name}={number}")).await.code;
            assert!(matches!(code, 400 | 404 | 422), "{name}={number}: {code}");
        }
        for duration in [format!("{number}s"), format!("{number}ns"), format!("{number}h")] {
            let code = client.get(&format!("{CONFIG_MAPS}?timeout={duration}")).await.code;
            assert!(matches!(code, 200 | 400 | 504), "timeout={duration}: {code}");
        }
        let request = json!({"spec": {"audiences": [], "expirationSeconds": number}});
        let account = "/api/v1/namespaces/default/serviceaccounts";
        let _ = client.post(account, &json!({"metadata": {"name": "sa"}})).await;
        assert_eq!(client.post(&format!("{account}/sa/token"), &request).await.code, 422, "{number}");
    }
}

#[tokio::test]
async fn every_grace_period_can_be_shortened() {
    let client = Client::new().await;
    for (first, second) in LIMITS.into_iter().flat_map(|first| LIMITS.map(|second| (first, second))) {
        for own in [i64::MAX, 30] {
            client.post(PODS, &pod("p", json!({"terminationGracePeriodSeconds": own}))).await.expect(201);
            for seconds in [None, Some(first), Some(second)] {
                let body = json!({"gracePeriodSeconds": seconds});
                let content = [("content-type", "application/json")];
                let answer = client.ask(Method::DELETE, &format!("{PODS}/p"), &content, body.to_string()).await;
                assert!(matches!(answer.code, 200 | 404), "{first} {second}: {}", answer.message());
            }
            let ended = client.delete(&format!("{PODS}/p?gracePeriodSeconds=0")).await.code;
            assert!(matches!(ended, 200 | 404), "{first} {second}");
            client.get(&format!("{PODS}/p")).await.expect(404);
        }
    }
}

#[tokio::test]
async fn numbers_in_specs_are_accepted_or_invalid() {
    let client = Client::new().await;
    let template = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    });
    let job = |spec: Value| {
        let mut job = json!({"metadata": {"generateName": "j-"}, "spec": {"template": template}});
        job["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        job
    };
    let probe = |field: &str, number: i64| {
        let probe = json!({"exec": {"command": ["true"]}, field: number});
        json!({"containers": [{"name": "c", "image": "i", "livenessProbe": probe}]})
    };
    for number in LIMITS.into_iter().chain([i64::from(i32::MAX), i64::from(i32::MIN), i64::from(i32::MAX) + 1]) {
        let mut bodies = Vec::new();
        for field in ["activeDeadlineSeconds", "ttlSecondsAfterFinished", "backoffLimit", "completions", "parallelism"]
        {
            bodies.push(("/apis/batch/v1/namespaces/default/jobs", job(json!({field: number}))));
        }
        let cron = json!({
            "metadata": {"generateName": "c-"},
            "spec": {
                "schedule": "* * * * *", "startingDeadlineSeconds": number, "successfulJobsHistoryLimit": number,
                "jobTemplate": job(json!({})),
            },
        });
        bodies.push(("/apis/batch/v1/namespaces/default/cronjobs", cron));
        for field in ["activeDeadlineSeconds", "terminationGracePeriodSeconds"] {
            bodies.push((PODS, pod(&format!("p{number}"), json!({field: number}))));
        }
        for field in ["initialDelaySeconds", "periodSeconds", "timeoutSeconds", "terminationGracePeriodSeconds"] {
            bodies.push((PODS, pod(&format!("q{number}"), probe(field, number))));
        }
        let lease = json!({
            "metadata": {"generateName": "l-"},
            "spec": {"leaseDurationSeconds": number, "leaseTransitions": number},
        });
        bodies.push(("/apis/coordination.k8s.io/v1/namespaces/default/leases", lease));
        let hpa = json!({
            "metadata": {"generateName": "h-"},
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "d"}, "minReplicas": number, "maxReplicas": number,
                "behavior": {"scaleUp": {"stabilizationWindowSeconds": number}},
            },
        });
        bodies.push(("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", hpa));
        for (path, body) in bodies {
            let answer = client.post(path, &body).await;
            assert!(matches!(answer.code, 201 | 400 | 409 | 422), "{body}: {} {}", answer.code, answer.message());
        }
    }
}

#[tokio::test]
async fn fractions_stay_the_same_to_the_last_digit_when_an_object_is_written_again() {
    let client = Client::new().await;
    let schema = json!({"type": "object", "properties": {"numbers": {"type": "array", "items": {"type": "number"}}}});
    client.post(DEFINITIONS, &definition(&json!([version("v1", true, &schema)]))).await.expect(201);
    let numbers = [5e57, 31.245_270_191_439_438, 0.1, 2.225_073_858_507_201_4e-308, 1.797_693_134_862_315_7e308];
    let created = client.post(&widgets("v1"), &widget("v1", "a", &json!({"numbers": numbers}))).await.expect(201);
    assert_eq!(created["spec"]["numbers"], json!(numbers));
    for round in ["first", "second"] {
        let labels = json!({"metadata": {"labels": {"round": round}}});
        let patched = client.merge(&format!("{}/a", widgets("v1")), &labels).await.expect(200);
        assert_eq!(patched["spec"]["numbers"], json!(numbers), "{round}");
    }
}
