//! Forbidden requests of the operator, with the rules that are missing.
//!
//! They are read from an audit log of the embedded control plane: an operator need not log them, and other errors with
//! the same status, such as an exceeded quota, are not mistaken for them.

use std::{
    collections::HashSet,
    fmt, fs, io,
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::Value;
use windlass_plane::audit::{AuditOptions, LogOptions, Policy};

use super::{
    account::AccountCredentials,
    event::{Event, Reporter, Source},
};

/// Requests of service accounts, except for those of the control plane itself.
const POLICY: &str = r#"{
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"}
    ]
}"#;
/// Size above which the log is rotated.
const LARGEST: u64 = 8 << 20;
const POLL: Duration = Duration::from_millis(200);

/// The audit log of a run; deleted when dropped.
#[derive(Debug)]
pub(crate) struct AuditLog(PathBuf);

impl AuditLog {
    /// Prepares an empty log in a directory.
    pub(crate) fn prepare(folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.join("audit");
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::create_dir_all(&folder),
        }
        .with_context(|| format!("cannot write {}", folder.display()))?;
        Ok(Self(folder))
    }

    fn file(&self) -> PathBuf {
        self.0.join("requests.log")
    }

    /// Options of the control plane that writes the log.
    pub(crate) fn options(&self) -> anyhow::Result<AuditOptions> {
        let policy = Policy::parse(POLICY.as_bytes()).context("failed to use the audit policy")?;
        let log = LogOptions { max_size: LARGEST, max_backups: 1, ..LogOptions::new(self.file()) };
        Ok(AuditOptions { policy, log: Some(log), webhook: None })
    }

    /// A reader of the log.
    pub(crate) fn reader(&self) -> LogReader {
        LogReader { path: self.file(), file: None, rest: Vec::new() }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        // The next run deletes it otherwise.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Reads lines as they are written, across rotations.
#[derive(Debug)]
pub(crate) struct LogReader {
    path: PathBuf,
    file: Option<fs::File>,
    /// A line that is not complete.
    rest: Vec<u8>,
}

impl LogReader {
    /// Returns the lines that were written since the last call.
    fn lines(&mut self) -> io::Result<Vec<String>> {
        // First, because the old file is complete once there is a new one.
        let is_rotated = self.is_rotated()?;
        let mut bytes = std::mem::take(&mut self.rest);
        if let Some(file) = &mut self.file {
            file.read_to_end(&mut bytes)?;
        }
        if is_rotated {
            let mut file = fs::File::open(&self.path)?;
            file.read_to_end(&mut bytes)?;
            self.file = Some(file);
        }
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.rest = bytes.split_off(end);
        Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
    }

    fn is_rotated(&self) -> io::Result<bool> {
        let current = match fs::metadata(&self.path) {
            Ok(current) => current,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match &self.file {
            Some(file) => Ok(file.metadata()?.ino() != current.ino()),
            None => Ok(true),
        }
    }

    /// Reports forbidden requests of the operator, each rule once per installation.
    pub(crate) async fn explain(mut self, credentials: AccountCredentials, reporter: Reporter) {
        let mut explained = HashSet::new();
        let mut known = None;
        loop {
            tokio::time::sleep(POLL).await;
            let lines = self.lines().unwrap_or_else(|error| {
                tracing::debug!(%error, "cannot read the audit log");
                Vec::new()
            });
            let Some((installed, account)) = credentials.current() else { continue };
            if known.replace(installed) != Some(installed) {
                explained.clear();
            }
            let events = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            // The roles of earlier requests have been replaced.
            let events = events.filter(|event| is_since(event, installed));
            let missing: Vec<_> = events.filter_map(|event| MissingRule::of(&event, &account.user())).collect();
            for missing in missing {
                if explained.insert(missing.clone()) {
                    reporter.send(Event::Line(Source::Error, missing.to_string())).await;
                    reporter.send(Event::Line(Source::Error, missing.hint())).await;
                }
            }
        }
    }
}

/// Returns whether the request of an event was received at or after a time.
fn is_since(event: &Value, time: Timestamp) -> bool {
    let received = event["requestReceivedTimestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    // The time of an event has no nanoseconds.
    received.is_none_or(|received| received.as_microsecond() >= time.as_microsecond())
}

/// A permission that the operator lacks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MissingRule {
    verb: String,
    group: String,
    /// Including the subresource; empty for a path.
    resource: String,
    /// A path that is not a resource.
    path: String,
    /// `None` for the whole cluster.
    namespace: Option<String>,
}

impl MissingRule {
    /// The rule that is missing for an audited request of a user, if it was not authorized.
    fn of(event: &Value, user: &str) -> Option<Self> {
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let decision = text("/annotations/authorization.k8s.io~1decision");
        if text("/user/username") != user || decision != "forbid" {
            return None;
        }
        let (resource, subresource) = (text("/objectRef/resource"), text("/objectRef/subresource"));
        let path = match resource.is_empty() {
            true => text("/requestURI").split('?').next().unwrap_or_default().to_owned(),
            false => String::new(),
        };
        Some(Self {
            verb: text("/verb"),
            group: text("/objectRef/apiGroup"),
            resource: if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") },
            path,
            namespace: Some(text("/objectRef/namespace")).filter(|namespace| !namespace.is_empty()),
        })
    }

    /// Returns the line that grants the permission.
    fn hint(&self) -> String {
        let Self { verb, group, resource, path, .. } = self;
        let advice = match path.is_empty() {
            true => format!(
                "if the operator needs it, add .permission(Permission::new({group:?}, {resource:?}, [{verb:?}])) to the \
                 controller that sends it"
            ),
            false => format!("bind a ClusterRole with the nonResourceURL {path} to the service account"),
        };
        format!("hint: {advice}; --as-admin runs it without roles")
    }
}

impl fmt::Display for MissingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, path, namespace } = self;
        if resource.is_empty() {
            return write!(f, "forbidden: the operator's roles do not allow {verb} on {path}");
        }
        let place = match namespace {
            Some(namespace) => format!("in namespace {namespace}"),
            None => "in the whole cluster".to_owned(),
        };
        write!(
            f,
            "forbidden: the operator's roles do not allow {verb} on {resource} {place}; missing rule: \
             {{apiGroups: [{group:?}], resources: [{resource:?}], verbs: [{verb:?}]}}"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    const USER: &str = "system:serviceaccount:shop-system:shop";

    fn event(decision: &str, verb: &str, reference: Value) -> Value {
        json!({
            "user": {"username": USER}, "verb": verb, "requestURI": "/metrics?a=b", "objectRef": reference,
            "responseStatus": {"code": 403}, "annotations": {"authorization.k8s.io/decision": decision},
        })
    }

    #[test]
    fn a_request_that_was_not_authorized_names_the_missing_rule() {
        let scale = json!({
            "resource": "deployments", "subresource": "scale", "namespace": "default", "name": "a", "apiGroup": "apps",
        });
        for (verb, reference, expected) in [
            (
                "list",
                json!({"resource": "pods"}),
                r#"list on pods in the whole cluster; missing rule: {apiGroups: [""], resources: ["pods"], verbs: ["list"]}"#,
            ),
            (
                "patch",
                scale,
                r#"patch on deployments/scale in namespace default; missing rule: {apiGroups: ["apps"], resources: ["deployments/scale"], verbs: ["patch"]}"#,
            ),
            ("get", Value::Null, "get on /metrics"),
        ] {
            let missing = MissingRule::of(&event("forbid", verb, reference), USER).unwrap();
            assert_eq!(missing.to_string(), format!("forbidden: the operator's roles do not allow {expected}"));
        }
        let pods = json!({"resource": "pods"});
        let missing = MissingRule::of(&event("forbid", "create", pods.clone()), USER).unwrap();
        assert!(missing.hint().contains(r#".permission(Permission::new("", "pods", ["create"]))"#));
        // An exceeded quota, and another account.
        assert_eq!(MissingRule::of(&event("allow", "create", pods.clone()), USER), None);
        assert_eq!(MissingRule::of(&event("forbid", "create", pods), "system:serviceaccount:a:b"), None);
    }

    #[test]
    fn requests_from_before_the_roles_were_installed_do_not_count() {
        let installed: Timestamp = "2026-01-02T03:04:05.123456789Z".parse().unwrap();
        for (received, counts) in [
            ("2026-01-02T03:04:05.123455Z", false),
            ("2026-01-02T03:04:05.123456Z", true),
            ("2026-01-02T03:04:06.000000Z", true),
        ] {
            assert_eq!(is_since(&json!({ "requestReceivedTimestamp": received }), installed), counts, "{received}");
        }
    }

    #[test]
    fn lines_are_read_once_they_are_complete_and_across_rotations() {
        let folder = tempfile::tempdir().unwrap();
        let log = AuditLog::prepare(folder.path()).unwrap();
        assert!(log.options().unwrap().log.is_some());
        let mut reader = log.reader();
        assert!(reader.lines().unwrap().is_empty());
        let mut file = fs::File::create(log.file()).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(reader.lines().unwrap(), ["one"]);
        file.write_all(b"o\nthree\n").unwrap();
        fs::rename(log.file(), log.file().with_extension("1")).unwrap();
        assert_eq!(reader.lines().unwrap(), ["two", "three"]);
        fs::write(log.file(), "four\n").unwrap();
        assert_eq!(reader.lines().unwrap(), ["four"]);
        assert!(reader.lines().unwrap().is_empty());
        drop(log);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
