//! When the events of a watch are read from the connection: from there on their time is the runtime's.

use std::{collections::HashMap, sync::Arc};

use http_body_util::BodyExt as _;
use kube::Client;
use parking_lot::Mutex;
use tower::service_fn;

use crate::{subject::now, widget::SENT_AT};

/// When each write was read as an event, by the time at which it was sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrivals(Arc<Mutex<HashMap<i64, i64>>>);

impl Arrivals {
    /// The same client, with all that it reads looked at.
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

    /// When the event of a write was read, told once.
    pub(crate) fn take(&self, sent: i64) -> Option<i64> {
        self.0.lock().remove(&sent)
    }

    fn note(&self, sent: i64) {
        self.0.lock().insert(sent, now());
    }
}

/// A line of a watch, which may come in pieces.
#[derive(Debug, Default)]
struct Line(Vec<u8>);

impl Line {
    /// Tells the write of each line that ends here.
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

/// When the write that a line tells of was sent: the text behind the annotation's name.
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
