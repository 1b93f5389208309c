//! The policy of a namespace: a level for each mode, from labels.

use std::fmt;

use windlass_schema::field::{ErrorList, Path};

use crate::field_errors::FieldErrors;

/// A level of the Pod Security Standards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Allows everything.
    Privileged,
    /// Rejects known privilege escalations.
    Baseline,
    /// Requires hardened pods.
    Restricted,
}

impl Level {
    /// Requirement for a level.
    pub(super) const EXPECTED: &'static str = "must be one of privileged, baseline, restricted";

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Privileged, Self::Baseline, Self::Restricted].into_iter().find(|level| level.name() == text)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// The release of Kubernetes whose checks apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyVersion {
    /// The checks of this server.
    Latest,
    /// The checks of `v1.N`.
    Minor(u64),
}

impl PolicyVersion {
    /// Requirement for a version.
    pub(super) const EXPECTED: &'static str = r#"must be "latest" or "v1.x""#;

    pub(super) fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Self::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let is_number =
            minor.bytes().all(|byte| byte.is_ascii_digit()) && (minor.len() == 1 || !minor.starts_with('0'));
        // Go's integers have 63 bits.
        let number = minor.parse().ok().filter(|number| i64::try_from(*number).is_ok());
        number.filter(|_| is_number).map(Self::Minor)
    }

    /// Returns the minor version; `None` for the latest one.
    pub(super) fn minor(self) -> Option<u64> {
        match self {
            Self::Latest => None,
            Self::Minor(minor) => Some(minor),
        }
    }
}

/// A level in a version, displayed as `baseline:v1.30`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelVersion {
    /// The level.
    pub level: Level,
    /// The version.
    pub version: PolicyVersion,
}

impl LevelVersion {
    /// Allows everything.
    pub const PRIVILEGED: Self = Self { level: Level::Privileged, version: PolicyVersion::Latest };

    /// Returns whether this level may reject pods that `old` allows.
    pub fn tightens(self, old: Self) -> bool {
        self != old && self.level != Level::Privileged && (self.version != old.version || self.level > old.level)
    }
}

impl LevelVersion {
    /// Returns whether both allow the same, regardless of their versions.
    fn is_equivalent(self, other: Self) -> bool {
        self.level == other.level && (self.level == Level::Privileged || self.version == other.version)
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            PolicyVersion::Latest => write!(out, "{}:latest", self.level.name()),
            PolicyVersion::Minor(minor) => write!(out, "{}:v1.{minor}", self.level.name()),
        }
    }
}

/// The policy of a namespace. By default, it allows everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The level that pods are rejected by.
    pub enforce: LevelVersion,
    /// The level whose violations are audited.
    pub audit: LevelVersion,
    /// The level whose violations are reported to the user.
    pub warn: LevelVersion,
}

impl Default for Policy {
    fn default() -> Self {
        Self::PRIVILEGED
    }
}

impl Policy {
    /// Allows everything.
    pub const PRIVILEGED: Self =
        Self { enforce: LevelVersion::PRIVILEGED, audit: LevelVersion::PRIVILEGED, warn: LevelVersion::PRIVILEGED };

    /// Returns whether the policy allows everything in all modes.
    pub fn is_privileged(self) -> bool {
        self.is_equivalent(Self::PRIVILEGED)
    }

    /// Returns whether two policies allow the same in all modes.
    pub fn is_equivalent(self, other: Self) -> bool {
        let pairs = [(self.enforce, other.enforce), (self.audit, other.audit), (self.warn, other.warn)];
        pairs.into_iter().all(|(own, other)| own.is_equivalent(other))
    }

    /// Reads the policy from the labels of a namespace, which state how it differs from `defaults`. Wrong labels are
    /// errors; the policy then enforces `restricted`, and neither audits nor warns.
    pub fn of_labels<'a>(defaults: Self, label: impl Fn(&str) -> Option<&'a str>) -> (Self, ErrorList) {
        let mut policy = defaults;
        let mut errors = ErrorList::new();
        let modes = [
            ("enforce", &mut policy.enforce, Level::Restricted),
            ("audit", &mut policy.audit, Level::Privileged),
            ("warn", &mut policy.warn, Level::Privileged),
        ];
        for (mode, setting, fallback) in modes {
            let key = format!("pod-security.kubernetes.io/{mode}");
            let path = Path::new("metadata").child("labels");
            if let Some(text) = label(&key) {
                setting.level = Level::parse(text).unwrap_or_else(|| {
                    errors.invalid(&path.key(&key), text, Level::EXPECTED);
                    fallback
                });
            }
            let key = format!("{key}-version");
            if let Some(text) = label(&key) {
                setting.version = PolicyVersion::parse(text).unwrap_or_else(|| {
                    errors.invalid(&path.key(&key), text, PolicyVersion::EXPECTED);
                    PolicyVersion::Latest
                });
            }
        }
        // Users are warned about what is enforced, unless the labels say otherwise.
        let enforced = label("pod-security.kubernetes.io/enforce").and_then(Level::parse);
        if let Some(level) = enforced.filter(|level| *level > policy.warn.level)
            && label("pod-security.kubernetes.io/warn").is_none()
        {
            policy.warn.level = level;
            if label("pod-security.kubernetes.io/warn-version").is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(labels: &[(&str, &str)]) -> String {
        let (Policy { enforce, audit, warn }, errors) = Policy::of_labels(Policy::PRIVILEGED, |key| {
            let key = key.strip_prefix("pod-security.kubernetes.io/")?;
            labels.iter().find(|(have, _)| *have == key).map(|(_, value)| *value)
        });
        let errors: String = errors.iter().map(|error| format!("; {error}")).collect();
        format!("{enforce} {audit} {warn}{errors}")
    }

    #[test]
    fn labels_state_a_level_per_mode() {
        for (labels, expected) in [
            (&[][..], "privileged:latest privileged:latest privileged:latest"),
            (&[("audit", "baseline"), ("audit-version", "v1.0")], "privileged:latest baseline:v1.0 privileged:latest"),
            (&[("enforce", "baseline")], "baseline:latest privileged:latest baseline:latest"),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.30")],
                "restricted:v1.30 privileged:latest restricted:v1.30",
            ),
            (
                &[("enforce", "restricted"), ("warn", "privileged")],
                "restricted:latest privileged:latest privileged:latest",
            ),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.9"), ("warn-version", "v1.8")],
                "restricted:v1.9 privileged:latest restricted:v1.8",
            ),
        ] {
            assert_eq!(read(labels), expected, "{labels:?}");
        }
    }

    #[test]
    fn wrong_labels_enforce_the_strictest_level_and_warn_of_nothing() {
        let read = read(&[("enforce", "strict"), ("audit", "x"), ("warn", "Baseline"), ("warn-version", "1.2")]);
        expect_test::expect![[r#"restricted:latest privileged:latest privileged:latest; metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted; metadata.labels[pod-security.kubernetes.io/audit]: Invalid value: "x": must be one of privileged, baseline, restricted; metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: "Baseline": must be one of privileged, baseline, restricted; metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "1.2": must be "latest" or "v1.x""#]]
        .assert_eq(&read);
    }

    #[test]
    fn versions_are_latest_or_a_minor_version() {
        for version in ["v1.0", "v1.9", "v1.35", "v1.999"] {
            assert_eq!(PolicyVersion::parse(version), version[3..].parse().ok().map(PolicyVersion::Minor));
        }
        for version in ["", "Latest", "v1.", "v1.01", "v1.+1", "v1.x", "v2.1", "1.2", "v1.9223372036854775808"] {
            assert_eq!(PolicyVersion::parse(version), None, "{version}");
        }
        assert_eq!(PolicyVersion::parse("latest"), Some(PolicyVersion::Latest));
    }

    #[test]
    fn a_level_tightens_another_by_level_or_version() {
        let at = |level, version| LevelVersion { level, version };
        let (latest, old) = (PolicyVersion::Latest, PolicyVersion::Minor(20));
        let baseline = at(Level::Baseline, latest);
        assert!(baseline.tightens(LevelVersion::PRIVILEGED));
        assert!(!baseline.tightens(baseline));
        assert!(!baseline.tightens(at(Level::Restricted, latest)));
        assert!(baseline.tightens(at(Level::Restricted, old)), "another version may check more");
        assert!(!LevelVersion::PRIVILEGED.tightens(at(Level::Restricted, old)));
    }
}
