//! The live view in the terminal.

use tokio::sync::mpsc;

use super::{event::Event, plain::Plain, supervisor::Command};

/// Shows events.
pub(crate) async fn show(_name: String, events: mpsc::Receiver<Event>, _commands: mpsc::Sender<Command>) {
    Plain::new().show_all(events).await;
}
