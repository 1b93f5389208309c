//! Errors of the API server.

use std::error::Error as _;

use windlass::context::ContextError;

/// Returns the server's message, or the whole error if the server did not respond.
pub(crate) fn server_message(error: &ContextError) -> String {
    match error.status() {
        Some(status) => status.message.clone(),
        None => match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}
