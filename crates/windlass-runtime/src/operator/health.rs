//! Liveness and readiness checks.
//!
//! Responses look like those of the API server and of controller-runtime: `ok`, or one line per check if one fails or
//! with `?verbose`. `?exclude=NAME` skips a check; `/readyz/NAME` runs one check alone.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use http::StatusCode;
use parking_lot::RwLock;

/// Named health checks. A cheap handle: clones share the checks.
///
/// ```
/// use windlass_runtime::operator::{Checks, Unhealthy};
///
/// let ready = Checks::new();
/// ready.add("disk", || Err(Unhealthy::new("the disk is full")));
/// assert!(!ready.passes());
/// ready.remove("disk");
/// assert!(ready.passes());
/// ```
#[derive(Clone, Default)]
pub struct Checks {
    checks: Arc<RwLock<BTreeMap<String, Check>>>,
}

type Check = Arc<dyn Fn() -> Result<(), Unhealthy> + Send + Sync>;

/// Reason why a check failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhealthy {
    reason: String,
    shown: bool,
}

/// Response to a probe.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

impl Unhealthy {
    /// Creates a reason that is only logged. Probes do not show it, as all clients can call them.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), shown: false }
    }

    /// Creates a reason that is also shown to probes.
    pub fn shown(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), shown: true }
    }
}

impl Checks {
    /// Creates an empty set of checks, which passes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check, replacing one of the same name. It must return at once, as every probe calls it.
    pub fn add(&self, name: impl Into<String>, check: impl Fn() -> Result<(), Unhealthy> + Send + Sync + 'static) {
        self.checks.write().insert(name.into(), Arc::new(check));
    }

    /// Removes a check.
    pub fn remove(&self, name: &str) {
        self.checks.write().remove(name);
    }

    /// Returns whether all checks pass.
    pub fn passes(&self) -> bool {
        self.named().iter().all(|(_, check)| check().is_ok())
    }

    fn named(&self) -> Vec<(String, Check)> {
        self.checks.read().iter().map(|(name, check)| (name.clone(), check.clone())).collect()
    }

    /// Responds to a probe of `/ENDPOINT`, or of one check at `/ENDPOINT/ONLY`.
    pub(super) fn probe(&self, endpoint: &str, only: Option<&str>, query: &str) -> Verdict {
        let pairs = || query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let verbose = pairs().any(|(key, _)| key == "verbose");
        let mut excluded: Vec<&str> =
            pairs().filter(|(key, value)| *key == "exclude" && !value.is_empty()).map(|(_, value)| value).collect();
        let mut checks = self.named();
        if checks.is_empty() {
            checks.push(("ping".to_owned(), Arc::new(|| Ok(()))));
        }
        if let Some(only) = only {
            checks.retain(|(name, _)| name == only);
            if checks.is_empty() {
                return Verdict { status: StatusCode::NOT_FOUND, text: "404 page not found\n".to_owned() };
            }
        }
        let mut lines = String::new();
        let mut failed = false;
        for (name, check) in checks {
            if excluded.contains(&name.as_str()) {
                excluded.retain(|excluded| *excluded != name);
                let _ = writeln!(lines, "[+]{name} excluded: ok");
                continue;
            }
            match check() {
                Ok(()) => {
                    let _ = writeln!(lines, "[+]{name} ok");
                }
                Err(unhealthy) => {
                    failed = true;
                    tracing::info!(endpoint, check = %name, reason = %unhealthy.reason, "health check failed");
                    let reason = if unhealthy.shown { &unhealthy.reason } else { "reason withheld" };
                    let _ = writeln!(lines, "[-]{name} failed: {reason}");
                }
            }
        }
        if !failed && !verbose {
            return Verdict { status: StatusCode::OK, text: "ok".to_owned() };
        }
        if !excluded.is_empty() {
            let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let _ = writeln!(lines, "warn: some health checks cannot be excluded: no matches for {}", names.join(","));
        }
        let (status, word) =
            if failed { (StatusCode::INTERNAL_SERVER_ERROR, "failed") } else { (StatusCode::OK, "passed") };
        let _ = writeln!(lines, "{endpoint} check {word}");
        Verdict { status, text: lines }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(only: Option<&str>, query: &str, expected: Expect) {
        let checks = Checks::new();
        checks.add("secret", || Err(Unhealthy::new("password is wrong")));
        checks.add("informer-sync", || Err(Unhealthy::shown("waiting for foos.example.com")));
        checks.add("ping", || Ok(()));
        let verdict = checks.probe("readyz", only, query);
        expected.assert_eq(&format!("{}\n{}", verdict.status.as_u16(), verdict.text));
    }

    #[test]
    fn failures_are_listed_without_private_reasons() {
        check(
            None,
            "",
            expect![[r#"
                500
                [-]informer-sync failed: waiting for foos.example.com
                [+]ping ok
                [-]secret failed: reason withheld
                readyz check failed
            "#]],
        );
    }

    #[test]
    fn checks_can_be_excluded() {
        check(None, "exclude=secret&exclude=informer-sync", expect!["200\nok"]);
        check(
            None,
            "exclude=secret&exclude=informer-sync&exclude=moon&verbose",
            expect![[r#"
                200
                [+]informer-sync excluded: ok
                [+]ping ok
                [+]secret excluded: ok
                warn: some health checks cannot be excluded: no matches for "moon"
                readyz check passed
            "#]],
        );
    }

    #[test]
    fn a_single_check_can_be_requested() {
        check(Some("ping"), "", expect!["200\nok"]);
        check(Some("ping"), "verbose=true", expect!["200\n[+]ping ok\nreadyz check passed\n"]);
        check(Some("moon"), "", expect!["404\n404 page not found\n"]);
    }

    #[test]
    fn no_checks_are_a_ping() {
        let verdict = Checks::new().probe("healthz", None, "verbose");
        assert_eq!(verdict.text, "[+]ping ok\nhealthz check passed\n");
    }
}
