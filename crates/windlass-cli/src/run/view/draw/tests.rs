//! Pictures of states.

use std::time::Duration;

use expect_test::{Expect, expect};
use jiff::Timestamp;
use ratatui::{Terminal, backend::TestBackend, style::Color};

use super::{super::keys::Key, *};
use crate::run::event::{Build, Condition, ControllerNumbers, Event, Operator, Reconcile, Resource, Source};

fn now(seconds: u64) -> Now {
    let day: Timestamp = "2026-05-06T07:08:09Z".parse().unwrap();
    Now { instant: Duration::from_secs(seconds), day: day + Duration::from_secs(seconds) }
}

fn terminal(width: u16, height: u16, state: &mut State, colour: bool) -> Terminal<TestBackend> {
    state.resize(heights(Rect::new(0, 0, width, height), state));
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, now(30), colour)).unwrap();
    terminal
}

fn check(width: u16, height: u16, state: &mut State, expected: Expect) {
    let terminal = terminal(width, height, state, true);
    let buffer = terminal.backend().buffer();
    let line = |y: u16| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    let lines: Vec<String> = (0..height).map(|y| line(y).trim_end().to_owned()).collect();
    expected.assert_eq(&lines.join("\n"));
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Condition {
    Condition { kind: kind.into(), status: status.into(), reason: reason.into(), message: message.into() }
}

fn book(name: &str, conditions: Vec<Condition>) -> Event {
    Event::Resource(Resource {
        kind: "Guestbook".into(),
        namespace: Some("default".into()),
        name: name.into(),
        generation: Some(2),
        observed: (name != "slow").then_some(2).or(Some(1)),
        created: Some(now(0).day),
        deleting: false,
        conditions,
        phase: None,
    })
}

/// An operator that has been running for a while.
fn busy() -> State {
    let mut state = State::new("guestbook".into());
    let kubeconfig = Some("/home/me/guestbook/target/windlass/kubeconfig".into());
    let buckets = vec![(0.005, 30.0), (0.01, 38.0), (0.1, 39.0), (f64::INFINITY, 40.0)];
    let numbers = |name: &str, reconciles, errors| ControllerNumbers {
        name: name.into(),
        reconciles,
        errors,
        queued: errors,
        active: 0.0,
        buckets: if reconciles > 0.0 { buckets.clone() } else { Vec::new() },
        causes: [("object".to_owned(), reconciles - errors), ("retry".to_owned(), errors)].into(),
    };
    let events = [
        Event::Cluster { server: "https://127.0.0.1:40173".into(), kubeconfig },
        Event::Kinds(vec!["Guestbook".into()]),
        Event::Build(Build::Done { took: Duration::from_secs(3), fresh: false }),
        Event::Operator(Operator::Starting { process: 7 }),
        Event::Line(
            Source::Operator,
            "2026-05-06T07:08:10Z  INFO windlass_runtime::operator: serving metrics address=127.0.0.1:1".into(),
        ),
        book("first", vec![condition("Ready", "True", "Reconciled", "all resources are up to date")]),
        book("slow", vec![condition("Progressing", "True", "Waiting", ""), condition("Ready", "Unknown", "New", "")]),
        book("wrong", vec![condition("Ready", "False", "NoSuchMap", "ConfigMap example not found")]),
        book("young", vec![]),
        Event::Numbers(vec![numbers("guestbook", 1.0, 0.0), numbers("pages", 0.0, 0.0)]),
        Event::Numbers(vec![numbers("guestbook", 4.0, 0.0), numbers("pages", 0.0, 0.0)]),
        Event::Numbers(vec![numbers("guestbook", 10.0, 2.0), numbers("pages", 0.0, 0.0)]),
        Event::Operator(Operator::Ready),
        Event::Line(
            Source::Operator,
            "2026-05-06T07:08:20Z ERROR reconcile{controller=\"guestbook\"}: shop: it failed error=\"no map\"".into(),
        ),
    ];
    for (second, event) in events.into_iter().enumerate() {
        state.on(event, now(second as u64));
    }
    state
}

#[test]
fn the_initial_view_is_almost_empty() {
    let mut state = State::new("guestbook".into());
    state.on(Event::Build(Build::Started), now(18));
    state.on(Event::Line(Source::Cargo, "   Compiling guestbook v0.1.0".into()), now(19));
    check(
        80,
        18,
        &mut state,
        expect![[r#"
         windlass  guestbook   BUILDING  ⣾ 12s  Compiling guestbook v0.1.0
        ╭ objects ─────────────────────────────────────────────────────────────────────╮
        │ none yet                                                                     │
        │                                                                              │
        ╰──────────────────────────────────────────────────────────────────────────────╯
        ╭ controllers ─────────────────────────────────────────────────────────────────╮
        │ no metrics yet                                                               │
        │                                                                              │
        ╰──────────────────────────────────────────────────────────────────────────────╯
        ╭ log ─────────────────────────────────────────────────────────────────────────╮
        │ 07:08:27     » building                                                      │
        │ 07:08:28 cargo    Compiling guestbook v0.1.0                                 │
        │                                                                              │
        │                                                                              │
        │                                                                              │
        │                                                                              │
        ╰──────────────────────────────────────────────────────────────────────────────╯
         q quit  r restart  p pause  / filter  tab focus  ↑↓ scroll  ? help"#]],
    );
}

#[test]
fn a_narrow_terminal_stacks_the_panels() {
    check(
        80,
        24,
        &mut busy(),
        expect![[r#"
             windlass  guestbook  RUNNING  18s  1 build             https://127.0.0.1:40173
            ╭ objects 4 ───────────────────────────────────────────────────────────────────╮
            │ KIND       NAMESPACE  NAME   GEN    CONDITIONS                           AGE │
            │ Guestbook  default    first  2      ● Ready Reconciled                   30s │
            │ Guestbook  default    slow   1/2    ◌ Ready New  ◌ Progressing Waitin    30s │
            │ Guestbook  default    wrong  2      ✗ Ready NoSuchMap: ConfigMap exam    30s │
            │ Guestbook  default    young  2      –                                    30s │
            ╰──────────────────────────────────────────────────────────────────────────────╯
            ╭ controllers ─────────────────────────────────────────────────────────────────╮
            │ CONTROLLER RECONCILES                             ERRORS QUEUE    P50    P99 │
            │ guestbook       3.3/s                         ▃▅█      2     2   <5ms >100ms │
            │ pages           0.0/s                         ▁▁▁      0     0      –      – │
            ╰──────────────────────────────────────────────────────────────────────────────╯
            ╭ log ─────────────────────────────────────────────────────────────────────────╮
            │ 07:08:09     » Kubernetes is running at https://127.0.0.1:40173: export KUBE │
            │ 07:08:11     » built in 3.0 s                                                │
            │ 07:08:12     » started the operator, process 7                               │
            │ 07:08:10  INFO serving metrics address=127.0.0.1:1                           │
            │ 07:08:21     » the operator is ready                                         │
            │ 07:08:20 ERROR reconcile{controller="guestbook"} it failed error="no map"    │
            │                                                                              │
            │                                                                              │
            ╰──────────────────────────────────────────────────────────────────────────────╯
             q quit  r restart  p pause  / filter  tab focus  ↑↓ scroll  ? help"#]],
    );
}

#[test]
fn a_wide_terminal_shows_controllers_next_to_objects() {
    check(
        130,
        22,
        &mut busy(),
        expect![[r#"
             windlass  guestbook  RUNNING  18s  1 build                                                               https://127.0.0.1:40173
            ╭ objects 4 ───────────────────────────────────────────────────────────╮╭ controllers ───────────────────────────────────────────╮
            │ KIND       NAMESPACE  NAME   GEN    CONDITIONS                   AGE ││ CONTROLLER RECONCILES       ERRORS QUEUE    P50    P99 │
            │ Guestbook  default    first  2      ● Ready Reconciled           30s ││ guestbook       3.3/s   ▃▅█      2     2   <5ms >100ms │
            │ Guestbook  default    slow   1/2    ◌ Ready New  ◌ Progressin    30s ││ pages           0.0/s   ▁▁▁      0     0      –      – │
            │ Guestbook  default    wrong  2      ✗ Ready NoSuchMap: Config    30s ││                                                        │
            │ Guestbook  default    young  2      –                            30s ││                                                        │
            ╰──────────────────────────────────────────────────────────────────────╯╰────────────────────────────────────────────────────────╯
            ╭ log ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────╮
            │ 07:08:09     » Kubernetes is running at https://127.0.0.1:40173: export KUBECONFIG=/home/me/guestbook/target/windlass/kubeconf │
            │ 07:08:11     » built in 3.0 s                                                                                                  │
            │ 07:08:12     » started the operator, process 7                                                                                 │
            │ 07:08:10  INFO serving metrics address=127.0.0.1:1                                                                             │
            │ 07:08:21     » the operator is ready                                                                                           │
            │ 07:08:20 ERROR reconcile{controller="guestbook"} it failed error="no map"                                                      │
            │                                                                                                                                │
            │                                                                                                                                │
            │                                                                                                                                │
            │                                                                                                                                │
            │                                                                                                                                │
            ╰────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────╯
             q quit  r restart  p pause  / filter  tab focus  ↑↓ scroll  ? help      KUBECONFIG=/home/me/guestbook/target/windlass/kubeconfig"#]],
    );
}

#[test]
fn a_low_terminal_shows_only_the_log() {
    let mut state = busy();
    state.key(Key::Letter('/'));
    "FAIL".chars().for_each(|letter| assert_eq!(state.key(Key::Letter(letter)), None));
    check(
        60,
        8,
        &mut state,
        expect![[r#"
             windlass  guestbook  RUNNING  18s  1 build
            ╭ log ───────────────────────────────── 1 line with “FAIL” ╮
            │ 07:08:20 ERROR reconcile{controller="guestbook"} it fail │
            │                                                          │
            │                                                          │
            │                                                          │
            ╰──────────────────────────────────────────────────────────╯
             /FAIL█  enter: apply, esc: clear"#]],
    );
}

#[test]
fn errors_are_shown_in_the_header() {
    let mut state = busy();
    state.on(Event::Build(Build::Failed { why: "the build exited with code 101".into() }), now(20));
    state.on(Event::Paused(true), now(21));
    let crashed = Operator::Crashed { how: "exited with code 1".into(), again: Duration::from_secs(2) };
    state.on(Event::Operator(crashed), now(28));
    state.key(Key::Letter('?'));
    check(
        100,
        24,
        &mut state,
        expect![[r#"
             windlass  guestbook  CRASHED  2s  BUILD FAILED   PAUSED   exited with code 1
            ╭ objects 4 ───────────────────────────────────────────────────────────────────────────────────────╮
            │ KIND       NAMESPACE  NAME   GEN    CONDITIONS                                               AGE │
            │ Guestbook  default    first  2      ● Ready Reconciled                                       30s │
            │ Guestbook  default    slow   1/2    ◌ Ready New  ◌ Progressing Waiting                       30s │
            │ Guestbook  default╭ keys ────────────────────────────────────────────────────╮ound           30s │
            │ Guestbook  default│   q, ctrl-c  stop the operator and quit                  │               30s │
            ╰───────────────────│           r  rebuild and restart                         │───────────────────╯
            ╭ controllers ──────│           p  pause or resume restarts on changes         │───────────────────╮
            │ CONTROLLER RECONCI│           c  show reconciles and causes, or the log      │UEUE    P50    P99 │
            │ guestbook       3.│         tab  switch between objects and log              │   0   <5ms >100ms │
            │ pages           0.│    ↑ ↓, j k  scroll by a line                            │   0      –      – │
            ╰───────────────────│  PgUp, PgDn  scroll by a page                            │───────────────────╯
            ╭ log ──────────────│   home, end  go to the first or last line                │───────────────────╮
            │ 07:08:11     » bui│         ← →  scroll the log sideways                     │                   │
            │ 07:08:12     » sta│           /  filter the log by text (case-insensitive)   │                   │
            │ 07:08:10  INFO ser│         esc  clear the filter                            │                   │
            │ 07:08:21     » the│           ?  this                                        │                   │
            │ 07:08:20 ERROR rec╰──────────────────────────────────────────────────────────╯                   │
            │ 07:08:29     » the build exited with code 101                                                    │
            │ 07:08:30     » paused: changes do not trigger a restart                                          │
            │ 07:08:37     » the operator exited with code 1; restarting in 2 s                                │
            ╰──────────────────────────────────────────────────────────────────────────────────────────────────╯
             q quit  r restart  p pause  / filter  tab focus  ↑↓ scroll  ? help"#]],
    );
}

#[test]
fn states_have_colours() {
    let mut state = busy();
    let terminal = terminal(80, 24, &mut state, true);
    let buffer = terminal.backend().buffer();
    let at = |text: &str| -> (Color, Color) {
        let rows = (0..24).map(|y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<Vec<_>>());
        let found = rows.enumerate().find_map(|(y, row)| {
            let starts = |x: &usize| row[*x..].concat().starts_with(text);
            (0..row.len()).find(starts).map(|x| &buffer[(x as u16, y as u16)])
        });
        found.map(|cell| (cell.fg, cell.bg)).unwrap_or_else(|| panic!("{text} is nowhere"))
    };
    assert_eq!(at("RUNNING"), (Color::Black, Color::Green));
    assert_eq!(at("https://"), (Color::DarkGray, Color::Reset));
    assert_eq!(at("● Ready"), (Color::Green, Color::Reset));
    assert_eq!(at("✗ Ready"), (Color::Red, Color::Reset));
    assert_eq!(at("1/2"), (Color::Yellow, Color::Reset));
    assert_eq!(at("ERROR reconcile"), (Color::Red, Color::Reset));
    assert_eq!(at("quit"), (Color::DarkGray, Color::Reset));
}

#[test]
fn nothing_is_drawn_outside_of_the_smallest_terminal() {
    for (width, height) in [(1, 1), (10, 3), (20, 14), (121, 14), (3, 40)] {
        let mut state = busy();
        terminal(width, height, &mut state, true);
        state.key(Key::Letter('?'));
        terminal(width, height, &mut state, true);
    }
}

#[test]
fn no_color_disables_colours() {
    let mut state = busy();
    let colours = |terminal: Terminal<TestBackend>| {
        let cells = terminal.backend().buffer().content.clone();
        cells.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert_eq!(colours(terminal(80, 24, &mut state, false)), 0);
    assert!(colours(terminal(80, 24, &mut state, true)) > 100);
}

#[test]
fn a_key_shows_the_causes_of_reconciles() {
    let mut state = busy();
    state.on(
        Event::Reconciles(vec![Reconcile {
            controller: "guestbook".into(),
            number: 1,
            object: "default/first".into(),
            causes: vec!["ConfigMap default/web 9->12".into()],
            ended: now(0).day,
            seconds: 0.003,
            result: "success".into(),
        }]),
        now(20),
    );
    state.key(Key::Letter('c'));
    let terminal = terminal(80, 24, &mut state, false);
    let buffer = terminal.backend().buffer();
    let line = |y: u16| -> String { (0..80).map(|x| buffer[(x, y)].symbol()).collect() };
    let lines: Vec<String> = (0..24).map(line).collect();
    let at = lines.iter().position(|line| line.contains("controllers: causes")).unwrap();
    let words = |line: &str| line.replace('│', " ").split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&lines[at + 1]), ["CONTROLLER", "OBJECT", "RETRY"]);
    assert_eq!(words(&lines[at + 2]), ["guestbook", "8", "2"]);
    assert_eq!(words(&lines[at + 3]), ["pages", "0", "0"]);
    let at = lines.iter().position(|line| line.contains(" reconciles ──")).unwrap();
    assert_eq!(
        words(&lines[at + 1]).join(" "),
        "07:08:09 INFO guestbook default/first: ConfigMap default/web 9->12 (3ms)"
    );
    assert!(!lines.iter().any(|line| line.contains("it failed")), "the log is hidden");
    state.key(Key::Letter('c'));
    assert!(!state.causes);
}
