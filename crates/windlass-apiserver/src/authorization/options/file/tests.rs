use super::*;

fn parsed(authorizers: &str) -> Result<Vec<AuthorizerOptions>, String> {
    let text =
        format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: {authorizers}");
    parse(text.as_bytes())
}

fn webhook(fields: &str) -> String {
    format!("[{{type: Webhook, name: hook, webhook: {{{fields}}}}}]")
}

#[test]
fn authorizers_have_an_order_and_defaults() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let fields = format!(
        "timeout: 3s, subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, failurePolicy: Deny, \
         connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {path}}}, cacheUnauthorizedRequests: false, \
         matchConditions: [{{expression: has(request.resourceAttributes)}}]"
    );
    let hook = webhook(&fields);
    let hook = hook.trim_start_matches('[').trim_end_matches(']');
    let authorizers = parsed(&format!("[{{type: Node, name: node}}, {hook}, {{type: RBAC, name: rbac}}]"));
    let expected = WebhookOptions {
        name: "hook".to_owned(),
        kubeconfig: path.into(),
        version: "v1".to_owned(),
        timeout: Duration::from_secs(3),
        authorized_ttl: Duration::from_secs(300),
        unauthorized_ttl: Duration::ZERO,
        denies_on_failure: true,
        conditions: vec!["has(request.resourceAttributes)".to_owned()],
    };
    let expected = vec![AuthorizerOptions::Node, AuthorizerOptions::Webhook(expected), AuthorizerOptions::Rbac];
    assert_eq!(authorizers, Ok(expected));
}

#[test]
fn betas_are_accepted() {
    for version in ["v1alpha1", "v1beta1"] {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/{version}\nkind: AuthorizationConfiguration\n\
             authorizers: [{{type: AlwaysDeny, name: alwaysdeny}}]"
        );
        assert_eq!(parse(text.as_bytes()), Ok(vec![AuthorizerOptions::AlwaysDeny]));
    }
}

#[test]
fn errors_match_kube_apiserver() {
    let types = r#"supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook""#;
    let load = "failed to load AuthorizationConfiguration from file: ";
    let empty = webhook("");
    let relative = webhook(
        "timeout: 31s, authorizedTTL: -1s, subjectAccessReviewVersion: v2, failurePolicy: Maybe, \
         connectionInfo: {type: KubeConfigFile, kubeConfigFile: x}, matchConditions: [{expression: ''}, {expression: '1'}]",
    );
    for (authorizers, expected) in [
        ("[]", "authorizers: Required value: at least one authorization mode must be defined".to_owned()),
        ("[{name: x}]", "authorizers[0].type: Required value".to_owned()),
        ("[{type: Magic, name: x}]", format!("authorizers[0].type: Unsupported value: \"Magic\": {types}")),
        (
            "[{type: RBAC, name: rbac}, {type: RBAC, name: rbac}]",
            "authorizers[1].type: Duplicate value: \"RBAC\"".to_owned(),
        ),
        ("[{type: RBAC}]", "authorizers[0].name: Required value".to_owned()),
        ("[{type: RBAC, name: roles}]", "expected name rbac for authorizer RBAC instead of roles".to_owned()),
        (
            "[{type: RBAC, name: rbac, webhook: {timeout: 1s}}]",
            "authorizers[0].webhook: Invalid value: \"non-null\": may only be specified when type=Webhook".to_owned(),
        ),
        (
            "[{type: Webhook, name: hook}]",
            "authorizers[0].webhook: Required value: required when type=Webhook".to_owned(),
        ),
        (
            &empty,
            "[authorizers[0].timeout: Required value, authorizers[0].subjectAccessReviewVersion: Required value, \
             authorizers[0].failurePolicy: Required value, authorizers[0].connectionInfo.type: Required value]"
                .to_owned(),
        ),
        (
            &relative,
            "[authorizers[0].timeout: Invalid value: \"31s\": must be > 0s and <= 30s, \
             authorizers[0].authorizedTTL: Invalid value: \"-1s\": must be > 0s, \
             authorizers[0].subjectAccessReviewVersion: Unsupported value: \"v2\": supported values: \"v1\", \"v1beta1\", \
             authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are \
             specified, authorizers[0].failurePolicy: Unsupported value: \"Maybe\": supported values: \"NoOpinion\", \
             \"Deny\", authorizers[0].connectionInfo.kubeConfigFile: Invalid value: \"x\": must be an absolute path, \
             authorizers[0].matchConditions[0].expression: Required value, \
             authorizers[0].matchConditions[1].expression: Invalid value: \"1\": must evaluate to bool but got int]"
                .to_owned(),
        ),
        (
            "[{type: RBAC, name: rbac, extra: 1}]",
            format!("{load}strict decoding error: unknown field \"authorizers[0].extra\""),
        ),
    ] {
        assert_eq!(parsed(authorizers), Err(expected), "{authorizers}");
    }
    let other = "apiVersion: v1\nkind: Config";
    assert_eq!(parse(other.as_bytes()), Err(format!("{load}no kind \"Config\" is registered for version \"v1\"")));
}
