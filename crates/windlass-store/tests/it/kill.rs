//! A process is killed (SIGKILL) repeatedly while it writes to the same file.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, mpsc},
    time::Duration,
};

use tokio::task::JoinSet;
use windlass_store::{EmbeddedStore, Revision, Store};

use crate::{
    ledger::{Ledger, write_once},
    random::Random,
};

/// Number of kills of processes that had writes acknowledged and were about to issue more.
const KILLS: u64 = 50;

/// Prefix of the line that the process prints for each write.
const ACKNOWLEDGED: &str = "acknowledged ";

/// Environment of the process to kill: the file and a seed.
const FILE: &str = "WINDLASS_STORE_KILL_FILE";
const SEED: &str = "WINDLASS_STORE_KILL_SEED";

#[test]
fn acknowledged_writes_survive_fifty_kills() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime must start");
    if let Some(file) = env::var_os(FILE) {
        let seed = env::var(SEED).ok().and_then(|seed| seed.parse().ok()).expect("a seed must be given");
        return runtime.block_on(write_until_killed(PathBuf::from(file), seed));
    }
    let directory = tempfile::tempdir().expect("the temporary directory must be created");
    let path = directory.path().join("store");
    let mut ledger = Ledger::default();
    let mut random = Random(7);
    let mut during_load = 0;
    for seed in 0.. {
        // One in eight is killed while it starts or opens the file; those kills are not counted.
        let moment = match seed % 8 {
            7 => Moment::AfterStart(Duration::from_millis(random.below(40))),
            _ => Moment::AfterFirstWrite(Duration::from_millis(random.below(100))),
        };
        let before = ledger.total();
        let output = run_and_kill(&path, seed, moment);
        read_acknowledgements(&output, &mut ledger);
        let store = EmbeddedStore::open(&path).expect("the store must open after a kill");
        runtime.block_on(ledger.verify(&store));
        during_load += u64::from(ledger.total() > before);
        if during_load == KILLS {
            return;
        }
        assert!(seed < 4 * KILLS, "only {during_load} processes started writing before they were killed");
    }
}

/// Moment at which a process is killed.
enum Moment {
    AfterStart(Duration),
    AfterFirstWrite(Duration),
}

/// Runs this test in another process, kills it after a while, and returns all of its output.
fn run_and_kill(path: &Path, seed: u64, moment: Moment) -> Vec<u8> {
    let mut child = Command::new(env::current_exe().expect("the path of the test binary must be available"))
        .args(["--exact", "kill::acknowledged_writes_survive_fifty_kills", "--nocapture", "--test-threads=1"])
        .env(FILE, path)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the process must start");
    let stdout = child.stdout.take().expect("the output must be piped");
    let (tell, first_write) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let (mut stdout, mut output) = (BufReader::new(stdout), Vec::new());
        loop {
            let start = output.len();
            if stdout.read_until(b'\n', &mut output)? == 0 {
                return Ok::<_, std::io::Error>(output);
            }
            if output[start..].starts_with(ACKNOWLEDGED.as_bytes()) {
                // Only the first one is awaited.
                let _ = tell.send(());
            }
        }
    });
    match moment {
        Moment::AfterStart(time) => std::thread::sleep(time),
        Moment::AfterFirstWrite(time) => {
            first_write.recv_timeout(Duration::from_secs(30)).expect("the process must start writing");
            std::thread::sleep(time);
        }
    }
    let ended = child.try_wait().expect("the process must be waitable");
    assert!(ended.is_none(), "the process must not end by itself: {ended:?}");
    child.kill().expect("the process must be killed");
    child.wait().expect("the process must end");
    reader.join().expect("the reader must not panic").expect("the output must be read")
}

fn read_acknowledgements(output: &[u8], ledger: &mut Ledger) {
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8(line.expect("memory must be read")).expect("the output must be text");
        let Some(rest) = line.strip_prefix(ACKNOWLEDGED) else { continue };
        // The last line may be truncated.
        let Some(rest) = rest.strip_suffix(" .") else { continue };
        let mut words = rest.split(' ');
        let mut word = || words.next().expect("a line must have three words");
        let (key, revision, nonce) = (word(), word(), word());
        let revision = Revision(revision.parse().expect("a revision must be a number"));
        let nonce = (nonce != "-").then(|| nonce.parse().expect("a nonce must be a number"));
        ledger.acknowledge(revision, (key.to_owned(), nonce));
    }
}

/// Body of the other process: many writers, an occasional compaction, and a line for each acknowledged write.
async fn write_until_killed(path: PathBuf, seed: u64) {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(path).expect("the store must open"));
    let start = store.revision().await.expect("revision must succeed");
    let mut random = Random(seed.wrapping_mul(1_000_003));
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let (store, mut random) = (store.clone(), Random(random.next()));
        writers.spawn(async move {
            loop {
                let key = format!("/apps/{writer}/{}", random.below(20));
                let written = write_once(&*store, key, random.next()).await;
                let (revision, (key, nonce)) = written.expect("the write must succeed");
                let nonce = nonce.map_or("-".to_owned(), |nonce| nonce.to_string());
                let line = format!("{ACKNOWLEDGED}{key} {revision} {nonce} .\n");
                let mut output = std::io::stdout().lock();
                output.write_all(line.as_bytes()).and_then(|()| output.flush()).expect("the pipe must be open");
            }
        });
    }
    // Everything up to here has been verified.
    store.compact(start).await.expect("compact must succeed");
    writers.join_all().await;
}
