//! The test bed: etcd, the API servers, and what happens to them.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::{
    super::{lane::Shared, random::Random, traffic::prepare},
    disk::SmallDisk,
    fault::Fault,
    members::{COUNT, Members},
    replica::Replica,
};
use crate::servers::{self, Places, Which, kubernetes};

/// Maximum time until everything works again after a fault has ended.
const RECOVERS_WITHIN: Duration = Duration::from_secs(60);
/// Maximum time until a member notices that its disk is full.
const NOTICES_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);
/// The member with the small disk.
const SMALL: usize = COUNT - 1;

/// Everything that runs.
pub(super) struct Bed {
    // In this order: API servers, etcd, its disk, and then the files.
    replicas: Vec<Replica>,
    members: Members,
    /// The disk of a member, or the reason why there is none.
    disk: Result<SmallDisk, String>,
    folder: TempDir,
}

/// A fault in progress.
pub(super) struct Injected {
    fault: Fault,
    /// The number of the member or API server.
    number: usize,
    pub(super) what: String,
    /// Whether it cannot be injected here.
    pub(super) skipped: bool,
}

impl Bed {
    /// Starts everything without data, and creates the namespace of the objects.
    pub(super) async fn start(places: &Places, shared: &Arc<Shared>) -> anyhow::Result<Self> {
        let folder = servers::folder(places, Which::Windlass)?;
        let folders: Vec<PathBuf> = (0..COUNT).map(|number| folder.path().join(format!("m{number}"))).collect();
        folders.iter().try_for_each(std::fs::create_dir)?;
        let disk = SmallDisk::mount(&folders[SMALL]).map_err(|error| format!("{error:#}"));
        let members = Members::start(kubernetes::peer(places, "etcd")?, folders)?;
        let mut bed = Self { replicas: Vec::new(), members, disk, folder };
        bed.recovered().await.context("etcd does not start")?;
        let join = bed.folder.path().join("join");
        for number in 0..shared.count() {
            let folder = bed.folder.path().join(format!("server{number}"));
            // Each begins with another member.
            let ports = (number..number + COUNT).map(|member| bed.members.port(member % COUNT));
            let join = (number > 0).then(|| join.clone());
            let replica = Replica::start(places, shared, number, folder, ports, join).await?;
            bed.replicas.push(replica);
            if number == 0 {
                bed.replicas[0].export(&bed.folder.path().join("join"))?;
                prepare(&bed.replicas[0].client().await?).await?;
            }
        }
        Ok(bed)
    }

    /// Injects a fault that is to last for some time.
    pub(super) async fn inject(
        &mut self,
        fault: Fault,
        duration: Duration,
        random: &mut Random,
    ) -> anyhow::Result<Injected> {
        let seconds = duration.as_secs_f64();
        let leader = self.members.leader().await?;
        let other = (leader + 1 + random.below(2) as usize) % COUNT;
        let server = random.below(u32::try_from(self.replicas.len())?) as usize;
        let (number, what) = match fault {
            Fault::MemberKilled | Fault::LeaderKilled => {
                let number = if fault == Fault::LeaderKilled { leader } else { other };
                self.members.kill(number);
                (number, format!("member {number} is killed for {seconds:.1} s"))
            }
            Fault::MemberPaused | Fault::LeaderPaused => {
                let number = if fault == Fault::LeaderPaused { leader } else { other };
                self.members.signal(number, "STOP")?;
                (number, format!("member {number} is paused for {seconds:.1} s"))
            }
            Fault::DiskFull => match &self.disk {
                Ok(disk) => {
                    disk.fill()?;
                    let role = if leader == SMALL { "the leader" } else { "not the leader" };
                    (SMALL, format!("the disk of member {SMALL}, {role}, is full"))
                }
                Err(cause) => {
                    let what = format!("SKIPPED: a small file system cannot be mounted: {cause}");
                    return Ok(Injected { fault, number: SMALL, what, skipped: true });
                }
            },
            Fault::Cut | Fault::CutAndCompacted => {
                self.replicas[server].cut(true);
                (server, format!("server {server} is cut off for {seconds:.1} s"))
            }
            Fault::Compacted => (0, format!("compacted at revision {}", self.members.compact().await?)),
            Fault::ServerKilled => {
                self.replicas[server].kill().await;
                (server, format!("server {server} is killed for {seconds:.1} s"))
            }
            Fault::SetBack => {
                self.members.set_back().await?;
                // They notice that revisions have gone back, and would serve nothing.
                for replica in &mut self.replicas {
                    replica.kill().await;
                }
                (0, "all members have lost the last writes".to_owned())
            }
        };
        Ok(Injected { fault, number, what, skipped: false })
    }

    /// Waits while a fault lasts. Returns what happened meanwhile.
    pub(super) async fn hold(&mut self, injected: &Injected, duration: Duration) -> anyhow::Result<Option<String>> {
        match injected.fault {
            Fault::CutAndCompacted => {
                sleep(duration / 2).await;
                let revision = self.members.compact().await?;
                sleep(duration / 2).await;
                Ok(Some(format!("compacted at revision {revision} meanwhile")))
            }
            Fault::DiskFull => {
                let deadline = Instant::now() + NOTICES_WITHIN;
                while self.members.check(injected.number).is_ok() && Instant::now() < deadline {
                    sleep(POLL).await;
                }
                let ended = self.members.check(injected.number).is_err();
                sleep(duration).await;
                let what =
                    if ended { "etcd has ended by itself on the full disk" } else { "etcd runs on the full disk" };
                Ok(Some(what.to_owned()))
            }
            _ => {
                sleep(duration).await;
                Ok(None)
            }
        }
    }

    /// Ends a fault.
    pub(super) async fn heal(&mut self, injected: &Injected) -> anyhow::Result<()> {
        let number = injected.number;
        match (injected.fault, &self.disk) {
            (Fault::MemberKilled | Fault::LeaderKilled, _) => self.members.launch(number),
            (Fault::MemberPaused | Fault::LeaderPaused, _) => self.members.signal(number, "CONT"),
            (Fault::DiskFull, disk) => {
                disk.as_ref().map_or(Ok(()), SmallDisk::free)?;
                if self.members.check(number).is_err() { self.members.launch(number) } else { Ok(()) }
            }
            (Fault::Cut | Fault::CutAndCompacted, _) => {
                self.replicas[number].cut(false);
                Ok(())
            }
            (Fault::Compacted, _) => Ok(()),
            (Fault::ServerKilled, _) => self.replicas[number].launch().await,
            (Fault::SetBack, _) => {
                for replica in &mut self.replicas {
                    replica.launch().await?;
                }
                Ok(())
            }
        }
    }

    /// Waits until all members and API servers work.
    pub(super) async fn recovered(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + RECOVERS_WITHIN;
        for number in 0..COUNT {
            while !self.members.is_healthy(number).await {
                self.members.check(number)?;
                if Instant::now() > deadline {
                    bail!("member {number} of etcd is not healthy again");
                }
                sleep(POLL).await;
            }
        }
        for number in 0..self.replicas.len() {
            while !self.replicas[number].is_ready().await? {
                if Instant::now() > deadline {
                    bail!("API server {number} is not ready again");
                }
                sleep(POLL).await;
            }
        }
        Ok(())
    }

    /// Ends everything, and returns the directory with the data and logs, which are kept.
    pub(super) fn keep(self) -> PathBuf {
        let Self { replicas, members, disk, folder } = self;
        drop((replicas, members, disk));
        folder.keep()
    }
}
