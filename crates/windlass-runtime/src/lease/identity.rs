//! Identity of a process in Leases.

use uuid::Uuid;

/// Returns a unique name of this process: the host name (in a pod, the pod's name), an underscore and a random UUID.
///
/// A restarted process gets another one, so it never mistakes its predecessor's lease for its own.
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
