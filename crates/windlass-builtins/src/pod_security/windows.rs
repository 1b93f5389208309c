//! Windows: processes of the node.

use serde_json::Value;

use super::{Pod, Violation, list};
use crate::object::boolean;

/// Containers do not run as processes of the node.
pub(super) fn host_process(pod: Pod<'_>) -> Option<Violation> {
    let wrong = |part: &Value| boolean(part, "/securityContext/windowsOptions/hostProcess") == Some(true);
    let setters = list::setters(wrong(pod.spec), &pod.containers_where(wrong))?;
    Violation::new("hostProcess", format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"))
}
