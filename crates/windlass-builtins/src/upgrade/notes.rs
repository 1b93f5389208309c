//! Human-readable notes about a conversion.

use std::fmt;

use windlass_schema::sorting;

/// Number of places that are named; further ones are only counted.
const SHOWN: usize = 3;

/// A change or an assumption: one sentence on one line, without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note(pub String);

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A repair that may be needed in many places of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Repair {
    /// A missing type was inferred from the other keywords.
    Inferred,
    /// A missing type could not be inferred.
    Anything,
    /// A list did not declare the type of its items.
    Elements,
    /// A type was declared only in a value validation (`allOf`, `anyOf`, `oneOf`, `not`).
    Hoisted,
    /// A field was declared only in a value validation.
    Declared,
    /// A description or title stood in a value validation.
    Described,
    /// An integer-or-string was declared in another way.
    IntOrString,
    /// A list of types included null.
    Nullable,
    /// The schema restricted more of the metadata than is allowed.
    Metadata,
    /// `additionalProperties` was set at the root.
    Additional,
}

impl Repair {
    fn sentence(self, places: &str) -> String {
        match self {
            Self::Inferred => format!("the missing type was inferred from the other keywords at {places}"),
            Self::Anything => format!("no type is declared at {places}: any value is allowed"),
            Self::Elements => format!("the items of the list are not declared at {places}: any value is allowed"),
            Self::Hoisted => format!("the type was moved out of allOf, anyOf or oneOf at {places}"),
            Self::Declared => {
                format!(
                    "fields declared only in allOf, anyOf, oneOf or not were also declared outside of it at {places}"
                )
            }
            Self::Described => format!("title and description were dropped at {places}, where they are not allowed"),
            Self::IntOrString => format!("x-kubernetes-int-or-string was added at {places}"),
            Self::Nullable => format!("the type null was replaced by nullable at {places}"),
            Self::Metadata => {
                format!("the metadata may only restrict name and generateName: the rest was dropped at {places}")
            }
            Self::Additional => format!("additionalProperties is not allowed at the root and was dropped at {places}"),
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
    /// Adds a sentence. Line breaks in user input are removed.
    pub(super) fn add(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Records a repair at a place in a schema.
    pub(super) fn repair(&mut self, repair: Repair, place: &str) {
        self.repairs.push((repair, place.to_owned()));
    }

    pub(super) fn finish(mut self) -> Vec<Note> {
        sorting::sort_by_key(&mut self.repairs, |(repair, _)| *repair);
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

/// Joins items as `a`, `a and b`, `a, b and c`.
pub(super) fn enumeration(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
