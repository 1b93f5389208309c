//! The two text formats of `/metrics`, and their negotiation.

/// Text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// OpenMetrics 1.0, which ends with `# EOF`.
    OpenMetrics,
    /// Prometheus text format 0.0.4.
    Prometheus,
}

impl TextFormat {
    /// Returns the format for an `Accept` header: OpenMetrics if it is accepted, as Prometheus does.
    pub fn accepted(accept: Option<&str>) -> Self {
        let asked = accept.unwrap_or_default().split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let open = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text"));
            open && parts.all(|parameter| {
                let refused = parameter.strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0));
                let spoken = parameter
                    .strip_prefix("version=")
                    .is_none_or(|version| version.starts_with("1.") || version == "0.0.1");
                spoken && !refused
            })
        });
        if asked { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// Returns the `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Converts OpenMetrics text to text format 0.0.4: counter families get the name of their samples, unknown types are
/// mapped to known ones, and exemplars, units and the end marker are removed.
pub(super) fn to_prometheus(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    // HELP comes before TYPE, but needs the name, which depends on TYPE.
    let mut help: Option<(&str, &str)> = None;
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = Some(rest.split_once(' ').unwrap_or((rest, "")));
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "unknown"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "stateset" => ("", "gauge"),
                "gaugehistogram" => ("", "histogram"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((_, words)) = help.take().filter(|(helped, _)| *helped == name) {
                text.push_str(&format!("# HELP {name}{suffix} {words}\n"));
            }
            text.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with('#') {
            text.push_str(without_exemplar(line));
            text.push('\n');
        }
    }
    text
}

/// Removes everything after ` # ` outside of quoted label values.
fn without_exemplar(line: &str) -> &str {
    let (mut quoted, mut escaped) = (false, false);
    for (at, character) in line.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '#' if !quoted => return line[..at].trim_end(),
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn openmetrics_is_for_clients_that_accept_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                          application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for (accept, format) in [
            (Some(prometheus), TextFormat::OpenMetrics),
            (Some("application/openmetrics-text"), TextFormat::OpenMetrics),
            (Some("application/openmetrics-text; version=1.0.0; q=0"), TextFormat::Prometheus),
            (Some("application/openmetrics-text; version=2.0.0"), TextFormat::Prometheus),
            (Some("text/plain"), TextFormat::Prometheus),
            (Some("*/*"), TextFormat::Prometheus),
            (None, TextFormat::Prometheus),
        ] {
            assert_eq!(TextFormat::accepted(accept), format, "{accept:?}");
        }
    }

    #[test]
    fn openmetrics_becomes_prometheus_text() {
        let open = r##"# HELP jobs Jobs done.
# TYPE jobs counter
# UNIT jobs seconds
jobs_total{name="a # \" b"} 3 # {id="x"} 1.0
# HELP depth Depth.
# TYPE depth gauge
depth{name="x"} 2
# HELP build Build.
# TYPE build info
build_info{version="1"} 1
# TYPE odd unknown
odd 1
# EOF
"##;
        expect![[r##"
            # HELP jobs_total Jobs done.
            # TYPE jobs_total counter
            jobs_total{name="a # \" b"} 3
            # HELP depth Depth.
            # TYPE depth gauge
            depth{name="x"} 2
            # HELP build_info Build.
            # TYPE build_info gauge
            build_info{version="1"} 1
            # TYPE odd untyped
            odd 1
        "##]]
        .assert_eq(&to_prometheus(open));
    }
}
