//! The metrics of service account tokens, under the names of kube-apiserver.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
};

/// A use of a token that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Use of any token in a Secret.
    Legacy,
    /// Use of a pod's token after it should have been replaced.
    Stale,
    /// Use of a token in a Secret that a user has created.
    LegacyManual,
    /// Use of a token in a Secret that its account lists.
    LegacyAuto,
    /// Use of a token in a Secret that is marked as invalid.
    InvalidLegacyAuto,
    /// Use of a pod's token before it should be replaced.
    Valid,
}

const USES: [(Use, &str, &str); 6] = [
    (Use::Legacy, "legacy_tokens_total", "legacy service account tokens"),
    (Use::Stale, "stale_tokens_total", "stale projected service account tokens"),
    (Use::LegacyManual, "legacy_manual_token_uses_total", "manually created legacy tokens"),
    (Use::LegacyAuto, "legacy_auto_token_uses_total", "auto-generated legacy tokens"),
    (Use::InvalidLegacyAuto, "invalid_legacy_auto_token_uses_total", "invalid auto-generated legacy tokens"),
    (Use::Valid, "valid_tokens_total", "valid projected service account tokens"),
];

/// The counters.
#[derive(Default)]
pub(super) struct TokenCounters([AtomicU64; USES.len()]);

impl TokenCounters {
    pub(super) fn count(&self, used: Use) {
        self.0[used as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Appends the metrics in the Prometheus text format.
    pub(super) fn render(&self, out: &mut String) {
        for (used, name, what) in USES {
            let number = self.0[used as usize].load(Ordering::Relaxed);
            let _ = writeln!(out, "# HELP serviceaccount_{name} Number of uses of {what}.");
            let _ = writeln!(out, "# TYPE serviceaccount_{name} counter\nserviceaccount_{name} {number}");
        }
    }
}
