//! `xtask web ADDRESS DIRECTORY`: serves the files of a directory, in place of nginx and nautilus in the pods of tests.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::{Component, Path, PathBuf},
    thread,
};

use anyhow::{Context as _, bail};

pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    let [address, directory] = args else { bail!("usage: xtask web ADDRESS DIRECTORY") };
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let directory = Path::new(directory);
    thread::scope(|scope| {
        for stream in listener.incoming().filter_map(Result::ok) {
            scope.spawn(move || {
                let _ = answer(stream, directory);
            });
        }
    });
    Ok(())
}

/// Answers one request.
fn answer(mut stream: TcpStream, directory: &Path) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    // The request has to be read, or the client may not see the response.
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let (status, text) = match page(directory, &first).map(fs::read) {
        Some(Ok(text)) => ("200 OK", text),
        _ => ("404 Not Found", b"not found\n".to_vec()),
    };
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&text)
}

/// Returns the file that a request line names, which is in the directory.
fn page(directory: &Path, line: &str) -> Option<PathBuf> {
    let path = line.strip_prefix("GET /")?.split([' ', '?']).next()?;
    let path = Path::new(if path.is_empty() { "index.html" } else { path });
    path.components().all(|part| matches!(part, Component::Normal(_))).then(|| directory.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_directory_are_served() {
        let directory = Path::new("/d");
        let page = |line| page(directory, line);
        assert_eq!(page("GET / HTTP/1.1"), Some("/d/index.html".into()));
        assert_eq!(page("GET /a/b.html?x HTTP/1.1"), Some("/d/a/b.html".into()));
        for refused in ["GET /../a HTTP/1.1", "GET //etc/passwd HTTP/1.1", "POST / HTTP/1.1", ""] {
            assert_eq!(page(refused), None, "{refused}");
        }
    }
}
