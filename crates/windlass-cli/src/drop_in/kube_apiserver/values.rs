//! Values that kube-apiserver rejects, of flags that mostly have no effect here.

use std::{fs, path::Path};

use super::flags::Flags;
use crate::drop_in::io_errors;

/// The cipher suites of Go, secure and insecure ones, sorted.
const CIPHER_SUITES: [&str; 27] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];
const TLS_VERSIONS: [&str; 4] = ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"];
const RECONCILERS: [&str; 4] = ["", "lease", "master-count", "none"];

/// Returns the first wrong value that kube-apiserver reports alone: that of its log, which it configures before it looks at
/// other flags.
pub(super) fn check_logging(flags: &Flags) -> Result<(), String> {
    match flags.last("logging-format") {
        None | Some("text" | "json") => Ok(()),
        Some(other) => Err(format!("format: Invalid value: {other:?}: Unsupported log format")),
    }
}

/// Returns the wrong values that kube-apiserver reports together.
pub(super) fn problems(flags: &Flags) -> Vec<String> {
    let mut problems = Vec::new();
    if flags.last("storage-backend").is_some_and(|backend| !matches!(backend, "" | "etcd3")) {
        let problem = "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'";
        problems.push(problem.to_owned());
    }
    let chance = flags.last("goaway-chance").and_then(|chance| chance.parse::<f64>().ok());
    if chance.is_some_and(|chance| !(0.0..=0.02).contains(&chance)) {
        problems.push("--goaway-chance can not be less than 0 or greater than 0.02".to_owned());
    }
    if flags.last("request-timeout").is_some_and(|timeout| timeout.starts_with('-')) {
        problems.push("--request-timeout can not be negative value".to_owned());
    }
    let reloads = flags.last("encryption-provider-config-automatic-reload") == Some("true");
    if reloads && flags.last("encryption-provider-config").is_none_or(str::is_empty) {
        let problem =
            "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config".to_owned();
        problems.push(problem);
    }
    for name in ["egress-selector-config-file", "tracing-config-file"] {
        let missing = flags.last(name).filter(|path| !path.is_empty() && !Path::new(path).exists());
        problems.extend(missing.map(|path| format!("{name} {path} does not exist")));
    }
    problems
}

/// Returns the first wrong value that kube-apiserver finds while it starts.
pub(super) fn check_start(flags: &Flags) -> Result<(), String> {
    if let Some(unknown) = flags.list("tls-cipher-suites").find(|suite| CIPHER_SUITES.binary_search(suite).is_err()) {
        return Err(format!("Cipher suite {unknown} not supported or doesn't exist"));
    }
    let version = flags.last("tls-min-version").filter(|version| !version.is_empty());
    if let Some(unknown) = version.filter(|version| !TLS_VERSIONS.contains(version)) {
        return Err(format!("unknown tls version {unknown:?}"));
    }
    if let Some(path) = flags.last("encryption-provider-config").filter(|path| !path.is_empty()) {
        let failed = |why: String| format!("error while parsing file: error while loading file: {why}");
        match fs::read(path) {
            Err(error) => {
                let why = io_errors::open(Path::new(path), &error);
                let what = format!("error reading encryption provider configuration file {path:?}: {why}");
                return Err(failed(what));
            }
            Ok(text) if text.is_empty() => {
                return Err(failed(format!("encryption provider configuration file {path:?} is empty")));
            }
            Ok(_) => {}
        }
    }
    match flags.last("endpoint-reconciler-type").filter(|kind| !RECONCILERS.contains(kind)) {
        Some(unknown) => Err(format!("Reconciler not implemented: {unknown}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::flags::{Parsed, parse},
        *,
    };

    fn flags(line: &str) -> Flags {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&arguments) {
            Ok(Parsed::Flags(flags)) => flags,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn accepted_values_are_not_problems() {
        assert!(CIPHER_SUITES.is_sorted());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        let file = file.display();
        for line in [
            "",
            "--logging-format=json",
            "--logging-format=text --storage-backend= --endpoint-reconciler-type=none --goaway-chance=0.02",
            "--storage-backend=etcd3 --tls-min-version=VersionTLS13 --request-timeout=0 --tls-min-version=",
            "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
            &format!(
                "--tracing-config-file={file} --egress-selector-config-file={file} --encryption-provider-config={file}"
            ),
        ] {
            let flags = flags(line);
            assert_eq!(
                (check_logging(&flags), problems(&flags), check_start(&flags)),
                (Ok(()), vec![], Ok(())),
                "{line}"
            );
        }
    }

    #[test]
    fn wrong_values_are_reported_with_the_messages_of_kube_apiserver() {
        let logging = check_logging(&flags("--logging-format=xml"));
        assert_eq!(logging, Err("format: Invalid value: \"xml\": Unsupported log format".to_owned()));
        for (line, expected) in [
            (
                "--storage-backend=etcd2",
                "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'",
            ),
            ("--goaway-chance=0.021", "--goaway-chance can not be less than 0 or greater than 0.02"),
            ("--goaway-chance=-0.1", "--goaway-chance can not be less than 0 or greater than 0.02"),
            ("--request-timeout=-1s", "--request-timeout can not be negative value"),
            ("--egress-selector-config-file=/nowhere", "egress-selector-config-file /nowhere does not exist"),
            ("--tracing-config-file=/nowhere", "tracing-config-file /nowhere does not exist"),
            (
                "--encryption-provider-config-automatic-reload",
                "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config",
            ),
        ] {
            assert_eq!(problems(&flags(line)), [expected], "{line}");
        }
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty");
        fs::write(&empty, "").unwrap();
        let empty = empty.display();
        let parsing = "error while parsing file: error while loading file:";
        for (line, expected) in [
            ("--tls-min-version=TLS13", "unknown tls version \"TLS13\"".to_owned()),
            ("--tls-cipher-suites=A,B", "Cipher suite A not supported or doesn't exist".to_owned()),
            ("--endpoint-reconciler-type=x", "Reconciler not implemented: x".to_owned()),
            (
                "--encryption-provider-config=/nowhere",
                format!(
                    "{parsing} error reading encryption provider configuration file \"/nowhere\": open /nowhere: no such \
                     file or directory"
                ),
            ),
            (
                &format!("--encryption-provider-config={empty}"),
                format!("{parsing} encryption provider configuration file \"{empty}\" is empty"),
            ),
        ] {
            assert_eq!(check_start(&flags(line)), Err(expected), "{line}");
        }
    }
}
