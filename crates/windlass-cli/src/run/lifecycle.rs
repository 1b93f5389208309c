//! Decides when to build, install, start and wait. Pure.
//!
//! A failed build leaves the running operator alone. A build that changes nothing does not restart it unless requested.
//! An operator that stops by itself is restarted with increasing delay, or at once after a change.

use std::time::Duration;

/// Delay after the first crash; doubled by each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// An operator that ran for this long resets the delay.
const STABLE: Duration = Duration::from_secs(60);

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// Sources have changed.
    Changed,
    /// A build succeeded; fresh if nothing had to be compiled.
    Built { fresh: bool },
    /// A build failed.
    BuildFailed,
    /// The resources of the operator are installed.
    Installed,
    /// Installing the resources failed.
    InstallFailed,
    /// The operator has exited after this time.
    Exited { after: Duration },
    /// The delay is over.
    Due,
    /// The user requested a rebuild and restart.
    Restart,
    /// The user paused or resumed restarts after changes.
    Pause,
}

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    /// Build, cancelling a build or installation in progress.
    Build,
    /// Install the resources of the operator.
    Install,
    /// Start the operator, stopping it first if it is running.
    Start,
    /// Wait before starting it.
    Wait(Duration),
}

/// State of the run.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    running: bool,
    /// There is a binary that can be started.
    startable: bool,
    /// A build or an installation is in progress.
    busy: bool,
    /// The next successful build is started even if it is unchanged.
    wanted: bool,
    paused: bool,
    /// Sources changed while paused.
    pending: bool,
    crashes: u32,
}

impl Lifecycle {
    /// Returns whether restarts after changes are paused.
    pub(crate) fn paused(&self) -> bool {
        self.paused
    }

    /// Returns what to do next.
    pub(crate) fn on(&mut self, input: Input) -> Action {
        match input {
            Input::Changed if self.paused => {
                self.pending = true;
                Action::Nothing
            }
            Input::Changed => self.build(),
            Input::Restart => {
                self.wanted = true;
                self.build()
            }
            Input::Pause => {
                self.paused = !self.paused;
                if !self.paused && std::mem::take(&mut self.pending) { self.build() } else { Action::Nothing }
            }
            Input::Built { fresh } => {
                if fresh && self.running && !self.wanted {
                    self.busy = false;
                    Action::Nothing
                } else {
                    Action::Install
                }
            }
            Input::BuildFailed => {
                self.busy = false;
                // It has stopped in the meantime; the previous binary still exists.
                if self.startable && !self.running { Action::Wait(self.wait()) } else { Action::Nothing }
            }
            Input::InstallFailed => {
                self.busy = false;
                // The next build may have nothing to compile, but must be started anyway.
                self.wanted = true;
                Action::Nothing
            }
            Input::Installed | Input::Due if !(input == Input::Due && self.busy) => {
                self.busy = false;
                self.wanted = false;
                self.running = true;
                self.startable = true;
                Action::Start
            }
            Input::Installed | Input::Due => Action::Nothing,
            Input::Exited { after } => {
                self.running = false;
                self.crashes = if after >= STABLE { 1 } else { self.crashes.saturating_add(1) };
                if self.busy { Action::Nothing } else { Action::Wait(self.wait()) }
            }
        }
    }

    fn build(&mut self) -> Action {
        self.busy = true;
        self.crashes = 0;
        Action::Build
    }

    fn wait(&self) -> Duration {
        let doublings = self.crashes.saturating_sub(1).min(8);
        FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::{Action::*, Input, *};

    fn check(steps: &[(Input, Action)]) {
        let mut lifecycle = Lifecycle::default();
        for (number, (input, expected)) in steps.iter().enumerate() {
            assert_eq!(lifecycle.on(*input), *expected, "step {number}: {input:?}");
        }
    }

    const BUILT: Input = Input::Built { fresh: false };
    const FRESH: Input = Input::Built { fresh: true };
    const CRASHED: Input = Input::Exited { after: Duration::from_millis(5) };
    const UP: [(Input, Action); 3] = [(Input::Restart, Build), (BUILT, Install), (Input::Installed, Start)];

    #[test]
    fn a_change_builds_installs_and_starts() {
        check(&[&UP[..], &[(Input::Changed, Build), (BUILT, Install), (Input::Installed, Start)]].concat());
    }

    #[test]
    fn a_failed_build_leaves_the_operator_running() {
        check(&[&UP[..], &[(Input::Changed, Build), (Input::BuildFailed, Nothing), (Input::Changed, Build)]].concat());
    }

    #[test]
    fn an_unchanged_build_is_only_restarted_on_request() {
        check(&[&UP[..], &[(Input::Changed, Build), (FRESH, Nothing)]].concat());
        check(&[&UP[..], &[(Input::Restart, Build), (FRESH, Install), (Input::Installed, Start)]].concat());
    }

    #[test]
    fn a_failed_installation_is_retried_with_the_same_binary() {
        let tail = [(BUILT, Install), (Input::InstallFailed, Nothing), (Input::Changed, Build), (FRESH, Install)];
        check(&[&UP[..], &[(Input::Changed, Build)], &tail].concat());
    }

    #[test]
    fn changes_are_deferred_while_paused() {
        check(
            &[
                &UP[..],
                &[(Input::Pause, Nothing), (Input::Changed, Nothing), (Input::Pause, Build)],
                &[(Input::Pause, Nothing), (Input::Pause, Nothing)],
            ]
            .concat(),
        );
    }

    #[test]
    fn the_delay_after_crashes_doubles_until_a_change() {
        let wait = |seconds| Wait(Duration::from_secs(seconds));
        let mut steps = UP.to_vec();
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            steps.extend([(CRASHED, wait(seconds)), (Input::Due, Start)]);
        }
        steps.extend([(Input::Exited { after: STABLE }, wait(1)), (Input::Due, Start), (CRASHED, wait(2))]);
        steps.extend([(Input::Changed, Build), (Input::Due, Nothing), (BUILT, Install), (Input::Installed, Start)]);
        steps.extend([(CRASHED, wait(1))]);
        check(&steps);
    }

    #[test]
    fn an_operator_that_stops_during_a_build_waits_for_the_build() {
        check(&[&UP[..], &[(Input::Changed, Build), (CRASHED, Nothing), (FRESH, Install)]].concat());
        let failed = [(CRASHED, Nothing), (Input::BuildFailed, Wait(FIRST_WAIT)), (Input::Due, Start)];
        check(&[&UP[..], &[(Input::Changed, Build)], &failed].concat());
    }
}
