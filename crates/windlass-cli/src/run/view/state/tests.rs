//! Events and keys in, state out.

use super::*;
use crate::run::event::ControllerNumbers;

fn now(seconds: u64) -> Now {
    let day: Timestamp = "2026-05-06T07:08:09Z".parse().unwrap();
    Now { instant: Duration::from_secs(seconds), day: day + Duration::from_secs(seconds) }
}

fn state(events: Vec<Event>) -> State {
    let mut state = State::new("shop".into());
    state.resize(Heights { resources: 2, log: 3 });
    for (second, event) in events.into_iter().enumerate() {
        state.on(event, now(second as u64));
    }
    state
}

fn object(kind: &str, name: &str) -> Resource {
    Resource {
        kind: kind.into(),
        namespace: None,
        name: name.into(),
        generation: None,
        observed: None,
        created: None,
        deleting: false,
        conditions: Vec::new(),
        phase: None,
    }
}

fn names(state: &State) -> Vec<&str> {
    state.resources.values().map(|object| object.name.as_str()).collect()
}

#[test]
fn a_failed_build_keeps_the_running_operator() {
    let done = Build::Done { took: Duration::from_secs(1), fresh: false };
    let mut state = state(vec![
        Event::Build(Build::Started),
        Event::Line(Source::Cargo, "   Compiling shop".into()),
        Event::Build(done),
        Event::Operator(Operator::Installing),
        Event::Operator(Operator::Starting { process: 1 }),
        Event::Operator(Operator::Ready),
        Event::Changed(vec!["src/main.rs".into()]),
    ]);
    assert_eq!((state.builds, state.changes, state.since), (1, 1, Duration::from_secs(5)));
    state.on(Event::Build(Build::Started), now(7));
    state.on(Event::Line(Source::Cargo, "   Compiling shop v0.1.0".into()), now(8));
    let step = "Compiling shop v0.1.0".to_owned();
    assert_eq!(state.building, Building::Busy { since: Duration::from_secs(7), step });
    state.on(Event::Build(Build::Failed { why: "no".into() }), now(9));
    assert_eq!((&state.building, &state.operator, state.builds), (&Building::Failed, &OperatorState::Ready, 1));
    // It keeps running while the next one is installed.
    state.on(Event::Operator(Operator::Installing), now(10));
    assert_eq!((&state.operator, state.since), (&OperatorState::Ready, Duration::from_secs(5)));
}

#[test]
fn objects_are_added_changed_and_deleted() {
    let mut state = state(vec![
        Event::Kinds(vec!["Book".into(), "Pen".into()]),
        Event::Resources { kind: "Book".into(), objects: vec![object("Book", "b"), object("Book", "a")] },
        Event::Resource(object("Pen", "c")),
    ]);
    assert_eq!(names(&state), ["a", "b", "c"]);
    state.on(Event::Gone { kind: "Book".into(), namespace: None, name: "a".into() }, now(3));
    state.on(Event::Resource(Resource { deleting: true, ..object("Book", "b") }), now(4));
    assert_eq!(names(&state), ["b", "c"]);
    assert!(state.resources.values().next().unwrap().deleting);
    // A list is complete.
    state.on(Event::Resources { kind: "Book".into(), objects: vec![object("Book", "d")] }, now(5));
    assert_eq!(names(&state), ["d", "c"]);
    state.on(Event::Kinds(vec!["Pen".into()]), now(6));
    assert_eq!(names(&state), ["c"]);
}

#[test]
fn rates_depend_on_the_time_between_scrapes() {
    let numbers = |reconciles| {
        Event::Numbers(vec![ControllerNumbers { name: "book".into(), reconciles, queued: 3.0, ..Default::default() }])
    };
    let mut state = state(vec![numbers(0.0)]);
    state.on(numbers(8.0), now(4));
    assert_eq!(state.controllers["book"].rates, [0.0, 2.0]);
    state.on(Event::Operator(Operator::Crashed { how: "ended".into(), again: Duration::ZERO }), now(5));
    assert_eq!(state.controllers["book"].queued, 0.0);
}

#[test]
fn keys_send_their_commands() {
    let mut state = state(vec![]);
    for (key, expected) in [
        (Key::Letter('q'), Some(Command::Quit)),
        (Key::Quit, Some(Command::Quit)),
        (Key::Letter('r'), Some(Command::Restart)),
        (Key::Letter('p'), Some(Command::Pause)),
        (Key::Letter('z'), None),
    ] {
        assert_eq!(state.key(key), expected, "{key:?}");
    }
    state.key(Key::Letter('?'));
    assert!(state.help);
    // Any key closes the help, and does nothing else.
    assert_eq!(state.key(Key::Letter('r')), None);
    assert!(!state.help);
}

#[test]
fn a_filter_is_typed_and_cleared() {
    let mut state = state(vec![
        Event::Line(Source::Windlass, "one quiet line".into()),
        Event::Line(Source::Windlass, "another".into()),
    ]);
    for letter in "/qx".chars() {
        assert_eq!(state.key(Key::Letter(letter)), None);
    }
    state.key(Key::Backspace);
    assert_eq!((state.filter.as_str(), state.typing, state.log.len()), ("q", true, 1));
    state.key(Key::Enter);
    assert_eq!((state.typing, state.log.len()), (false, 1));
    state.key(Key::Escape);
    assert_eq!((state.filter.as_str(), state.log.len()), ("", 2));
}

#[test]
fn arrow_keys_scroll_the_focused_panel_within_bounds() {
    let objects = (0..5).map(|number| object("Book", &number.to_string())).collect();
    let mut events = vec![Event::Resources { kind: "Book".into(), objects }];
    events.extend((0..10).map(|number| Event::Line(Source::Windlass, format!("line {number}"))));
    let mut state = state(events);
    state.key(Key::Up);
    state.key(Key::PageUp);
    assert_eq!((state.log.below(), state.top), (3, 0));
    state.key(Key::Tab);
    state.key(Key::End);
    assert_eq!((state.log.below(), state.top), (3, 3));
    state.key(Key::Up);
    assert_eq!(state.top, 2);
    state.key(Key::Home);
    assert_eq!(state.top, 0);
    // Fewer objects, or a larger panel, scroll back.
    state.key(Key::End);
    state.resize(Heights { resources: 4, log: 100 });
    assert_eq!((state.log.below(), state.top), (0, 1));
}
