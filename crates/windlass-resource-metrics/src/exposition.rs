//! Measurements in the text format of a kubelet's `/metrics/resource`. Pure.

use std::{collections::BTreeMap, fmt::Write as _};

use jiff::Timestamp;

use crate::sample::{NodeSample, PodSample, Point};

/// The media type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const CONTAINER_CPU: &str = "container_cpu_usage_seconds_total";
const CONTAINER_MEMORY: &str = "container_memory_working_set_bytes";
const CONTAINER_START: &str = "container_start_time_seconds";
const NODE_CPU: &str = "node_cpu_usage_seconds_total";
const NODE_MEMORY: &str = "node_memory_working_set_bytes";
const POD_CPU: &str = "pod_cpu_usage_seconds_total";
const POD_MEMORY: &str = "pod_memory_working_set_bytes";

const NANOS: f64 = 1e9;

/// Formats the measurements of a node.
pub fn format(sample: &NodeSample) -> String {
    let containers = || {
        sample.pods.iter().flat_map(|pod| {
            pod.containers.iter().map(move |(container, point)| {
                let labels = [("container", container), ("namespace", &pod.namespace), ("pod", &pod.name)];
                (series(&labels), *point)
            })
        })
    };
    let pods = || {
        sample.pods.iter().filter_map(|pod| {
            let time = pod.containers.values().map(|point| point.time).min()?;
            let labels = series(&[("namespace", &pod.namespace), ("pod", &pod.name)]);
            let sum = |value: fn(&Point) -> u64| pod.containers.values().map(value).fold(0, u64::saturating_add);
            let (cpu, memory) = (sum(|point| point.cpu), sum(|point| point.memory));
            Some((labels, Point { started: None, time, cpu, memory }))
        })
    };
    let node = || sample.node.map(|point| (String::new(), point)).into_iter();
    let mut text = String::new();
    family(&mut text, CONTAINER_CPU, "counter", "CPU time used by the container, in seconds", containers(), seconds);
    family(&mut text, CONTAINER_MEMORY, "gauge", "Working set of the container, in bytes", containers(), bytes);
    let help = "Start of the container, in seconds since 1970";
    family(&mut text, CONTAINER_START, "gauge", help, containers(), started);
    family(&mut text, NODE_CPU, "counter", "CPU time used by the node, in seconds", node(), seconds);
    family(&mut text, NODE_MEMORY, "gauge", "Working set of the node, in bytes", node(), bytes);
    family(&mut text, POD_CPU, "counter", "CPU time used by the pod, in seconds", pods(), seconds);
    family(&mut text, POD_MEMORY, "gauge", "Working set of the pod, in bytes", pods(), bytes);
    text.push_str("# HELP resource_scrape_error 1 if the node could not be measured\n");
    text.push_str("# TYPE resource_scrape_error gauge\nresource_scrape_error 0\n");
    text
}

/// Adds a family of metrics with a value per point.
fn family(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    points: impl Iterator<Item = (String, Point)>,
    value: fn(&Point) -> Option<String>,
) {
    let mut lines = String::new();
    for (labels, point) in points {
        if let Some(value) = value(&point) {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{name}{labels} {value} {}", point.time.as_millisecond());
        }
    }
    if !lines.is_empty() {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
    }
}

fn seconds(point: &Point) -> Option<String> {
    Some(format!("{}.{:09}", point.cpu / 1_000_000_000, point.cpu % 1_000_000_000))
}

fn bytes(point: &Point) -> Option<String> {
    Some(point.memory.to_string())
}

fn started(point: &Point) -> Option<String> {
    let millis = point.started?.as_millisecond();
    Some(format!("{}.{:03}", millis.div_euclid(1000), millis.rem_euclid(1000)))
}

fn series(labels: &[(&str, &String)]) -> String {
    let escape = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
    format!("{{{}}}", labels.join(","))
}

/// Parses the measurements of a node. Other metrics, and lines that cannot be read, are skipped. `now` is the time of
/// values without one.
pub fn parse(node: &str, text: &str, now: Timestamp) -> NodeSample {
    let mut measured = Measured::default();
    let mut containers = BTreeMap::<(String, String, String), Measured>::new();
    for line in text.lines().filter_map(line) {
        let point = match (line.name, line.labels) {
            (NODE_CPU | NODE_MEMORY, _) => &mut measured,
            (CONTAINER_CPU | CONTAINER_MEMORY | CONTAINER_START, mut labels) => {
                let mut label = |name: &str| labels.remove(name).unwrap_or_default();
                containers.entry((label("namespace"), label("pod"), label("container"))).or_default()
            }
            _ => continue,
        };
        match line.name {
            NODE_CPU | CONTAINER_CPU => {
                point.cpu = Some((line.value * NANOS).round() as u64);
                point.time = line.time;
            }
            NODE_MEMORY | CONTAINER_MEMORY => point.memory = Some(line.value as u64),
            _ => point.started = timestamp(line.value),
        }
    }
    let mut pods: Vec<PodSample> = Vec::new();
    for ((namespace, name, container), measured) in containers {
        let Some(point) = measured.point(now).filter(|_| !name.is_empty() && !container.is_empty()) else { continue };
        match pods.last_mut().filter(|pod| pod.namespace == namespace && pod.name == name) {
            Some(pod) => drop(pod.containers.insert(container, point)),
            None => pods.push(PodSample { namespace, name, containers: [(container, point)].into() }),
        }
    }
    NodeSample { name: node.to_owned(), node: measured.point(now), pods }
}

/// The values of a node or container that were read so far.
#[derive(Default)]
struct Measured {
    started: Option<Timestamp>,
    time: Option<Timestamp>,
    cpu: Option<u64>,
    memory: Option<u64>,
}

impl Measured {
    /// Returns the measurement, if it is complete.
    fn point(self, now: Timestamp) -> Option<Point> {
        let Self { started, time, cpu, memory } = self;
        Some(Point { started, time: time.unwrap_or(now), cpu: cpu?, memory: memory? })
    }
}

fn timestamp(seconds: f64) -> Option<Timestamp> {
    // Float casts saturate at the limits.
    Timestamp::from_millisecond((seconds * 1000.0).round() as i64).ok()
}

/// A line with a value.
struct Line<'a> {
    name: &'a str,
    labels: BTreeMap<&'a str, String>,
    value: f64,
    time: Option<Timestamp>,
}

fn line(text: &str) -> Option<Line<'_>> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return None;
    }
    let end = text.find(['{', ' ', '\t'])?;
    let (name, mut rest) = text.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = read_labels(inside, &mut labels)?;
    }
    let mut fields = rest.split_ascii_whitespace();
    let value: f64 = fields.next()?.parse().ok()?;
    let time = fields.next().and_then(|time| Timestamp::from_millisecond(time.parse().ok()?).ok());
    (value.is_finite() && value >= 0.0).then_some(Line { name, labels, value, time })
}

/// Reads labels up to the closing brace, and returns the rest.
fn read_labels<'a>(mut text: &'a str, labels: &mut BTreeMap<&'a str, String>) -> Option<&'a str> {
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some(rest);
        }
        let (name, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = rest.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.insert(name.trim(), value);
        text = &rest[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn sample() -> NodeSample {
        let started = Timestamp::from_millisecond(1_799_999_000_250).unwrap();
        let point = |cpu| Point { started: Some(started), time: now(), cpu, memory: 8192 };
        let containers = [("a".to_owned(), point(1_500_000_000)), ("b".to_owned(), point(1))].into();
        let pod = PodSample { namespace: "default".to_owned(), name: "web".to_owned(), containers };
        let node = Point { started: None, ..point(7_000_000_000) };
        NodeSample { name: "node-1".to_owned(), node: Some(node), pods: vec![pod] }
    }

    #[test]
    fn measurements_are_read_as_they_were_written() {
        let text = format(&sample());
        let line = "container_cpu_usage_seconds_total{container=\"a\",namespace=\"default\",pod=\"web\"} 1.500000000 1800000000000\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("pod_memory_working_set_bytes{namespace=\"default\",pod=\"web\"} 16384 "), "{text}");
        assert_eq!(parse("node-1", &text, now()), sample());
    }

    #[test]
    fn other_metrics_and_incomplete_ones_are_skipped() {
        let text = "# HELP x y\nup 1\nnode_cpu_usage_seconds_total 357.35 1800000000000\n\
            node_memory_working_set_bytes 1.616273408e+09\n\
            container_cpu_usage_seconds_total{container=\"only-cpu\",namespace=\"n\",pod=\"p\"} 4.7\n\
            container_cpu_usage_seconds_total{container=\"c\",namespace=\"n\",pod=\"q\\\"x\"} NaN\n";
        let sample = parse("n", text, now());
        let node = Point { started: None, time: now(), cpu: 357_350_000_000, memory: 1_616_273_408 };
        assert_eq!(sample, NodeSample { name: "n".to_owned(), node: Some(node), pods: Vec::new() });
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([a-z_]{0,4}(container_cpu_usage_seconds_total)?[{}\"\\\\=, 0-9a-z.\n+-]{0,40}){0,4}") {
            let _ = parse("n", &text, now());
        }
    }
}
