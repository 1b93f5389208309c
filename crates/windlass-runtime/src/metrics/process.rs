//! Process metrics, under the standard names of Prometheus clients.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

/// Linux reports process times in hundredths of a second, on every platform.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
struct Process;

/// Values read at a scrape. Values that cannot be read are omitted.
#[derive(Debug, Default, PartialEq)]
struct Readings {
    cpu_seconds: Option<f64>,
    start_time_seconds: Option<f64>,
    resident_bytes: Option<u64>,
    virtual_bytes: Option<u64>,
    open_fds: Option<u64>,
    max_fds: Option<u64>,
    threads: Option<u64>,
}

pub(super) fn register(registry: &mut Registry) {
    if fs::exists("/proc/self/stat").unwrap_or(false) {
        registry.register_collector(Box::new(Process));
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let readings = Readings::now();
        if let Some(value) = readings.cpu_seconds {
            let counter = ConstCounter::new(value);
            let help = "User and system CPU time spent in seconds";
            counter.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, counter.metric_type())?)?;
        }
        let mut gauge = |name, help, value: Option<f64>| {
            let Some(value) = value else { return Ok(()) };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        let float = |value: Option<u64>| value.map(|value| value as f64);
        gauge("process_start_time_seconds", "Start time since the Unix epoch in seconds", readings.start_time_seconds)?;
        gauge("process_resident_memory_bytes", "Resident memory in bytes", float(readings.resident_bytes))?;
        gauge("process_virtual_memory_bytes", "Virtual memory in bytes", float(readings.virtual_bytes))?;
        gauge("process_open_fds", "Open file descriptors", float(readings.open_fds))?;
        gauge("process_max_fds", "Maximum number of open file descriptors", float(readings.max_fds))?;
        gauge("process_threads", "Number of operating system threads", float(readings.threads))
    }
}

impl Readings {
    fn now() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let mut readings = Self::parse(
            &read("/proc/self/stat"),
            &read("/proc/self/status"),
            &read("/proc/self/limits"),
            &read("/proc/stat"),
        );
        readings.open_fds = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64);
        readings
    }

    fn parse(stat: &str, status: &str, limits: &str, system: &str) -> Self {
        // The name of the program comes second, in parentheses, and may contain anything.
        let fields: Vec<f64> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0.0)).collect())
            .unwrap_or_default();
        // The rest begins with field 4 of proc(5); utime is 14, stime 15, starttime 22.
        let field = |number: usize| fields.get(number - 4).copied();
        let ticks = |number| field(number).map(|ticks| ticks / TICKS_PER_SECOND);
        let boot: Option<f64> =
            system.lines().find_map(|line| line.strip_prefix("btime ")).and_then(|time| time.trim().parse().ok());
        let number_after = |text: &str, key: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let kib = |key| number_after(status, key).map(|kib| kib * 1024);
        Self {
            cpu_seconds: ticks(14).zip(ticks(15)).map(|(user, system)| user + system),
            start_time_seconds: ticks(22).zip(boot).map(|(start, boot)| start + boot),
            resident_bytes: kib("VmRSS:"),
            virtual_bytes: kib("VmSize:"),
            open_fds: None,
            max_fds: number_after(limits, "Max open files"),
            threads: number_after(status, "Threads:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Metrics, TextFormat};

    #[test]
    fn the_files_of_proc_are_read_even_with_odd_program_names() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 3 0 1000 999 88";
        let status = "Name:\tx\nVmSize:\t    2048 kB\nVmRSS:\t     512 kB\nThreads:\t3\n";
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024      4096      files\n";
        let read = Readings::parse(stat, status, limits, "cpu 1\nbtime 1700000000\n");
        let expected = Readings {
            cpu_seconds: Some(2.0),
            start_time_seconds: Some(1_700_000_010.0),
            resident_bytes: Some(512 * 1024),
            virtual_bytes: Some(2048 * 1024),
            open_fds: None,
            max_fds: Some(1024),
            threads: Some(3),
        };
        assert_eq!(read, expected);
        assert_eq!(Readings::parse("", "", "", ""), Readings::default());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_scrape_shows_this_process() {
        let metrics = Metrics::new();
        metrics.register_process();
        let text = metrics.encode_as(TextFormat::Prometheus);
        for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"));
            let value: f64 = line.split(' ').nth(1).unwrap().parse().unwrap();
            assert!(value >= 0.0 && (name == "process_cpu_seconds_total" || value > 0.0), "{line}");
        }
    }
}
