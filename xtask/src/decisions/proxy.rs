//! A server without TLS in front of a cluster: `kubectl proxy`, and HTTP/1.1 connections to it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// A running `kubectl proxy`, which ends with this value.
pub(super) struct Proxy {
    process: Child,
    address: String,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Proxy {
    /// Starts kubectl with these flags.
    pub(super) fn start(kubectl: &Path, flags: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(kubectl);
        command.args(["proxy", "--port=0", "--disable-filter"]).args(flags).stdout(Stdio::piped());
        let mut process = command.spawn().context("cannot run kubectl")?;
        let output = process.stdout.take().context("kubectl has no output")?;
        let mut proxy = Self { process, address: String::new() };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().rsplit(' ').next().filter(|address| address.contains(':'));
        proxy.address = address.with_context(|| format!("kubectl proxy did not start: {line}"))?.to_owned();
        Ok(proxy)
    }

    pub(super) fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(&self.address).context("failed to connect to kubectl proxy")?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::new(stream) })
    }
}

/// A connection that carries one request after the other.
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Returns a document.
    pub(super) fn get(&mut self, path: &str, accept: &str) -> anyhow::Result<Value> {
        let (code, body) = self.send("GET", path, &[("Accept", accept)], None)?;
        ensure!(code == 200, "GET {path}: {code} {body}");
        serde_json::from_str(&body).with_context(|| format!("failed to read {path}"))
    }

    /// Sends a request and returns the status and the body of the response. A PATCH is a merge.
    pub(super) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> anyhow::Result<(u16, String)> {
        let media_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers.iter().chain(&[("Content-Type", media_type)]) {
            request += &format!("{name}: {value}\r\n");
        }
        self.stream.get_mut().write_all(format!("{request}\r\n{body}").as_bytes())?;
        self.receive(method).with_context(|| format!("{method} {path}"))
    }

    fn receive(&mut self, method: &str) -> anyhow::Result<(u16, String)> {
        let status = self.line()?;
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.with_context(|| format!("unexpected response {status:?}"))?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':') {
                None => break,
                Some(("content-length", value)) => length = value.trim().parse()?,
                Some(("transfer-encoding", value)) => chunked = value.trim() == "chunked",
                Some(_) => {}
            }
        }
        let mut body = Vec::new();
        if method == "HEAD" {
            // It has the length of a body that is not sent.
        } else if chunked {
            loop {
                let size = usize::from_str_radix(&self.line()?, 16)?;
                self.read(size, &mut body)?;
                self.line()?;
                if size == 0 {
                    break;
                }
            }
        } else {
            self.read(length, &mut body)?;
        }
        Ok((code, String::from_utf8(body)?))
    }

    fn read(&mut self, size: usize, body: &mut Vec<u8>) -> anyhow::Result<()> {
        let begin = body.len();
        body.resize(begin + size, 0);
        Ok(self.stream.read_exact(&mut body[begin..])?)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.stream.read_line(&mut line)? > 0, "the connection was closed");
        Ok(line.trim_end().to_owned())
    }
}
