//! What a process calls itself in Leases.

use uuid::Uuid;

/// A name that no other process has: the host's name (in a pod, the pod's), an underscore and a random UUID.
///
/// A process that is started again gets another one, so it can never mistake its predecessor's lease for its own.
///
/// ```
/// let (mine, other) = (windlass_runtime::lease::identity(), windlass_runtime::lease::identity());
/// assert_ne!(mine, other);
/// assert!(mine.contains('_'));
/// ```
pub fn identity() -> String {
    format!("{}_{}", hostname(), Uuid::new_v4())
}

fn hostname() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let environment = || std::env::var("HOSTNAME").ok();
    let filled = |name: String| Some(name.trim().to_owned()).filter(|name| !name.is_empty());
    kernel.and_then(filled).or_else(|| environment().and_then(filled)).unwrap_or_else(|| "localhost".to_owned())
}
