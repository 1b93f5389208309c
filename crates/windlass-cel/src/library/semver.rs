//! Semantic versions, which the functions of the quantity library compare.

use windlass_schema::go_format::quote;

use super::{Call, Table};
use crate::value::{EvalError, Opaque, Outcome, PreRelease, Semver, Value};

pub(crate) const FUNCTIONS: &Table =
    &[("semver", semver), ("isSemver", is_semver), ("major", major), ("minor", minor), ("patch", patch)];

fn number(name: &str, text: &str) -> Result<u64, String> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        let lower = name.to_lowercase();
        return Err(format!("Invalid character(s) found in {lower} number {}", quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{name} number must not contain leading zeroes {}", quote(text)));
    }
    text.parse().map_err(|_| {
        let reason = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {reason}", quote(text))
    })
}

fn alphanumeric(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn pre_release(text: &str) -> Result<PreRelease, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {}", quote(text)));
        }
        let number =
            text.parse().map_err(|_| format!("strconv.ParseUint: parsing {}: value out of range", quote(text)))?;
        return Ok(PreRelease::Number(number));
    }
    if !alphanumeric(text) {
        return Err(format!("Invalid character(s) found in prerelease {}", quote(text)));
    }
    Ok(PreRelease::Word(text.to_owned()))
}

fn parse(text: &str) -> Result<Semver, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, patch] = parts[..] else { return Err("No Major.Minor.Patch elements found".to_owned()) };
    let (major, minor) = (number("Major", major)?, number("Minor", minor)?);
    let (patch, build) = patch.split_once('+').map_or((patch, None), |(patch, build)| (patch, Some(build)));
    let (patch, pre) = patch.split_once('-').map_or((patch, None), |(patch, pre)| (patch, Some(pre)));
    let patch = number("Patch", patch)?;
    let pre = pre.into_iter().flat_map(|pre| pre.split('.')).map(pre_release).collect::<Result<_, _>>()?;
    for part in build.into_iter().flat_map(|build| build.split('.')) {
        if part.is_empty() {
            return Err("Build meta data is empty".to_owned());
        }
        if !alphanumeric(part) {
            return Err(format!("Invalid character(s) found in build meta data {}", quote(part)));
        }
    }
    Ok(Semver { major, minor, patch, pre })
}

/// Parses a version that may have a `v` prefix, leading zeros, or fewer than three numbers.
fn parse_loosely(text: &str) -> Result<Semver, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
    for part in &mut parts {
        if part.len() > 1 {
            let trimmed = part.trim_start_matches('0');
            let digit = trimmed.starts_with(|c: char| c.is_ascii_digit());
            *part = if digit { trimmed.to_owned() } else { format!("0{trimmed}") };
        }
    }
    if parts.len() < 3 {
        if parts.last().is_some_and(|part| part.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
    }
    parse(&parts.join("."))
}

fn from_arguments(call: &Call<'_, '_>) -> Result<Result<Semver, String>, EvalError> {
    match &*call.arguments {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(parse(text)),
        [Value::String(text), Value::Bool(true)] => Ok(parse_loosely(text)),
        _ => Err(call.mismatch()),
    }
}

fn semver<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let version = from_arguments(&call)?.map_err(EvalError::new)?;
    Ok(Value::opaque(Opaque::Semver(version)))
}

fn is_semver<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    Ok(Value::Bool(from_arguments(&call)?.is_ok()))
}

fn part<'a>(call: &Call<'_, 'a>, part: fn(&Semver) -> u64) -> Outcome<'a> {
    match &*call.arguments {
        [Value::Opaque(value)] if let Opaque::Semver(version) = &**value => Ok(Value::Int(part(version) as i64)),
        _ => Err(call.mismatch()),
    }
}

fn major<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    part(&call, |version| version.major)
}

fn minor<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    part(&call, |version| version.minor)
}

fn patch<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    part(&call, |version| version.patch)
}
