//! Recorded requests.

use std::{
    collections::BTreeSet,
    fs, io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use crate::rbac::needs::Recorded;

/// Query parameters that affect permissions.
const TELLING: &[&str] = &["fieldSelector", "watch"];

/// Requests, each stored once.
#[derive(Clone, Debug, Default)]
pub(super) struct Records(Arc<Mutex<BTreeSet<Recorded>>>);

impl Records {
    pub(super) fn add(&self, mut recorded: Recorded) {
        recorded.uri = shorten(&recorded.uri);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(recorded);
    }

    /// Adds the requests recorded in a file by tests, if it exists.
    pub(super) fn add_file(&self, file: &Path) -> io::Result<()> {
        match fs::read_to_string(file) {
            Ok(text) => text.lines().filter_map(Recorded::read).for_each(|recorded| self.add(recorded)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns all requests.
    pub(super) fn all(&self) -> Vec<Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

fn shorten(uri: &str) -> String {
    let Some((path, query)) = uri.split_once('?') else { return uri.to_owned() };
    let tells = |pair: &&str| TELLING.contains(&pair.split('=').next().unwrap_or_default());
    let telling: Vec<&str> = query.split('&').filter(tells).collect();
    if telling.is_empty() { path.to_owned() } else { format!("{path}?{}", telling.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_requests_are_stored_once() {
        let records = Records::default();
        for version in 0..3 {
            let uri = format!("/api/v1/pods?resourceVersion={version}&watch=true&fieldSelector=metadata.name%3Da");
            records.add(Recorded {
                method: "GET".to_owned(),
                uri,
                status: 200,
                any_namespace: None,
                own_namespace: None,
            });
        }
        let all = records.all();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].uri, "/api/v1/pods?watch=true&fieldSelector=metadata.name%3Da");
    }
}
