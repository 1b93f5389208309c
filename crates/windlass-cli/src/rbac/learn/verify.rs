//! Verifies learned roles: they are applied to a new plane, which reviews all recorded requests, and the
//! command runs again as an account with these roles.
//!
//! A command does not send the same requests every time. Requests that are forbidden in the second run are learned as
//! well, and the command runs again.

use std::{collections::BTreeSet, process::ExitStatus};

use serde_json::Value;
use windlass_schema::sorting::Gather as _;

use super::{
    LearnArgs,
    child::{self, Ended},
    records::Records,
    reviews,
    session::{RecordingSession, Upstream},
};
use crate::{
    failure::{ErrorWithHint, Interrupted},
    rbac::{
        needs::{Needs, Recorded},
        print::{self, Owner},
        rules::{Roles, RuleOptions},
    },
    service_account::AccountName,
    signals::Signals,
};

/// Number of times that the command runs under learned roles before giving up.
const ATTEMPTS: usize = 3;

const NOT_VERIFIED: &str = "interrupted: the roles are not verified";

/// Input of the verification.
pub(super) struct Proof<'a> {
    pub(super) args: &'a LearnArgs,
    pub(super) owner: &'a Owner,
    pub(super) options: RuleOptions<'a>,
    /// Permissions that were used.
    pub(super) seen: &'a Needs,
    /// Requests that were forbidden without the roles, too.
    pub(super) rejected: &'a [Recorded],
    /// Whether the command can run again: it used the recording proxy of the session's own plane, and ended by itself
    /// or in time.
    pub(super) runs_again: bool,
}

impl Proof<'_> {
    /// Verifies that roles for `needs` are sufficient; adds permissions that only a later run needs.
    pub(super) async fn run(&self, needs: &mut Needs, signals: &mut Signals) -> anyhow::Result<()> {
        let mut forbidden = BTreeSet::new();
        for attempt in 1..=ATTEMPTS {
            let roles = print::manifests(&Roles::of(needs, self.options), self.owner);
            forbidden = match self.attempt(&roles, signals).await? {
                Attempt::Reviewed => {
                    eprintln!("verified: a server with these roles allows all recorded requests");
                    return Ok(());
                }
                Attempt::Passed => {
                    eprintln!("verified: the command succeeds with these roles");
                    return Ok(());
                }
                Attempt::Failed(status) => return Err(self.failed(status)),
                Attempt::Forbidden(forbidden) => forbidden,
            };
            eprintln!("forbidden by these roles, and now added (run {attempt} of {ATTEMPTS}):");
            forbidden.iter().for_each(|Recorded { method, uri, .. }| eprintln!("  {method} {uri}"));
            needs.learn(Needs::of(&forbidden, &self.owner.namespace));
        }
        let requests: Vec<String> =
            forbidden.iter().map(|Recorded { method, uri, .. }| format!("{method} {uri}")).collect();
        let message = format!(
            "the command fails with the learned roles: after {ATTEMPTS} runs, these requests are still forbidden:\n  {}",
            requests.join("\n  ")
        );
        let hint = "the command sends other requests every time, or something else forbids them: record a command that can \
                    be repeated, or use --no-verify";
        Err(ErrorWithHint { message, hint: hint.into() }.into())
    }

    async fn attempt(&self, roles: &[Value], signals: &mut Signals) -> anyhow::Result<Attempt> {
        let Self { args, owner, .. } = self;
        let account = AccountName { namespace: owner.namespace.clone(), name: owner.name.clone() };
        let records = Records::default();
        let apply = if self.runs_again { &args.apply[..] } else { &[] };
        let upstream = Upstream::Restricted { account: &account, roles };
        let reviewing = async {
            let session = RecordingSession::open(upstream, apply, args.user_agent.clone(), &records).await?;
            let denied = reviews::denied(session.server(), &account, self.seen).await?;
            Ok((session, denied))
        };
        let reviewed = signals.interrupt(reviewing).await;
        if reviewed.as_ref().is_err_and(|error| error.is::<Interrupted>()) {
            eprintln!("{NOT_VERIFIED}");
        }
        let (session, denied) = reviewed?;
        if !denied.is_empty() {
            let message = format!("the learned roles do not allow what was recorded:\n  {}", denied.join("\n  "));
            let hint = "this is a bug in windlass: report it with the recorded requests";
            return Err(ErrorWithHint { message, hint: hint.into() }.into());
        }
        let Some((program, arguments)) = args.command.split_first().filter(|_| self.runs_again) else {
            session.close().await;
            return Ok(Attempt::Reviewed);
        };
        eprintln!("running {program} again, as service account {account} with the learned roles");
        let variables = session.variables(&owner.namespace).await;
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_path())).collect();
        let ended = child::run(program, arguments, &variables, args.time, signals).await?;
        session.close().await;
        // Forbidden for another reason than roles, which the first run did not need. Names may be different every time.
        let unnamed = |one: &Recorded| Needs::of([one], &self.owner.namespace).without_names();
        let rejected: Vec<Needs> = self.rejected.iter().map(unnamed).collect();
        let before = |one: &Recorded| rejected.contains(&unnamed(one));
        let all = records.all();
        let forbidden: BTreeSet<Recorded> = all.into_iter().filter(|one| one.is_rejected() && !before(one)).gather();
        Ok(match ended {
            Ended::Interrupted => {
                eprintln!("{NOT_VERIFIED}");
                return Err(Interrupted.into());
            }
            _ if !forbidden.is_empty() => Attempt::Forbidden(forbidden),
            Ended::Exited(status) if !status.success() => Attempt::Failed(status),
            Ended::Exited(_) | Ended::TimedOut => Attempt::Passed,
        })
    }

    fn failed(&self, status: ExitStatus) -> anyhow::Error {
        let program = self.args.command.first().map_or("the command", String::as_str);
        let message = format!("{program} exited with {status} under the learned roles, but no request was forbidden");
        let hint = "it must be possible to run the command twice: fix that, or use --no-verify";
        ErrorWithHint { message, hint: hint.into() }.into()
    }
}

enum Attempt {
    /// All recorded requests are allowed, and the command was not run again.
    Reviewed,
    Passed,
    Failed(ExitStatus),
    /// These requests were forbidden.
    Forbidden(BTreeSet<Recorded>),
}
