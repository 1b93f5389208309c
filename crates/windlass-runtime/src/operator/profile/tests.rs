use std::{
    io::Read as _,
    sync::atomic::{AtomicBool, Ordering},
};

use flate2::read::GzDecoder;

use super::*;

/// Held by tests that record: there is one profiler per process.
pub(in crate::operator) static RECORDING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A function that uses the processor until it is stopped.
#[inline(never)]
fn busy_in_a_test(stop: &AtomicBool) -> u64 {
    let mut state = 1_u64;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..1000 {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
    state
}

/// Fields of a protobuf message: their numbers, with the numbers or bytes in them.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Result<u64, &[u8]>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (first, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Ok(varint(&mut bytes)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Err(content)
            }
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, value));
    }
    fields
}

#[test]
fn durations_are_bounded() {
    for (query, expected) in [
        ("", Some(30)),
        ("debug=1", Some(30)),
        ("seconds=1", Some(1)),
        ("debug=1&seconds=5", Some(5)),
        ("seconds=59", Some(59)),
        ("seconds=60", Some(60)),
        ("seconds=61", None),
        ("seconds=0", None),
        ("seconds=-1", None),
        ("seconds=", None),
        ("seconds=1s", None),
    ] {
        assert_eq!(duration(query).ok(), expected.map(Duration::from_secs), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_shows_what_uses_the_processor_and_is_the_only_one() {
    let _alone = RECORDING.lock().await;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let busy = tokio::task::spawn_blocking(move || busy_in_a_test(&stopped));
    let profiler = Profiler::new();
    let mut recording = std::pin::pin!(profiler.record("seconds=1"));
    tokio::select! {
        biased;
        early = &mut recording => panic!("{early:?}"),
        () = std::future::ready(()) => {}
    }
    let error = profiler.record("seconds=1").await.unwrap_err();
    assert!(matches!(error, ProfileError::Busy), "{error}");
    let compressed = recording.await.unwrap();
    stop.store(true, Ordering::Relaxed);
    busy.await.unwrap();

    let mut profile = Vec::new();
    GzDecoder::new(&compressed[..]).read_to_end(&mut profile).unwrap();
    let all = fields(&profile);
    let of = |number: u64| all.iter().filter(move |(field, _)| *field == number).map(|(_, value)| *value);
    let strings: Vec<&str> = of(6).map(|text| std::str::from_utf8(text.unwrap_err()).unwrap()).collect();
    assert_eq!(strings[..5], ["", "samples", "count", "cpu", "nanoseconds"]);
    assert!(strings.iter().any(|text| text.contains("busy_in_a_test")), "{strings:?}");
    assert_eq!(of(12).collect::<Vec<_>>(), [Ok(1_000_000_000 / 99)]);
    let (locations, functions) = (of(4).count() as u64, of(5).count() as u64);
    assert!(of(2).count() > 0 && locations > 0 && functions > 0);
    // Everything that is referred to exists.
    for location in of(4) {
        for (field, value) in fields(location.unwrap_err()) {
            if field == 4 {
                let line = fields(value.unwrap_err());
                assert!((1..=functions).contains(&line[0].1.unwrap()), "{line:?}");
            }
        }
    }
    // The next one may be recorded.
    drop(profiler.free.try_acquire().unwrap());
}
