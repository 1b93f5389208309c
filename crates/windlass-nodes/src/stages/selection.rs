//! Selecting the stage of an object, and when it ends.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::time::parse_duration;

use super::{
    Stages, Subject,
    spec::{self, Stage},
};

/// Maximum duration of a stage: a year.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// A stage that an object is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Index of the stage.
    pub(crate) stage: usize,
    /// Time at which it ends.
    pub(crate) due: Timestamp,
}

/// Returns the current stages of an object, which is passed with its facts: one of the matching stages, selected by
/// weight, and all matching timers. Stages in `before` are kept while they match. `chance` is the random number for the
/// selection.
pub(crate) fn choose(
    stages: &Stages,
    subject: Subject,
    object: &Value,
    before: &[Chosen],
    chance: u64,
    now: Timestamp,
) -> Vec<Chosen> {
    let fits = |stage: &Stage| stage.requirements.iter().all(|requirement| requirement.holds(object));
    let fitting: Vec<(usize, &Stage)> =
        stages.of(subject).filter(|(_, stage)| stage.weight > 0 && fits(stage)).collect();
    let begin = |(number, stage): (usize, &Stage)| {
        // A stage that ends at a time follows this time, unless it has ended without a change.
        let follows = |chosen: &&Chosen| stage.is_timed(object) && chosen.due != Timestamp::MAX;
        let kept = before.iter().find(|chosen| chosen.stage == number).filter(|chosen| !follows(chosen));
        kept.copied().unwrap_or_else(|| Chosen { stage: number, due: due(stage, object, chance, now) })
    };
    let timers = fitting.iter().filter(|(_, stage)| stage.timer).copied().map(begin);
    let mut chosen: Vec<Chosen> = timers.collect();
    let others: Vec<(usize, &Stage)> = fitting.iter().filter(|(_, stage)| !stage.timer).copied().collect();
    let stays = others.iter().find(|(number, _)| before.iter().any(|chosen| chosen.stage == *number));
    chosen.extend(stays.copied().or_else(|| weighted(&others, chance)).map(begin));
    chosen
}

impl Stage {
    /// Returns whether the object says when the stage ends, rather than how long it takes.
    fn is_timed(&self, object: &Value) -> bool {
        let Some(path) = &self.duration.from else { return false };
        let is_time = |value: &&Value| value.as_str().is_some_and(|text| text.parse::<Timestamp>().is_ok());
        self.jitter.is_none() && path.find(object).first().is_some_and(is_time)
    }
}

fn weighted<'a>(stages: &[(usize, &'a Stage)], chance: u64) -> Option<(usize, &'a Stage)> {
    let total: u64 = stages.iter().map(|(_, stage)| u64::from(stage.weight)).sum();
    let mut at = chance.checked_rem(total)?;
    stages.iter().copied().find(|(_, stage)| {
        let weight = u64::from(stage.weight);
        let here = at < weight;
        at = at.saturating_sub(weight);
        here
    })
}

/// Returns the time at which a stage that starts now ends.
fn due(stage: &Stage, object: &Value, chance: u64, now: Timestamp) -> Timestamp {
    let least = length(&stage.duration, object, now);
    let most = stage.jitter.as_ref().map_or(least, |jitter| length(jitter, object, now)).max(least);
    // Use other bits than the ones that select the stage.
    let share = f64::from((chance >> 32) as u32) / f64::from(u32::MAX);
    let delay = least + (most - least).mul_f64(share);
    now.checked_add(delay.min(LONGEST)).unwrap_or(Timestamp::MAX)
}

/// A duration from now. The result of an expression is a time, a duration such as `1m30s`, or a number of milliseconds.
fn length(duration: &spec::Duration, object: &Value, now: Timestamp) -> Duration {
    let fixed = Duration::from_millis(duration.milliseconds);
    let Some(path) = &duration.from else { return fixed };
    let found = path.find(object).into_iter().find_map(|value| match value {
        Value::Number(number) => {
            let milliseconds = number.as_f64().filter(|milliseconds| *milliseconds >= 0.0)?;
            Duration::try_from_secs_f64(milliseconds / 1000.0).ok()
        }
        Value::String(text) => match text.parse::<Timestamp>() {
            Ok(time) => Some(time.duration_since(now).try_into().unwrap_or_default()),
            Err(_) => parse_duration(text).ok().map(|nanoseconds| Duration::from_nanos(nanoseconds.max(0) as u64)),
        },
        _ => None,
    });
    found.unwrap_or(fixed)
}
