//! The `Accept` header.

/// One media range of the header with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Clause<'a> {
    main: &'a str,
    sub: &'a str,
    quality: f32,
    params: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    /// `*/*`.
    pub(super) fn any() -> Self {
        Self { main: "*", sub: "*", quality: 1.0, params: Vec::new() }
    }

    /// Returns the value of a parameter; the last one if it is given twice.
    pub(super) fn param(&self, name: &str) -> Option<&'a str> {
        self.params.iter().rev().find(|(have, _)| *have == name).map(|(_, value)| *value)
    }

    /// Returns whether the clause requests another form of the object.
    pub(super) fn transforms(&self) -> bool {
        ["as", "g", "v"].iter().any(|name| self.param(name).is_some())
    }

    /// Returns whether the range covers a media type.
    pub(super) fn names(&self, media_type: &str) -> bool {
        let (main, sub) = media_type.split_once('/').unwrap_or((media_type, ""));
        (self.main == "*" && self.sub == "*") || (self.main == main && (self.sub == "*" || self.sub == sub))
    }

    /// Returns whether the clause precedes another. This is not an order: two clauses may each precede the other.
    fn before(&self, other: &Self) -> bool {
        self.quality > other.quality || (self.main != "*" && other.main == "*") || (self.sub != "*" && other.sub == "*")
    }
}

/// Maximum number of clauses of a header that are considered: sorting them takes quadratic time, and clients need few.
const CLAUSES_MAX: usize = 64;

/// Returns the clauses of a header in the order of preference. Malformed ones are skipped.
pub(super) fn parse(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<_> = header.split(',').filter_map(parse_clause).take(CLAUSES_MAX).collect();
    // Insertion sort, as in Go: `before` is not an order, so the result depends on the algorithm.
    for end in 1..clauses.len() {
        let mut at = end;
        while at > 0 && clauses[at].before(&clauses[at - 1]) {
            clauses.swap(at, at - 1);
            at -= 1;
        }
    }
    clauses
}

fn parse_clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.trim_matches(' ').split(';');
    let range = parts.next()?;
    let (main, sub) = match range.split_once('/') {
        Some((main, sub)) if !sub.is_empty() => (main.trim_matches(' '), sub),
        _ => (range.trim_end_matches('/').trim_matches(' '), ""),
    };
    let sub = match sub.strip_suffix('/').unwrap_or(sub) {
        "" if main == "*" => "*",
        "" => return None,
        sub if sub.contains('/') => return None,
        sub => sub.trim_matches(' '),
    };
    let mut clause = Clause { main, sub, quality: 1.0, params: Vec::new() };
    for part in parts {
        let Some((name, value)) = part.split_once('=').filter(|(_, value)| !value.is_empty()) else { continue };
        let value = value.strip_suffix('=').unwrap_or(value);
        if value.contains('=') {
            continue;
        }
        match name.trim_matches(' ') {
            "q" => clause.quality = value.parse().unwrap_or(0.0),
            name => clause.params.push((name, value.trim_matches(' '))),
        }
    }
    Some(clause)
}
