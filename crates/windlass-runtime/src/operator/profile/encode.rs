//! The format of pprof: a `perftools.profiles.Profile` in protobuf, compressed with gzip.
//!
//! Field numbers are those of [profile.proto](https://github.com/google/pprof/blob/main/proto/profile.proto).

use std::{
    collections::HashMap,
    io::{self, Write as _},
    time::UNIX_EPOCH,
};

use flate2::{Compression, write::GzEncoder};
use pprof::{Report, Symbol};

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }
}

/// The strings of a profile, which refers to them by index.
struct Strings(HashMap<String, u64>, Vec<String>);

impl Strings {
    fn new() -> Self {
        let mut this = Self(HashMap::new(), Vec::new());
        // The first one must be empty.
        this.index("");
        this
    }

    fn index(&mut self, text: &str) -> u64 {
        if let Some(index) = self.0.get(text) {
            return *index;
        }
        let index = self.1.len() as u64;
        self.0.insert(text.to_owned(), index);
        self.1.push(text.to_owned());
        index
    }
}

/// A function, and the line in it.
#[derive(PartialEq, Eq, Hash)]
struct Place {
    function: u64,
    line: u32,
}

/// A profile that is being written.
struct Profile {
    message: Message,
    strings: Strings,
    /// Functions by system name and file, both of which are strings.
    functions: HashMap<(u64, u64), u64>,
    locations: HashMap<Vec<Place>, u64>,
}

impl Profile {
    /// Returns the id of a function.
    fn function(&mut self, symbol: &Symbol) -> u64 {
        let (system, file) = (self.strings.index(&symbol.sys_name()), self.strings.index(&symbol.filename()));
        let next = self.functions.len() as u64 + 1;
        if let Some(id) = self.functions.get(&(system, file)) {
            return *id;
        }
        self.functions.insert((system, file), next);
        let mut function = Message::default();
        function.number(1, next);
        function.number(2, self.strings.index(&symbol.name()));
        function.number(3, system);
        function.number(4, file);
        self.message.bytes(5, &function.0);
        next
    }

    /// Returns the id of a location: a function, and the functions that are inlined into it.
    fn location(&mut self, frame: &[Symbol]) -> u64 {
        let place = |symbol: &Symbol| Place { function: self.function(symbol), line: symbol.lineno() };
        let places: Vec<Place> = frame.iter().map(place).collect();
        let next = self.locations.len() as u64 + 1;
        if let Some(id) = self.locations.get(&places) {
            return *id;
        }
        let mut location = Message::default();
        location.number(1, next);
        for Place { function, line } in &places {
            let mut written = Message::default();
            written.number(1, *function);
            written.number(2, u64::from(*line));
            location.bytes(4, &written.0);
        }
        self.message.bytes(4, &location.0);
        self.locations.insert(places, next);
        next
    }

    /// Writes a type of values and its unit.
    fn value_type(&mut self, field: u64, name: &str, unit: &str) {
        let mut message = Message::default();
        message.number(1, self.strings.index(name));
        message.number(2, self.strings.index(unit));
        self.message.bytes(field, &message.0);
    }
}

/// Encodes a report: the number of samples and the processor time of each stack.
pub(super) fn profile(report: &Report) -> Vec<u8> {
    let mut profile = Profile {
        message: Message::default(),
        strings: Strings::new(),
        functions: HashMap::new(),
        locations: HashMap::new(),
    };
    let period = 1_000_000_000 / u64::try_from(report.timing.frequency).unwrap_or(1).max(1);
    profile.value_type(1, "samples", "count");
    profile.value_type(1, "cpu", "nanoseconds");
    let thread = profile.strings.index("thread");
    for (stack, count) in &report.data {
        let (mut locations, mut values) = (Message::default(), Message::default());
        for frame in &stack.frames {
            let location = profile.location(frame);
            locations.varint(location);
        }
        let count = u64::try_from(*count).unwrap_or_default();
        values.varint(count);
        values.varint(count * period);
        let mut label = Message::default();
        label.number(1, thread);
        label.number(2, profile.strings.index(&stack.thread_name_or_id()));
        let mut sample = Message::default();
        sample.bytes(1, &locations.0);
        sample.bytes(2, &values.0);
        sample.bytes(3, &label.0);
        profile.message.bytes(2, &sample.0);
    }
    profile.value_type(11, "cpu", "nanoseconds");
    let nanos = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or_default();
    let began = report.timing.start_time.duration_since(UNIX_EPOCH).unwrap_or_default();
    profile.message.number(9, nanos(began));
    profile.message.number(10, nanos(report.timing.duration));
    profile.message.number(12, period);
    let Profile { mut message, strings, .. } = profile;
    strings.1.iter().for_each(|text| message.bytes(6, text.as_bytes()));
    message.0
}

/// Compresses an encoded profile.
pub(super) fn gzip(profile: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(profile)?;
    encoder.finish()
}
