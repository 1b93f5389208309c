use super::*;
use crate::{
    key::ObjectKey,
    lease::tests::simulation::{Agenda, Chance, Fate, LocalClock, SECOND, Trip},
};

const DISTURBED: u64 = 240 * SECOND;
const CALM: u64 = 80 * SECOND;
const KEYS: usize = 24;

enum Event {
    Wake(usize),
    Arrives { member: usize, request: u64, step: MembershipStep, name: Arc<str>, version: Option<String>, trip: Trip },
    Answered { member: usize, request: u64, answer: MembershipResult },
    Stop(usize),
}

struct Member {
    membership: Membership,
    view: ShardView,
    clock: LocalClock,
    paused: u64,
    request: u64,
    waits: bool,
    stopping: bool,
}

struct Simulation {
    chance: Chance,
    now: u64,
    agenda: Agenda<Event>,
    origin: Instant,
    members: Vec<Member>,
    leases: BTreeMap<Arc<str>, (LeaseRecord, Option<Ring>, String)>,
    versions: u64,
    faults: u64,
    keys: Vec<KeyHash>,
    /// The last owner of each key, and the number of changes.
    owners: Vec<Option<usize>>,
    moves: usize,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let faults = [0, 5, 20, 40][chance.below(4) as usize];
        let count = chance.between(2, 5) as usize;
        let keys = (0..KEYS).map(|key| KeyHash::of(&ObjectKey::cluster(&format!("key-{key}")))).collect();
        let mut simulation = Self {
            chance,
            now: 0,
            agenda: Agenda::new(),
            origin: Instant::now(),
            members: Vec::new(),
            leases: BTreeMap::new(),
            versions: 0,
            faults,
            keys,
            owners: vec![None; KEYS],
            moves: 0,
        };
        for member in 0..count {
            let fresh = simulation.member();
            simulation.members.push(fresh);
            let start = simulation.chance.below(60 * SECOND);
            simulation.agenda.add(start, Event::Wake(member));
            let stop = simulation.chance.between(10 * SECOND, DISTURBED);
            simulation.agenda.add(stop, Event::Stop(member));
        }
        simulation
    }

    fn member(&mut self) -> Member {
        let name: Arc<str> = format!("group-{}", self.chance.next()).into();
        let clock = LocalClock::new(self.origin, &mut self.chance);
        let membership = Membership::new(name.clone(), format!("host_{name}"), Timing::default());
        let view = ShardView::nothing(name);
        Member { membership, view, clock, paused: 0, request: 0, waits: false, stopping: false }
    }

    fn run(mut self) -> usize {
        while let Some((time, event)) = self.agenda.next() {
            self.now = self.now.max(time);
            if self.now > DISTURBED {
                self.faults = 0;
            }
            if self.now > DISTURBED + CALM {
                break;
            }
            if let Some(member) = self.happen(event) {
                self.look(member);
            }
        }
        for key in 0..KEYS {
            let owners: Vec<_> = (0..self.members.len()).filter(|member| self.owns(*member, key)).collect();
            assert_eq!(owners.len(), 1, "key {key} has the owners {owners:?} in the end");
        }
        self.moves
    }

    /// Two members can only start to own one key when the view of one of them changes, so this check sees every
    /// instant.
    fn look(&mut self, changed: usize) {
        let view = self.members[changed].membership.view();
        if self.members[changed].view == view {
            return;
        }
        self.members[changed].view = view;
        for key in 0..KEYS {
            if !self.owns(changed, key) {
                continue;
            }
            let other = (0..self.members.len()).find(|other| *other != changed && self.owns(*other, key));
            assert_eq!(other, None, "key {key} is also {changed}'s at {} µs", self.now);
            if self.owners[key].replace(changed) != Some(changed) {
                self.moves += 1;
            }
        }
    }

    /// Returns what `Shard::owns` would return in that process, even if it was paused until now.
    fn owns(&self, member: usize, key: usize) -> bool {
        let member = &self.members[member];
        member.view.owns(self.keys[key], member.clock.at(self.now))
    }

    fn happen(&mut self, event: Event) -> Option<usize> {
        match event {
            Event::Arrives { member, request, step, name, version, trip } => {
                let answer = match trip.fate {
                    Fate::LostThere => return None,
                    Fate::Fails => MembershipResult::Failed,
                    Fate::Arrives | Fate::LostBack => self.serve(step, &name, version),
                };
                if trip.fate != Fate::LostBack {
                    self.agenda.add(self.now + trip.back, Event::Answered { member, request, answer });
                }
                None
            }
            Event::Wake(member) | Event::Answered { member, .. } | Event::Stop(member)
                if self.members[member].paused > self.now =>
            {
                self.agenda.add(self.members[member].paused, event);
                None
            }
            Event::Wake(member) => {
                if !self.members[member].waits {
                    self.go(member);
                }
                Some(member)
            }
            Event::Answered { member, request, answer } => {
                let asker = &mut self.members[member];
                if !asker.waits || asker.request != request {
                    return None;
                }
                asker.waits = false;
                asker.membership.answer(answer, asker.clock.at(self.now));
                self.look(member);
                self.go(member);
                Some(member)
            }
            Event::Stop(member) => {
                let stopped = &mut self.members[member];
                stopped.waits = false;
                stopped.request += 1;
                stopped.stopping = true;
                stopped.membership.stop();
                self.look(member);
                self.go(member);
                Some(member)
            }
        }
    }

    fn serve(&mut self, step: MembershipStep, name: &Arc<str>, version: Option<String>) -> MembershipResult {
        let current = self.leases.get(name).map(|(_, _, version)| version.clone());
        let (record, ring) = match step {
            MembershipStep::List => {
                let seen = self.leases.iter().map(|(name, (record, ring, version))| ListedLease {
                    name: name.clone(),
                    version: version.clone(),
                    record: record.clone(),
                    ring: ring.clone(),
                });
                return MembershipResult::Listed(seen.collect());
            }
            MembershipStep::Delete { name, version } => {
                if self.leases.get(&name).is_none_or(|(_, _, current)| *current != version) {
                    return MembershipResult::Failed;
                }
                self.leases.remove(&name);
                return MembershipResult::Deleted;
            }
            MembershipStep::Create(record, ring) if current.is_none() => (record, ring),
            MembershipStep::Replace(record, ring) if current.is_some() && current == version => (record, ring),
            _ => return MembershipResult::Failed,
        };
        self.versions += 1;
        let version = self.versions.to_string();
        self.leases.insert(name.clone(), (record.clone(), Ring::parse(&ring), version.clone()));
        MembershipResult::Written { record, version }
    }

    fn go(&mut self, member: usize) {
        if self.faults > 0 && self.chance.percent(2) {
            self.members[member].paused = self.now + self.chance.below(40 * SECOND);
        }
        let wall = Timestamp::from_second(self.chance.below(4_000_000_000) as i64).unwrap();
        let asker = &mut self.members[member];
        let local = asker.clock.at(self.now);
        let step = match asker.stopping {
            true => asker.membership.surrender(local, wall),
            false => Some(asker.membership.next(local, wall)),
        };
        match step {
            None => {
                // The process exits and is restarted.
                let late = self.now + self.chance.below(10 * SECOND);
                self.members[member] = self.member();
                self.agenda.add(late, Event::Wake(member));
            }
            Some(MembershipStep::Wait(pause)) => {
                let time = self.now + asker.clock.lasts(pause);
                self.agenda.add(time, Event::Wake(member));
            }
            Some(step) => {
                asker.request = self.chance.next();
                asker.waits = true;
                let (request, name) = (asker.request, asker.membership.name.clone());
                let version = asker.membership.mine.as_ref().map(|(_, version)| version.clone());
                let limit = self.now + asker.clock.lasts(asker.membership.patience());
                self.agenda.add(limit, Event::Answered { member, request, answer: MembershipResult::Failed });
                let trip = Trip::new(&mut self.chance, self.faults);
                let arrival = self.now + trip.there;
                self.agenda.add(arrival, Event::Arrives { member, request, step, name, version, trip });
            }
        }
    }
}

#[test]
fn no_key_ever_has_two_owners_and_each_is_owned_in_the_end() {
    let moves: usize = (0..600).map(|seed| Simulation::new(seed).run()).sum();
    assert!(moves > 30_000, "the histories were too quiet: {moves} moves");
}

const WALL: Timestamp = Timestamp::UNIX_EPOCH;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn keys() -> impl Iterator<Item = KeyHash> {
    (0..200).map(|key| KeyHash::of(&ObjectKey::cluster(&format!("key-{key}"))))
}

fn ring(names: &[&str]) -> Ring {
    Ring::new(names.iter().map(|name| Arc::from(*name)))
}

/// Returns a lease in a list.
fn seen(name: &str, version: &str, members: &[&str]) -> ListedLease {
    let record = LeaseRecord { holder: format!("host_{name}"), seconds: 15, ..LeaseRecord::default() };
    ListedLease { name: name.into(), version: version.to_owned(), record, ring: Some(ring(members)) }
}

/// A member whose requests the test responds to.
struct Bench {
    member: Membership,
    now: Instant,
    ring: String,
}

impl Bench {
    /// Returns a member `me` that has listed all leases and sees only `others`.
    fn new(others: &[ListedLease]) -> Self {
        let member = Membership::new("me".into(), "host_me".to_owned(), Timing::default());
        let mut bench = Self { member, now: Instant::now(), ring: String::new() };
        bench.list(others);
        bench.write();
        bench.list(others);
        bench
    }

    fn write(&mut self) {
        let (record, ring) = match self.member.next(self.now, WALL) {
            MembershipStep::Create(record, ring) | MembershipStep::Replace(record, ring) => (record, ring),
            step => panic!("expected a write, got {step:?}"),
        };
        self.ring = ring;
        self.member.answer(MembershipResult::Written { record, version: "1".to_owned() }, self.now);
    }

    fn list(&mut self, others: &[ListedLease]) {
        assert_eq!(self.member.next(self.now, WALL), MembershipStep::List);
        self.listed(others);
    }

    fn listed(&mut self, others: &[ListedLease]) {
        let mine = self.member.mine.clone().map(|(record, version)| {
            let ring = Ring::parse(&self.ring);
            ListedLease { name: "me".into(), version, record, ring }
        });
        self.member.answer(MembershipResult::Listed(others.iter().cloned().chain(mine).collect()), self.now);
    }

    /// A renewal and a list, when they are due.
    fn renew(&mut self, others: &[ListedLease]) {
        self.pass(seconds(2));
        self.write();
        self.list(others);
    }

    fn pass(&mut self, time: Duration) {
        self.member.next(self.now, WALL);
        self.now += time;
    }

    fn owned(&self) -> Vec<KeyHash> {
        let view = self.member.view();
        keys().filter(|key| view.owns(*key, self.now)).collect()
    }

    /// Returns the keys that a ring of these members assigns to `me`.
    fn share(members: &[&str]) -> Vec<KeyHash> {
        keys().filter(|key| ring(members).claims("me", *key)).collect()
    }
}

#[test]
fn a_single_member_owns_everything_after_a_list() {
    let member = Membership::new("me".into(), "host_me".to_owned(), Timing::default());
    let mut bench = Bench { member, now: Instant::now(), ring: String::new() };
    bench.list(&[]);
    bench.write();
    assert_eq!(bench.owned().len(), 0, "no list since its ring was written");
    bench.list(&[]);
    assert_eq!(bench.owned().len(), 200);
}

#[test]
fn lost_keys_are_released_at_once_and_others_are_kept() {
    let mut bench = Bench::new(&[]);
    bench.pass(seconds(2));
    bench.write();
    bench.list(&[seen("you", "5", &["me", "you"])]);
    assert_eq!(bench.owned(), Bench::share(&["me", "you"]), "before the new ring is written");
    bench.write();
    assert_eq!(bench.ring, ring(&["me", "you"]).text());
    assert_eq!(bench.owned(), Bench::share(&["me", "you"]));
    bench.list(&[seen("you", "5", &["me", "you"])]);
    assert_eq!(bench.owned(), Bench::share(&["me", "you"]));
}

#[test]
fn a_new_member_waits_until_keys_are_released() {
    let mut bench = Bench::new(&[seen("you", "5", &["you"])]);
    assert_eq!(bench.owned().len(), 0, "the other uses a ring without it");
    bench.renew(&[seen("you", "6", &["me", "you"])]);
    assert_eq!(bench.owned(), Bench::share(&["me", "you"]));
}

#[test]
fn keys_of_a_silent_member_move_after_its_lease_and_those_of_one_that_left_at_once() {
    let you = || seen("you", "5", &["me", "you"]);
    let mut bench = Bench::new(&[you()]);
    let start = bench.now;
    while bench.now < start + seconds(14) {
        bench.renew(&[you()]);
        assert_eq!(bench.owned(), Bench::share(&["me", "you"]));
    }
    bench.renew(&[you()]);
    bench.write();
    bench.list(&[you()]);
    assert_eq!(bench.owned().len(), 200);

    let mut bench = Bench::new(&[you()]);
    let mut left = you();
    left.version = "6".to_owned();
    left.record = left.record.released(WALL);
    bench.renew(std::slice::from_ref(&left));
    bench.write();
    bench.list(std::slice::from_ref(&left));
    assert_eq!(bench.owned().len(), 200);
}

#[test]
fn a_lease_is_not_over_if_its_time_passed_while_the_list_was_on_its_way() {
    let you = || seen("you", "5", &["you"]);
    let mut bench = Bench::new(&[you()]);
    for _ in 0..6 {
        bench.renew(&[you()]);
    }
    bench.pass(seconds(2));
    bench.write();
    assert_eq!(bench.member.next(bench.now, WALL), MembershipStep::List);
    bench.now += seconds(5);
    bench.listed(&[you()]);
    assert_eq!(bench.owned().len(), 0, "it may have been renewed after the list");
}

#[test]
fn a_member_that_was_paused_past_its_deadline_owns_nothing_until_it_lists_again() {
    let mut bench = Bench::new(&[]);
    bench.pass(seconds(11));
    assert_eq!(bench.owned().len(), 0);
    bench.write();
    assert_eq!(bench.owned().len(), 0);
    bench.list(&[seen("you", "5", &["you"])]);
    assert_eq!(bench.owned().len(), 0, "another has taken over");
}

#[test]
fn a_ring_of_an_unknown_format_claims_everything() {
    let strange = ListedLease { ring: None, ..seen("you", "5", &[]) };
    let bench = Bench::new(&[strange]);
    assert_eq!(bench.owned().len(), 0);
}

#[test]
fn a_member_whose_lease_was_deleted_owns_nothing_until_it_rejoins() {
    let mut bench = Bench::new(&[]);
    bench.pass(seconds(2));
    bench.write();
    assert_eq!(bench.member.next(bench.now, WALL), MembershipStep::List);
    bench.member.answer(MembershipResult::Listed(Vec::new()), bench.now);
    assert_eq!(bench.owned().len(), 0);
    assert!(matches!(bench.member.next(bench.now, WALL), MembershipStep::Create(..)));
}

#[test]
fn leases_of_others_are_deleted_when_they_have_been_over_for_long() {
    let old = seen("gone-0", "5", &["gone-0"]);
    let mut bench = Bench::new(std::slice::from_ref(&old));
    let start = bench.now;
    loop {
        bench.pass(seconds(2));
        match bench.member.next(bench.now, WALL) {
            MembershipStep::Delete { name, version } => {
                assert_eq!((&*name, version.as_str()), ("gone-0", "5"));
                break;
            }
            MembershipStep::List => bench.listed(std::slice::from_ref(&old)),
            MembershipStep::Wait(_) => {}
            MembershipStep::Create(record, ring) | MembershipStep::Replace(record, ring) => {
                bench.ring = ring;
                bench.member.answer(MembershipResult::Written { record, version: "1".to_owned() }, bench.now);
            }
        }
        assert!(bench.now < start + seconds(200), "it is never deleted");
    }
    assert!(bench.now >= start + seconds(120));
}
