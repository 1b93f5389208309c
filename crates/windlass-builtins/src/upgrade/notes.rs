//! What was changed, in sentences.

use std::fmt;

/// How many places are named before the rest is counted.
const SHOWN: usize = 3;

/// One thing that was changed or assumed: a sentence without a full stop, on one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note(pub String);

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A repair that may be needed at many places of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Repair {
    /// A type was missing and follows from the rest.
    Inferred,
    /// A type was missing and follows from nothing.
    Anything,
    /// A list did not say what its elements are.
    Elements,
    /// A type stood in a part that only restricts values.
    Hoisted,
    /// A field stood only in a part that only restricts values.
    Declared,
    /// A text stood in a part that only restricts values.
    Described,
    /// An integer or a string was said in another way.
    IntOrString,
    /// A list of types with null in it.
    Nullable,
    /// More was said about the metadata than may be.
    Metadata,
    /// Fields beyond those listed were described at the root.
    Additional,
}

impl Repair {
    fn sentence(self, places: &str) -> String {
        match self {
            Self::Inferred => format!("the type was missing at {places} and follows from what else is said there"),
            Self::Anything => format!("nothing says what is at {places}: any value is allowed there"),
            Self::Elements => format!("the elements of the list were not described at {places}: any value is allowed"),
            Self::Hoisted => format!("the type was moved out of allOf, anyOf or oneOf at {places}"),
            Self::Declared => {
                format!("fields that stood only in allOf, anyOf, oneOf or not were added beside it at {places}")
            }
            Self::Described => format!("title and description were dropped at {places}, where they may not stand"),
            Self::IntOrString => format!("x-kubernetes-int-or-string was added at {places}"),
            Self::Nullable => format!("the type null became nullable at {places}"),
            Self::Metadata => {
                format!("only name and generateName may be described in metadata, the rest was dropped at {places}")
            }
            Self::Additional => format!("additionalProperties may not stand at the root and was dropped at {places}"),
        }
    }
}

/// The notes of one upgrade.
#[derive(Debug, Default)]
pub(super) struct Notes {
    notes: Vec<String>,
    repairs: Vec<(Repair, String)>,
}

impl Notes {
    /// Adds a sentence. What comes from outside is kept on one line.
    pub(super) fn add(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Adds a place in a schema.
    pub(super) fn repair(&mut self, repair: Repair, place: &str) {
        self.repairs.push((repair, place.to_owned()));
    }

    pub(super) fn finish(mut self) -> Vec<Note> {
        self.repairs.sort_by_key(|(repair, _)| *repair);
        for group in self.repairs.chunk_by(|(one, _), (other, _)| one == other) {
            let mut places: Vec<_> = group.iter().take(SHOWN).map(|(_, place)| place.clone()).collect();
            match group.len().saturating_sub(SHOWN) {
                0 => {}
                1 => places.push("one more place".to_owned()),
                more => places.push(format!("{more} more places")),
            }
            self.notes.push(group[0].0.sentence(&enumeration(&places)));
        }
        let line = |note: String| Note(note.chars().map(|c| if c.is_control() { ' ' } else { c }).collect());
        self.notes.into_iter().map(line).collect()
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn enumeration(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
