use super::*;
use crate::lease::tests::simulation::{Agenda, Chance, Fate, LocalClock, SECOND, Trip};

const DISTURBED: u64 = 240 * SECOND;
const CALM: u64 = 60 * SECOND;

enum Event {
    Wake(usize),
    Arrives { candidate: usize, request: u64, step: ElectionStep, version: Option<String>, trip: Trip },
    Answered { candidate: usize, request: u64, answer: ElectionResult },
    Stop(usize),
}

struct Candidate {
    election: Election,
    clock: LocalClock,
    paused: u64,
    /// The pending request.
    request: u64,
    waits: bool,
    version: Option<String>,
    stopping: bool,
}

struct Simulation {
    chance: Chance,
    now: u64,
    agenda: Agenda<Event>,
    origin: Instant,
    candidates: Vec<Candidate>,
    lease: Option<(LeaseRecord, String)>,
    versions: u64,
    faults: u64,
    terms: usize,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let faults = [0, 5, 20, 50][chance.below(4) as usize];
        let count = chance.between(2, 5) as usize;
        let mut simulation = Self {
            chance,
            now: 0,
            agenda: Agenda::new(),
            origin: Instant::now(),
            candidates: Vec::new(),
            lease: None,
            versions: 0,
            faults,
            terms: 0,
        };
        for candidate in 0..count {
            let fresh = simulation.candidate();
            simulation.candidates.push(fresh);
            let start = simulation.chance.below(20 * SECOND);
            simulation.agenda.add(start, Event::Wake(candidate));
            let stop = simulation.chance.between(10 * SECOND, DISTURBED);
            simulation.agenda.add(stop, Event::Stop(candidate));
        }
        simulation
    }

    fn candidate(&mut self) -> Candidate {
        let identity = format!("host_{}", self.chance.next());
        let clock = LocalClock::new(self.origin, &mut self.chance);
        let election = Election::new(identity, Timing::default());
        Candidate { election, clock, paused: 0, request: 0, waits: false, version: None, stopping: false }
    }

    /// Wall clocks are decades apart, and sometimes stand still.
    fn wall(&mut self) -> Timestamp {
        Timestamp::from_second(self.chance.below(4_000_000_000) as i64).unwrap()
    }

    fn run(mut self) -> usize {
        let mut leader = None;
        while let Some((time, event)) = self.agenda.next() {
            self.now = self.now.max(time);
            if self.now > DISTURBED {
                self.faults = 0;
            }
            if self.now > DISTURBED + CALM {
                break;
            }
            self.happen(event);
            // A second leader can only start with an event, so this check sees every instant.
            let leaders: Vec<_> = (0..self.candidates.len()).filter(|candidate| self.leads(*candidate)).collect();
            assert!(leaders.len() < 2, "{leaders:?} lead at once at {} µs", self.now);
            if let Some(now) = leaders.first().copied()
                && leader != Some(now)
            {
                leader = Some(now);
                self.terms += 1;
            }
        }
        assert!((0..self.candidates.len()).any(|candidate| self.leads(candidate)), "there is no leader");
        self.terms
    }

    /// Returns what `Leadership::check` would return in that process, even if it was paused until now.
    fn leads(&self, candidate: usize) -> bool {
        let candidate = &self.candidates[candidate];
        matches!(candidate.election.standing(), LeadershipState::Leads { until } if candidate.clock.at(self.now) < until)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrives { candidate, request, step, version, trip } => {
                let answer = match trip.fate {
                    Fate::LostThere => return,
                    Fate::Fails => ElectionResult::Failed,
                    Fate::Arrives | Fate::LostBack => self.serve(step, version),
                };
                if trip.fate != Fate::LostBack {
                    self.agenda.add(self.now + trip.back, Event::Answered { candidate, request, answer });
                }
            }
            Event::Wake(candidate) | Event::Answered { candidate, .. } | Event::Stop(candidate)
                if self.candidates[candidate].paused > self.now =>
            {
                self.agenda.add(self.candidates[candidate].paused, event);
            }
            Event::Wake(candidate) => {
                if !self.candidates[candidate].waits {
                    self.go(candidate);
                }
            }
            Event::Answered { candidate, request, answer } => {
                let asker = &mut self.candidates[candidate];
                if !asker.waits || asker.request != request {
                    return;
                }
                asker.waits = false;
                if let ElectionResult::Is { version, .. } = &answer {
                    asker.version = Some(version.clone());
                }
                asker.election.answer(answer, asker.clock.at(self.now));
                self.go(candidate);
            }
            Event::Stop(candidate) => {
                let stopped = &mut self.candidates[candidate];
                stopped.waits = false;
                stopped.request += 1;
                stopped.stopping = true;
                stopped.election.stop();
                self.go(candidate);
            }
        }
    }

    fn serve(&mut self, step: ElectionStep, version: Option<String>) -> ElectionResult {
        let record = match (step, &self.lease) {
            (ElectionStep::Read, None) => return ElectionResult::Missing,
            (ElectionStep::Read, Some((record, version))) => {
                return ElectionResult::Is { record: record.clone(), version: version.clone() };
            }
            (ElectionStep::Create(record), None) => record,
            (ElectionStep::Replace(record), Some((_, current))) if version.as_ref() == Some(current) => record,
            (ElectionStep::Replace(_), None) => return ElectionResult::Missing,
            _ => return ElectionResult::Rejected,
        };
        self.versions += 1;
        let version = self.versions.to_string();
        self.lease = Some((record.clone(), version.clone()));
        ElectionResult::Is { record, version }
    }

    fn go(&mut self, candidate: usize) {
        if self.faults > 0 && self.chance.percent(2) {
            self.candidates[candidate].paused = self.now + self.chance.below(40 * SECOND);
        }
        let (wall, luck) = (self.wall(), self.chance.fraction());
        let asker = &mut self.candidates[candidate];
        let local = asker.clock.at(self.now);
        let step = match asker.stopping {
            true => asker.election.surrender(local, wall).unwrap_or(ElectionStep::End),
            false => asker.election.next(local, wall, luck),
        };
        match step {
            ElectionStep::End => {
                // The process exits and is restarted.
                let late = self.now + self.chance.below(10 * SECOND);
                self.candidates[candidate] = self.candidate();
                self.agenda.add(late, Event::Wake(candidate));
            }
            ElectionStep::Wait(pause) => {
                let time = self.now + asker.clock.lasts(pause);
                self.agenda.add(time, Event::Wake(candidate));
            }
            step => {
                asker.request = self.versions + self.chance.next();
                asker.waits = true;
                let (request, version) = (asker.request, asker.version.clone());
                let limit = self.now + asker.clock.lasts(asker.election.patience(local));
                self.agenda.add(limit, Event::Answered { candidate, request, answer: ElectionResult::Failed });
                let trip = Trip::new(&mut self.chance, self.faults);
                self.agenda.add(self.now + trip.there, Event::Arrives { candidate, request, step, version, trip });
            }
        }
    }
}

#[test]
fn there_are_never_two_leaders_and_one_leads_in_the_end() {
    let terms: usize = (0..2_000).map(|seed| Simulation::new(seed).run()).sum();
    assert!(terms > 6_000, "the histories were too quiet: {terms} terms");
}

fn election(identity: &str) -> Election {
    Election::new(identity.to_owned(), Timing::default())
}

fn is(record: &LeaseRecord, version: &str) -> ElectionResult {
    ElectionResult::Is { record: record.clone(), version: version.to_owned() }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const WALL: Timestamp = Timestamp::UNIX_EPOCH;

fn replaced(step: ElectionStep) -> LeaseRecord {
    let ElectionStep::Replace(record) = step else { panic!("expected a replacement, got {step:?}") };
    record
}

/// Returns a leader that acquired its lease by a request sent at `now`.
fn leader(now: Instant) -> (Election, LeaseRecord) {
    let mut election = election("me");
    assert_eq!(election.next(now, WALL, 0.0), ElectionStep::Read);
    election.answer(ElectionResult::Missing, now);
    let ElectionStep::Create(record) = election.next(now, WALL, 0.0) else { panic!("expected a creation") };
    election.answer(is(&record, "1"), now);
    (election, record)
}

#[test]
fn a_missing_lease_is_created_and_led_from_before_the_request() {
    let now = Instant::now();
    let mut election = election("me");
    assert_eq!(election.next(now, WALL, 0.0), ElectionStep::Read);
    election.answer(ElectionResult::Missing, now);
    let ElectionStep::Create(record) = election.next(now, WALL, 0.0) else { panic!("expected a creation") };
    assert_eq!((record.holder.as_str(), record.seconds, record.transitions), ("me", 15, 0));
    election.answer(is(&record, "1"), now + seconds(3));
    assert_eq!(election.standing(), LeadershipState::Leads { until: now + seconds(10) });
}

#[test]
fn a_held_lease_is_taken_over_only_after_its_full_duration_on_our_clock() {
    let now = Instant::now();
    let held = LeaseRecord { holder: "other".to_owned(), seconds: 15, transitions: 4, ..LeaseRecord::default() };
    let mut election = election("me");
    assert_eq!(election.next(now, WALL, 0.0), ElectionStep::Read);
    election.answer(is(&held, "7"), now);
    assert_eq!(election.next(now, WALL, 0.0), ElectionStep::Wait(seconds(2)));
    let almost = now + Duration::from_millis(14_999);
    assert_eq!(election.next(almost, WALL, 0.0), ElectionStep::Read);
    election.answer(is(&held, "7"), almost);
    assert!(matches!(election.next(almost, WALL, 0.0), ElectionStep::Wait(_)));
    let then = almost + seconds(2);
    assert_eq!(election.next(then, WALL, 0.0), ElectionStep::Read);
    election.answer(is(&held, "7"), then);
    let record = replaced(election.next(then, WALL, 0.0));
    assert_eq!((record.holder.as_str(), record.transitions), ("me", 5));
}

#[test]
fn a_renewal_seen_starts_the_time_again() {
    let now = Instant::now();
    let held = LeaseRecord { holder: "other".to_owned(), seconds: 15, ..LeaseRecord::default() };
    let mut election = election("me");
    election.next(now, WALL, 0.0);
    election.answer(is(&held, "7"), now);
    election.next(now, WALL, 0.0);
    let late = now + seconds(14);
    assert_eq!(election.next(late, WALL, 0.0), ElectionStep::Read);
    election.answer(is(&held, "8"), late);
    assert!(matches!(election.next(late, WALL, 0.0), ElectionStep::Wait(_)));
    let later = now + seconds(28);
    assert_eq!(election.next(later, WALL, 0.0), ElectionStep::Read);
    election.answer(is(&held, "8"), later);
    assert!(matches!(election.next(later, WALL, 0.0), ElectionStep::Wait(_)));
}

#[test]
fn a_leader_renews_without_reading_and_keeps_when_it_began() {
    let now = Instant::now();
    let (mut election, created) = leader(now);
    assert_eq!(election.next(now, WALL, 0.0), ElectionStep::Wait(seconds(2)));
    let record = replaced(election.next(now + seconds(2), WALL, 0.0));
    assert_eq!((record.acquired, record.transitions), (created.acquired, 0));
    assert_ne!(record.renewed, created.renewed);
    assert!(!election.is_slow());
    election.answer(is(&record, "2"), now + seconds(3));
    assert_eq!(election.standing(), LeadershipState::Leads { until: now + seconds(12) });
}

#[test]
fn a_leader_whose_renewal_failed_reads_at_once_and_continues() {
    let now = Instant::now();
    let (mut election, created) = leader(now);
    let then = now + seconds(2);
    replaced(election.next(then, WALL, 0.0));
    election.answer(ElectionResult::Rejected, then);
    assert_eq!(election.next(then, WALL, 0.0), ElectionStep::Read);
    election.answer(is(&created, "9"), then);
    let record = replaced(election.next(then, WALL, 0.0));
    assert!(election.is_slow());
    election.answer(is(&record, "10"), then);
    assert_eq!(election.standing(), LeadershipState::Leads { until: then + seconds(10) });
}

#[test]
fn a_leader_that_cannot_renew_ends_at_its_deadline_and_a_late_answer_does_not_help() {
    let now = Instant::now();
    let (mut election, _) = leader(now);
    let record = replaced(election.next(now + seconds(9), WALL, 0.0));
    election.answer(is(&record, "2"), now + seconds(10));
    assert_eq!(election.next(now + seconds(10), WALL, 0.0), ElectionStep::End);
    assert_eq!(election.standing(), LeadershipState::Over { led: true });
    assert!(!election.stop(), "a lost lease is left to expire");
}

#[test]
fn a_leader_that_sees_another_holder_ends_at_once() {
    let now = Instant::now();
    let (mut election, _) = leader(now);
    replaced(election.next(now + seconds(2), WALL, 0.0));
    election.answer(ElectionResult::Rejected, now + seconds(2));
    election.next(now + seconds(2), WALL, 0.0);
    let other = LeaseRecord { holder: "other".to_owned(), seconds: 15, ..LeaseRecord::default() };
    election.answer(is(&other, "3"), now + seconds(2));
    assert_eq!(election.next(now + seconds(2), WALL, 0.0), ElectionStep::End);
}

#[test]
fn a_release_ends_leadership_before_it_writes_a_lease_without_holder() {
    let now = Instant::now();
    let (mut election, _) = leader(now);
    assert!(election.stop());
    assert_eq!(election.standing(), LeadershipState::Over { led: true });
    let record = replaced(election.surrender(now, WALL).unwrap());
    assert_eq!((record.holder.as_str(), record.seconds), ("", 1));
    election.answer(is(&record, "2"), now);
    assert_eq!(election.surrender(now, WALL), None);
}

#[test]
fn a_lease_without_holder_is_acquired_at_once() {
    let now = Instant::now();
    let mut election = election("me");
    election.next(now, WALL, 0.0);
    election.answer(is(&LeaseRecord { seconds: 1, transitions: 2, ..LeaseRecord::default() }, "5"), now);
    assert_eq!(replaced(election.next(now, WALL, 0.0)).transitions, 3);
}

#[test]
fn a_lease_deleted_under_its_holder_is_waited_for() {
    let now = Instant::now();
    let held = LeaseRecord { holder: "other".to_owned(), seconds: 15, ..LeaseRecord::default() };
    let mut election = election("me");
    election.next(now, WALL, 0.0);
    election.answer(is(&held, "7"), now);
    election.next(now, WALL, 0.0);
    let then = now + seconds(3);
    assert_eq!(election.next(then, WALL, 0.0), ElectionStep::Read);
    election.answer(ElectionResult::Missing, then);
    assert!(matches!(election.next(then, WALL, 0.0), ElectionStep::Wait(_)));
    let late = now + seconds(16);
    assert_eq!(election.next(late, WALL, 0.0), ElectionStep::Read);
    election.answer(ElectionResult::Missing, late);
    assert!(matches!(election.next(late, WALL, 0.0), ElectionStep::Create(_)));
}
