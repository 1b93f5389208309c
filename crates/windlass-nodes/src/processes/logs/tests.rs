use std::time::Duration;

use futures_util::StreamExt as _;
use proptest::prelude::*;

use super::*;

async fn all(chunks: Chunks) -> String {
    let bytes: Vec<Bytes> = chunks.collect().await;
    String::from_utf8(bytes.concat()).unwrap()
}

fn log_of(directory: &Path, lines: &[&str]) -> Arc<Log> {
    let log = Log::create(&directory.join("0.log")).unwrap();
    lines.iter().for_each(|line| log.append(Stream::Stdout, line.as_bytes(), true).unwrap());
    log
}

#[tokio::test]
async fn a_log_is_read_according_to_the_options() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), &["one", "two", "three"]);
    log.append(Stream::Stderr, b"rest", false).unwrap();
    let read = |options| all(read(log.path.clone(), options, None));
    assert_eq!(read(LogOptions::default()).await, "one\ntwo\nthree\nrest");
    assert_eq!(read(LogOptions { tail_lines: Some(2), ..LogOptions::default() }).await, "three\nrest");
    assert_eq!(read(LogOptions { tail_lines: Some(0), ..LogOptions::default() }).await, "");
    assert_eq!(read(LogOptions { limit_bytes: Some(5), ..LogOptions::default() }).await, "one\nt");
    let later = windlass_clock::now() + Duration::from_secs(60);
    assert_eq!(read(LogOptions { since: Some(later), ..LogOptions::default() }).await, "");
    let stamped = read(LogOptions { timestamps: true, tail_lines: Some(1), ..LogOptions::default() }).await;
    let (time, text) = stamped.split_once(' ').unwrap();
    assert!(time.parse::<Timestamp>().is_ok() && text == "rest", "{stamped}");
}

#[tokio::test]
async fn a_follower_sees_later_output_across_a_rotation() {
    let directory = tempfile::tempdir().unwrap();
    let log = Log::rotating(&directory.path().join("0.log"), 2000).unwrap();
    log.append(Stream::Stdout, b"before", true).unwrap();
    let options = LogOptions { follow: true, ..LogOptions::default() };
    let mut chunks = read(log.path.clone(), options, Some(log.progress()));
    let mut seen = chunks.next().await.unwrap().to_vec();
    for number in 0..200 {
        log.append(Stream::Stdout, format!("line {number}").as_bytes(), true).unwrap();
        seen.extend_from_slice(&chunks.next().await.unwrap());
    }
    log.append(Stream::Stdout, b"after", true).unwrap();
    log.close();
    seen.extend_from_slice(all(chunks).await.as_bytes());
    let expected: String = (0..200).map(|number| format!("line {number}\n")).collect();
    assert_eq!(String::from_utf8(seen).unwrap(), format!("before\n{expected}after\n"));
    assert!(older(&log.path).exists());
}

#[tokio::test]
async fn an_incomplete_last_line_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), &[]);
    let long = "x".repeat(LINE_MAX + 5);
    let said = format!("{long}\nend");
    pump(said.as_bytes(), Stream::Stdout, log.clone(), broadcast::channel(1).0).await;
    assert_eq!(all(read(log.path.clone(), LogOptions::default(), None)).await, said);
    let last = LogOptions { tail_lines: Some(2), ..LogOptions::default() };
    assert_eq!(all(read(log.path.clone(), last, None)).await, said);
    assert!(last_words(&log.path).ends_with("x\nend"));
}

proptest! {
    #[test]
    fn no_file_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), tail in 0..4usize) {
        let entries = bytes.split(|byte| *byte == b'\n').filter_map(parse);
        last_lines(entries, tail);
    }
}
