//! The content of a Lease, in client-go's format.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};

/// The fields of a Lease that matter to an election. Absent fields are zero, as in client-go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseRecord {
    /// Empty if the lease has no holder.
    pub(crate) holder: String,
    pub(crate) seconds: u32,
    /// For people only: no decision depends on the two times.
    pub(crate) acquired: Option<Timestamp>,
    pub(crate) renewed: Option<Timestamp>,
    pub(crate) transitions: i32,
}

impl LeaseRecord {
    pub(crate) fn of(lease: &Lease) -> Self {
        let Some(spec) = &lease.spec else { return Self::default() };
        Self {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            seconds: u32::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default(),
            acquired: spec.acquire_time.as_ref().map(|time| time.0),
            renewed: spec.renew_time.as_ref().map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }

    /// Returns the spec of a Lease. Strategy and preferred holder, which belong to coordinated elections, are dropped,
    /// as client-go does.
    pub(crate) fn spec(&self) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.holder.clone()),
            lease_duration_seconds: Some(i32::try_from(self.seconds).unwrap_or(i32::MAX)),
            acquire_time: self.acquired.map(MicroTime),
            renew_time: self.renewed.map(MicroTime),
            lease_transitions: Some(self.transitions),
            ..LeaseSpec::default()
        }
    }

    /// Returns a Lease with this record: a new one, or the last one with a new record. It keeps UID and version, so
    /// that the API server rejects it if the lease has changed.
    pub(crate) fn lease(&self, name: &str, last: Option<&Lease>) -> Lease {
        let metadata = match last {
            Some(lease) => ObjectMeta { managed_fields: None, ..lease.metadata.clone() },
            None => ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        };
        Lease { metadata, spec: Some(self.spec()) }
    }

    /// Returns the record that releases a lease: without a holder, and valid for one second only.
    pub(crate) fn released(&self, wall: Timestamp) -> Self {
        Self {
            holder: String::new(),
            seconds: 1,
            acquired: Some(wall),
            renewed: Some(wall),
            transitions: self.transitions,
        }
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// Returns a renew time that differs from the one in the record in the microseconds that are written. An update
    /// that changes nothing is not stored, and others would not see it.
    pub(crate) fn renewal(&self, wall: Timestamp) -> Timestamp {
        match self.renewed {
            Some(last) if last.as_microsecond() == wall.as_microsecond() => {
                Timestamp::from_microsecond(last.as_microsecond() + 1).unwrap_or(wall)
            }
            _ => wall,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_a_lease() {
        let record = LeaseRecord {
            holder: "web_1".to_owned(),
            seconds: 15,
            acquired: Some(Timestamp::from_second(1_000).unwrap()),
            renewed: Some(Timestamp::from_second(2_000).unwrap()),
            transitions: 3,
        };
        let lease = Lease { spec: Some(record.spec()), ..Lease::default() };
        assert_eq!(LeaseRecord::of(&lease), record);
        assert_eq!(LeaseRecord::of(&Lease::default()), LeaseRecord::default());
    }

    #[test]
    fn a_negative_duration_is_none() {
        let spec = LeaseSpec { lease_duration_seconds: Some(-5), ..LeaseSpec::default() };
        assert_eq!(LeaseRecord::of(&Lease { spec: Some(spec), ..Lease::default() }).duration(), Duration::ZERO);
    }

    #[test]
    fn a_renewal_always_changes_the_lease() {
        let now = Timestamp::from_microsecond(5_000_000).unwrap();
        let record = LeaseRecord { renewed: Some(now), ..LeaseRecord::default() };
        assert_eq!(record.renewal(now).as_microsecond(), 5_000_001);
        let later = Timestamp::from_microsecond(5_000_007).unwrap();
        assert_eq!(record.renewal(later), later);
    }
}
