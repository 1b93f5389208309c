//! The time at which watch events are read from the connection, where the runtime's share begins.

use std::{collections::HashMap, sync::Arc};

use http_body_util::BodyExt as _;
use kube::Client;
use parking_lot::Mutex;
use tower::service_fn;

use crate::{subject::now, widget::SENT_AT};

/// The time each write was read as an event, keyed by the time it was sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrivals(Arc<Mutex<HashMap<i64, i64>>>);

impl Arrivals {
    /// Wraps a client so that everything it reads is inspected.
    pub(crate) fn watching(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let arrivals = self.clone();
        let service = service_fn(move |request| {
            let (client, arrivals) = (client.clone(), arrivals.clone());
            async move {
                let response = client.send(request).await?;
                let mut line = Line::default();
                Ok::<_, kube::Error>(response.map(|body| {
                    body.map_frame(move |frame| {
                        if let Some(data) = frame.data_ref() {
                            line.read(data, |sent| arrivals.note(sent));
                        }
                        frame
                    })
                }))
            }
        });
        Client::new(service, namespace)
    }

    /// Returns the time the event of a write was read, once.
    pub(crate) fn take(&self, sent: i64) -> Option<i64> {
        self.0.lock().remove(&sent)
    }

    fn note(&self, sent: i64) {
        self.0.lock().insert(sent, now());
    }
}

/// A line of a watch, which may arrive in pieces.
#[derive(Debug, Default)]
struct Line(Vec<u8>);

impl Line {
    /// Calls `ended` with the send time of each line that ends here.
    fn read(&mut self, data: &[u8], mut ended: impl FnMut(i64)) {
        for piece in data.split_inclusive(|byte| *byte == b'\n') {
            self.0.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                if let Some(sent) = str::from_utf8(&self.0).ok().and_then(sent_at) {
                    ended(sent);
                }
                self.0.clear();
            }
        }
    }
}

/// Returns the time the write in a line was sent: the text after the annotation's name.
pub(crate) fn sent_at(line: &str) -> Option<i64> {
    let (_, behind) = line.split_once(SENT_AT)?;
    behind.split('"').find(|text| text.starts_with(|first: char| first.is_ascii_digit()))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn a_write_is_known_by_its_line_however_it_was_cut() {
        let text = "{\"annotations\":{\"bench.example.com/at\":\"17\"}}\n{\"no\":1}\n{\"bench.example.com/at\":\"4\"}\n{\"bench";
        for size in 1..text.len() {
            let (mut line, mut seen) = (Line::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                line.read(piece, |sent| seen.push(sent));
            }
            assert_eq!(seen, [17, 4], "in pieces of {size}");
        }
    }
}
