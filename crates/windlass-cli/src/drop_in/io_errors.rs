//! Errors of the operating system worded as in Go.

use std::{io, net::SocketAddr, path::Path};

/// Returns the reason why a file could not be opened.
pub(super) fn open(path: &Path, error: &io::Error) -> String {
    format!("open {}: {}", path.display(), reason(error))
}

/// Returns the reason why a server could not listen.
pub(super) fn listen(address: SocketAddr, error: &io::Error) -> String {
    format!("listen tcp {address}: bind: {}", reason(error))
}

fn reason(error: &io::Error) -> String {
    use io::ErrorKind::{AddrInUse, AddrNotAvailable, IsADirectory, NotADirectory, NotFound, PermissionDenied};
    match error.kind() {
        NotFound => "no such file or directory".to_owned(),
        PermissionDenied => "permission denied".to_owned(),
        IsADirectory => "is a directory".to_owned(),
        NotADirectory => "not a directory".to_owned(),
        AddrInUse => "address already in use".to_owned(),
        AddrNotAvailable => "cannot assign requested address".to_owned(),
        _ => error.to_string(),
    }
}
