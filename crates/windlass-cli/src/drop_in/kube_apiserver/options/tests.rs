use tempfile::TempDir;
use windlass_plane::Pki;

use super::{
    super::flags::{Parsed, parse},
    *,
};

/// Files as envtest writes them; `DIR` in command lines is their directory.
fn files() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let serving = Pki::self_signed(&["localhost".to_owned()]).unwrap();
    write("apiserver.crt", &serving.certificate);
    write("apiserver.key", &serving.key);
    write("sa-signer.key", TokenKey::generate().to_pem());
    write("sa-signer.crt", &Pki::self_signed(&["sa".to_owned()]).unwrap().certificate);
    write("client-cert-auth-ca.crt", &Pki::new_authority().unwrap().certificate);
    write("tokens.csv", "secret,alice,1,dev\n");
    folder
}

fn options_with(line: &str, variables: &[(&str, &str)]) -> Result<ServerOptions, String> {
    let folder = files();
    let line = line.replace("DIR", folder.path().to_str().unwrap());
    let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let variable =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    match parse(&arguments)? {
        Parsed::Flags(flags) => ServerOptions::of(&flags, &variable),
        other => panic!("{other:?}"),
    }
}

fn options(line: &str) -> Result<ServerOptions, String> {
    options_with(line, &[])
}

/// The command line of envtest in controller-runtime 0.18 to 0.24.
const ENVTEST: &str = "--allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir=DIR \
                       --client-ca-file=DIR/client-cert-auth-ca.crt --disable-admission-plugins=ServiceAccount \
                       --etcd-servers=http://127.0.0.1:1234 --secure-port=4321 \
                       --service-account-issuer=https://127.0.0.1:4321/ --service-account-key-file=DIR/sa-signer.crt \
                       --service-account-signing-key-file=DIR/sa-signer.key --service-cluster-ip-range=10.0.0.0/24";

/// The command line of fabric8's kube-api-test, and of jenvtest before it.
const FABRIC8: &str = "--cert-dir DIR --secure-port 4321 --etcd-servers http://0.0.0.0:1234 --authorization-mode RBAC \
                       --service-account-issuer https://localhost --service-account-signing-key-file DIR/sa-signer.key \
                       --service-account-signing-key-file DIR/sa-signer.key --service-account-key-file DIR/sa-signer.key \
                       --service-account-issuer DIR/apiserver.crt --disable-admission-plugins ServiceAccount \
                       --client-ca-file DIR/client-cert-auth-ca.crt --service-cluster-ip-range 10.0.0.0/24 --allow-privileged";

/// Everything that is required.
const LEAST: &str = "--cert-dir=DIR --etcd-servers=http://127.0.0.1:1234 --service-account-issuer=a \
                     --service-account-key-file=DIR/sa-signer.crt --service-account-signing-key-file=DIR/sa-signer.key";

#[test]
fn command_lines_of_test_frameworks_are_understood_without_a_warning() {
    for (line, address, etcd, issuers) in
        [(ENVTEST, "127.0.0.1", "http://127.0.0.1:1234", 1), (FABRIC8, "0.0.0.0", "http://0.0.0.0:1234", 2)]
    {
        let options = options(line).unwrap();
        assert_eq!(options.ignored, Vec::<String>::new(), "{line}");
        assert_eq!((options.plane.address.to_string().as_str(), options.plane.port), (address, 4321), "{line}");
        assert_eq!(options.etcd, [etcd]);
        assert_eq!(options.plane.disabled_admission_plugins, ["ServiceAccount", "NodeRestriction"]);
        assert_eq!(options.plane.authentication.service_account_issuers.len(), issuers);
        assert!(
            options.plane.authentication.client_ca.is_some_and(|authority| authority.contains("BEGIN CERTIFICATE"))
        );
        assert!(!options.plane.authentication.bootstrap_tokens);
        let authorizers: Vec<_> =
            options.plane.authorization.authorizers.iter().map(AuthorizerOptions::type_name).collect();
        assert_eq!(authorizers, ["RBAC"]);
        assert_eq!(options.plane.service_network.to_string(), "10.0.0.0/24");
        assert!(options.given.front_proxy.is_none());
        assert!(!options.plane.controllers.contains("namespace-controller"));
        assert_eq!(options.plane.nodes.count, 0);
    }
}

#[test]
fn flags_of_the_server_have_their_meaning() {
    let more = "--authorization-mode=Node,RBAC --token-auth-file=DIR/tokens.csv --anonymous-auth=false -v=2 \
                --max-requests-inflight=7 --audit-log-compress=true --audit-log-truncate-enabled=false \
                --requestheader-client-ca-file=DIR/client-cert-auth-ca.crt --requestheader-allowed-names=a,b \
                --tls-cert-file=DIR/apiserver.crt --tls-private-key-file=DIR/apiserver.key --profiling=false";
    let found = options(&format!("{LEAST} {more}")).unwrap();
    let authorizers: Vec<_> = found.plane.authorization.authorizers.iter().map(AuthorizerOptions::type_name).collect();
    assert_eq!(authorizers, ["Node", "RBAC"]);
    assert!(found.plane.authentication.token_file.is_some() && !found.plane.authentication.anonymous.enabled);
    assert_eq!(found.plane.authentication.request_header.unwrap().allowed_names, ["a", "b"]);
    assert_eq!((found.plane.limits.max_requests_inflight, found.plane.port), (7, 6443));
    assert_eq!(found.ignored, Vec::<String>::new());
    let least = options(LEAST).unwrap();
    assert!(least.plane.authorization.always_allows(), "the default of kube-apiserver");
}

#[test]
fn flags_without_an_effect_are_named() {
    let more = "--feature-gates=WatchList=true --runtime-config=api/all=true,resource.k8s.io/v1beta1 \
                --service-cluster-ip-range=10.96.0.0/12,fd00::/108 --event-ttl=2h --cors-allowed-origins=a \
                --enable-admission-plugins=ImagePolicyWebhook,AlwaysPullImages --disable-admission-plugins=ResourceQuota";
    let expected = [
        "--cors-allowed-origins",
        "--event-ttl",
        "--feature-gates",
        "--service-cluster-ip-range=fd00::/108",
        "--runtime-config=resource.k8s.io/v1beta1",
        "--enable-admission-plugins=ImagePolicyWebhook",
    ];
    let found = options(&format!("{LEAST} {more}")).unwrap();
    assert_eq!(found.ignored, expected);
    assert_eq!(found.plane.runtime_config, RuntimeConfig::parse(["api/all=true"]).unwrap());
    assert_eq!(found.plane.service_network.to_string(), "10.96.0.0/12");
    assert_eq!(found.plane.enabled_admission_plugins, ["AlwaysPullImages"]);
    assert_eq!(found.plane.disabled_admission_plugins, ["ResourceQuota", "NodeRestriction"]);
}

#[test]
fn flags_of_kube_apiserver_alone_have_an_effect() {
    let more = "--default-not-ready-toleration-seconds=7 --default-unreachable-toleration-seconds=0 \
                --service-node-port-range=31000+9 --request-timeout=1m30s";
    let found = options(&format!("{LEAST} {more}")).unwrap();
    let tolerations = found.plane.admission_configuration.tolerations;
    assert_eq!((tolerations.not_ready, tolerations.unreachable), (7, 0));
    assert_eq!(found.plane.node_ports.to_string(), "31000-31009");
    assert_eq!(found.plane.limits.request_timeout, Duration::from_secs(90));
    assert_eq!(found.ignored, Vec::<String>::new());
}

#[test]
fn node_restriction_runs_only_if_it_is_enabled_as_in_kube_apiserver() {
    let restricted = |flags: &str| {
        let plane = options(&format!("{LEAST} {flags}")).unwrap().plane;
        !plane.disabled_admission_plugins.iter().any(|name| name == "NodeRestriction")
    };
    assert!(!restricted(""));
    assert!(!restricted("--disable-admission-plugins=NodeRestriction"));
    assert!(restricted("--enable-admission-plugins=NodeRestriction"));
}

#[test]
fn the_old_flag_of_admission_plugins_names_exactly_those_that_run() {
    let found =
        options(&format!("{LEAST} --admission-control=NamespaceLifecycle,LimitRanger,AlwaysAdmit,ImagePolicyWebhook"))
            .unwrap();
    let disabled = found.plane.disabled_admission_plugins;
    assert_eq!(disabled.len(), admission::known().count() - 4);
    assert!(disabled.iter().any(|name| name == "ServiceAccount"), "{disabled:?}");
    assert!(!disabled.iter().any(|name| ["NamespaceLifecycle", "LimitRanger"].contains(&name.as_str())));
    assert_eq!(found.plane.enabled_admission_plugins, ["NamespaceLifecycle", "LimitRanger", "AlwaysAdmit"]);
    assert_eq!(found.ignored, ["--admission-control=ImagePolicyWebhook"]);
    let none = options(&format!("{LEAST} --admission-control=")).unwrap().plane.disabled_admission_plugins;
    assert_eq!(none.len(), admission::known().count());
    let both = format!("{LEAST} --admission-control=Foo --enable-admission-plugins=Priority");
    let expected = "[admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually \
                    exclusive, admission-control plugin \"Foo\" is unknown]";
    assert_eq!(options(&both).unwrap_err(), expected);
}

#[test]
fn the_certificate_of_the_front_proxy_is_read() {
    let (cert, key) = ("--proxy-client-cert-file=DIR/apiserver.crt", "--proxy-client-key-file=DIR/apiserver.key");
    let proxy = options(&format!("{LEAST} {cert} {key}")).unwrap().given.front_proxy.unwrap();
    assert!(proxy.certificate.contains("BEGIN CERTIFICATE") && proxy.key.contains("PRIVATE KEY"));
    assert!(options(&format!("{LEAST} {cert}")).unwrap().given.front_proxy.is_none());
    let missing = options(&format!("{LEAST} {cert} --proxy-client-key-file=/nowhere")).unwrap_err();
    assert_eq!(missing, "open /nowhere: no such file or directory");
}

#[test]
fn the_configuration_of_admission_plugins_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("admission.yaml");
    let configured = |plugins: &str| {
        let text =
            format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: {plugins}\n");
        std::fs::write(&file, text).unwrap();
        options(&format!("{LEAST} --admission-control-config-file={}", file.display()))
    };
    let exemptions = "{name: PodSecurity, configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: \
                      PodSecurityConfiguration, exemptions: {namespaces: [kube-system]}}}";
    let found = configured(&format!("[{exemptions}, {{name: ImagePolicyWebhook, path: policy.yaml}}]")).unwrap();
    assert_eq!(found.plane.admission_configuration.pod_security.namespaces, ["kube-system"]);
    assert_eq!(found.ignored, ["--admission-control-config-file (ImagePolicyWebhook)"]);
    let wrong = configured("[{name: PodSecurity, configuration: {kind: Pod, apiVersion: v1}}]").unwrap_err();
    let expected = "couldn't init admission plugin \"PodSecurity\": no kind \"Pod\" is registered for version \"v1\"";
    assert_eq!(wrong, expected);
}

#[test]
fn wrong_values_are_errors_of_kube_apiserver() {
    let required = "service-account-issuer is a required flag, either `--service-account-key-file` or \
                    `--service-account-signing-endpoint` must be set, --service-account-signing-key-file and \
                    --service-account-issuer are required flags]";
    for (line, expected) in [
        ("--cert-dir=DIR".to_owned(), format!("[--etcd-servers must be specified, {required}")),
        (
            "--cert-dir=DIR --etcd-servers=http://a:1 --secure-port=70000".to_owned(),
            format!(
                "[--secure-port 70000 must be between 1 and 65535, inclusive. It cannot be turned off with 0, {required}"
            ),
        ),
        (
            format!("{LEAST} --service-cluster-ip-range=abc"),
            "service-cluster-ip-range[0] is not a valid cidr".to_owned(),
        ),
        (format!("{LEAST} --feature-gates=Foo=true"), "unrecognized feature gate: Foo".to_owned()),
        (
            format!("{LEAST} --admission-control-config-file=/nowhere"),
            "failed to read plugin config: unable to read admission control configuration from \"/nowhere\" [open \
             /nowhere: no such file or directory]"
                .to_owned(),
        ),
        (format!("{LEAST} --runtime-config=foo/v1=true"), "unknown api groups foo/v1".to_owned()),
        (
            format!("{LEAST} --runtime-config=batch/v3"),
            "group version batch/v3 that has not been registered".to_owned(),
        ),
        (
            format!("{LEAST} --feature-gates=SidecarContainers=false"),
            "cannot set feature gate SidecarContainers to false, feature is locked to true".to_owned(),
        ),
        (
            format!("{LEAST} --advertise-address=fd00::1"),
            "service IP family \"10.0.0.0/24\" must match public address family \"fd00::1\"".to_owned(),
        ),
        (
            format!("{LEAST} --storage-backend=etcd2 --goaway-chance=1"),
            "[--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3', \
             --goaway-chance can not be less than 0 or greater than 0.02]"
                .to_owned(),
        ),
        (
            format!("{LEAST} --logging-format=xml --tls-min-version=1.2"),
            "format: Invalid value: \"xml\": Unsupported log format".to_owned(),
        ),
        (format!("{LEAST} --tls-min-version=1.2"), "unknown tls version \"1.2\"".to_owned()),
        (format!("{LEAST} --authorization-mode=Foo"), "authorization-mode \"Foo\" is not a valid mode".to_owned()),
        (
            format!("{LEAST} --enable-admission-plugins=Foo"),
            "enable-admission-plugins plugin \"Foo\" is unknown".to_owned(),
        ),
        (
            format!("{LEAST} --service-account-signing-key-file=/nowhere"),
            "failed to parse service-account-issuer-key-file: open /nowhere: no such file or directory".to_owned(),
        ),
    ] {
        assert_eq!(options(&line).unwrap_err(), expected, "{line}");
    }
}

#[test]
fn variables_switch_on_loops_and_nodes() {
    let found = options_with(ENVTEST, &[("WINDLASS_CONTROLLERS", "*"), ("WINDLASS_NODES", "3")]).unwrap();
    assert!(found.plane.controllers.contains("namespace-controller"));
    assert_eq!(found.plane.nodes.count, 3);
    let authorizers: Vec<_> = found.plane.authorization.authorizers.iter().map(AuthorizerOptions::type_name).collect();
    assert_eq!(authorizers, ["Node", "RBAC"], "nodes need their authorizer");
    let wrong = options_with(ENVTEST, &[("WINDLASS_CONTROLLERS", "foo"), ("WINDLASS_NODES", "many")]).unwrap_err();
    let expected = "[WINDLASS_CONTROLLERS names an unknown controller \"foo\", \
                    WINDLASS_NODES must be a number from 0 to 5000, not \"many\"]";
    assert_eq!(wrong, expected);
}

#[test]
fn objects_are_stored_where_etcd_says() {
    for (fsync, store) in [(true, StoreKind::Embedded), (false, StoreKind::EmbeddedWithoutFsync)] {
        let storage = Storage { directory: "/data/windlass".into(), fsync, quota_bytes: Some(9) };
        let (plane, _) = options(ENVTEST).unwrap().stored_in(storage);
        assert_eq!((plane.store, plane.quota_bytes), (store, Some(9)));
        assert_eq!(plane.data_dir, Path::new("/data/windlass"));
    }
}
