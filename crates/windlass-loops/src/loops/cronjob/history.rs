//! Finished jobs beyond a history limit. Pure.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;

use crate::loops::job::ended_with;

/// Returns the oldest jobs with this outcome beyond the limit.
pub(super) fn too_old(jobs: &[Arc<Job>], end: &str, limit: i32) -> Vec<Arc<Job>> {
    let mut ended: Vec<Arc<Job>> = jobs.iter().filter(|job| ended_with(job) == Some(end)).cloned().collect();
    let started = |job: &Arc<Job>| job.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
    // Jobs that never started come last.
    ended.sort_by_cached_key(|job| (started(job).is_none(), started(job), job.metadata.name.clone()));
    let surplus = ended.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
    ended.truncate(surplus);
    ended.retain(|job| job.metadata.deletion_timestamp.is_none());
    ended
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_oldest_jobs_beyond_the_limit_are_selected() {
        let job = |name: &str, end: &str, started: Option<&str>| {
            let status = json!({"startTime": started, "conditions": [{"type": end, "status": "True"}]});
            Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap())
        };
        let jobs = [
            job("never", "Failed", None),
            job("late", "Complete", Some("2026-01-01T02:00:00Z")),
            job("early", "Complete", Some("2026-01-01T00:00:00Z")),
            job("middle", "Complete", Some("2026-01-01T01:00:00Z")),
            job("failed", "Failed", Some("2026-01-01T01:00:00Z")),
            job("running", "FailureTarget", Some("2025-01-01T01:00:00Z")),
        ];
        for (end, limit, expected) in
            [("Complete", 3, vec![]), ("Complete", 1, vec!["early", "middle"]), ("Failed", 1, vec!["failed"])]
        {
            let names: Vec<_> =
                too_old(&jobs, end, limit).iter().map(|job| job.metadata.name.clone().unwrap()).collect();
            assert_eq!(names, expected, "{end} {limit}");
        }
    }
}
