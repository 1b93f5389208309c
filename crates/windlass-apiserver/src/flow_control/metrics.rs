//! The metrics of flow control, under the names of kube-apiserver.

use std::{
    fmt::Write as _,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use super::{Flow, FlowControl, Level, histogram::Histogram, queue_set::Rejection};

impl FlowControl {
    /// Appends the metrics in the Prometheus text format.
    pub(crate) fn render(&self, out: &mut String) {
        // Two at a time would show counters that decrease.
        let _turn = self.changing.lock();
        let current = self.current.load();
        current.flows.iter().for_each(|flow| flow.statistics.settle());
        for (name, kind, help, value) in FLOW_METRICS {
            head(out, name, kind, help);
            for flow in &current.flows {
                let _ = writeln!(out, "apiserver_flowcontrol_{name}{{{}}} {}", labels(flow), value(flow));
            }
        }
        head(out, "rejected_requests_total", "counter", "Number of rejected requests.");
        for flow in &current.flows {
            for why in Rejection::ALL {
                let count = flow.statistics.rejected[why as usize].load(Relaxed);
                if count > 0 {
                    let name = "apiserver_flowcontrol_rejected_requests_total";
                    let _ = writeln!(out, "{name}{{{},reason=\"{}\"}} {count}", labels(flow), why.as_str());
                }
            }
        }
        render_pairs(
            out,
            &current.flows,
            ("request_wait_duration_seconds", "Time that requests spent in their queues."),
            ("execute", ["false", "true"]),
            |flow| &flow.statistics.waits,
        );
        render_pairs(
            out,
            &current.flows,
            ("request_execution_seconds", "Time that requests were executed; watches until they have started."),
            ("type", ["regular", "watch"]),
            |flow| &flow.statistics.executions,
        );
        head(out, "work_estimated_seats", "histogram", "Number of seats that requests need.");
        for flow in &current.flows {
            flow.statistics.seats.render("apiserver_flowcontrol_work_estimated_seats", &labels(flow), out);
        }
        let name = "request_queue_length_after_enqueue";
        head(out, name, "histogram", "Number of requests in a queue, with the one that entered it.");
        for flow in &current.flows {
            flow.statistics.queue_lengths.render(&format!("apiserver_flowcontrol_{name}"), &labels(flow), out);
        }
        for (name, kind, help, value) in LEVEL_METRICS {
            head(out, name, kind, help);
            for level in &current.levels {
                let labels = format!("priority_level=\"{}\"", level.name);
                let _ = writeln!(out, "apiserver_flowcontrol_{name}{{{labels}}} {}", value(level));
            }
        }
        head(out, "seat_fair_frac", "gauge", "Fair fraction of the seats for each level that can use them.");
        let _ = writeln!(out, "apiserver_flowcontrol_seat_fair_frac {}", current.fair_fraction.get());
    }
}

/// Writes a histogram of times that has two series per flow schema, distinguished by a label.
fn render_pairs(
    out: &mut String,
    flows: &[Arc<Flow>],
    (name, help): (&str, &str),
    (label, values): (&str, [&str; 2]),
    of: fn(&Flow) -> &[Histogram<13>; 2],
) {
    head(out, name, "histogram", help);
    let name = format!("apiserver_flowcontrol_{name}");
    for flow in flows {
        for (value, histogram) in values.iter().zip(of(flow)) {
            histogram.render(&name, &format!("{label}=\"{value}\",{}", labels(flow)), out);
        }
    }
}

type FlowMetric = (&'static str, &'static str, &'static str, fn(&Flow) -> u64);
type LevelMetric = (&'static str, &'static str, &'static str, fn(&Level) -> f64);

const FLOW_METRICS: [FlowMetric; 5] = [
    ("dispatched_requests_total", "counter", "Number of executed requests.", |flow| flow.statistics.dispatched()),
    ("current_inqueue_requests", "gauge", "Number of requests in queues.", |flow| {
        flow.statistics.waiting.load(Relaxed) as u64
    }),
    ("current_inqueue_seats", "gauge", "Number of seats that requests in queues need.", |flow| {
        flow.statistics.waiting_seats.load(Relaxed) as u64
    }),
    ("current_executing_requests", "gauge", "Number of executing requests.", |flow| flow.statistics.executing() as u64),
    ("current_executing_seats", "gauge", "Number of seats occupied by executing requests.", |flow| {
        flow.statistics.executing_seats() as u64
    }),
];

const LEVEL_METRICS: [LevelMetric; 9] = [
    ("nominal_limit_seats", "gauge", "Configured number of seats.", |level| level.bounds.nominal as f64),
    ("lower_limit_seats", "gauge", "Lower bound of the number of seats.", |level| level.bounds.lower as f64),
    ("upper_limit_seats", "gauge", "Upper bound of the number of seats.", |level| level.bounds.upper as f64),
    ("current_limit_seats", "gauge", "Current number of seats.", |level| level.shared.queues.lock().set.limit() as f64),
    ("demand_seats_high_watermark", "gauge", "Highest demand in the last period.", |level| {
        level.shared.queues.lock().set.past_demand().highest as f64
    }),
    ("demand_seats_average", "gauge", "Average demand in the last period.", |level| {
        level.shared.queues.lock().set.past_demand().average
    }),
    ("demand_seats_stdev", "gauge", "Standard deviation of the demand in the last period.", |level| {
        level.shared.queues.lock().set.past_demand().deviation
    }),
    ("demand_seats_smoothed", "gauge", "Smoothed demand.", |level| {
        level.shared.queues.lock().set.past_demand().smoothed
    }),
    (
        "request_dispatch_no_accommodation_total",
        "counter",
        "Number of times that a request had to wait because it needs more seats than were free.",
        |level| level.shared.queues.lock().set.no_accommodation as f64,
    ),
];

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP apiserver_flowcontrol_{name} {help}\n# TYPE apiserver_flowcontrol_{name} {kind}");
}

fn labels(flow: &Flow) -> String {
    format!("flow_schema=\"{}\",priority_level=\"{}\"", flow.name, flow.level.name)
}
