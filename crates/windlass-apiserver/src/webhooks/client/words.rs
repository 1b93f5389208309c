//! The errors of a call worded as in client-go.

use std::{error::Error, io};

use http::{HeaderMap, header};
use rustls::CertificateError;

use super::dial::DialError;

/// The number of characters of an error that are shown.
const SHOWN: usize = 2048;

/// Returns the reason for a failed connection.
pub(crate) fn of(error: &(dyn Error + 'static)) -> String {
    let mut at = Some(error);
    let mut last = String::new();
    while let Some(error) = at {
        if let Some(dial) = error.downcast_ref::<DialError>() {
            return dial.to_string();
        }
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return of_tls(tls);
        }
        if let Some(io) = error.downcast_ref::<io::Error>() {
            // The error that an io::Error wraps is not its source, but the source of that error is.
            if let Some(inner) = io.get_ref() {
                let inner: &(dyn Error + 'static) = inner;
                at = Some(inner);
                continue;
            }
            match io.kind() {
                io::ErrorKind::UnexpectedEof => return "EOF".to_owned(),
                io::ErrorKind::ConnectionReset => return "read: connection reset by peer".to_owned(),
                _ => {}
            }
        }
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message) {
            return "EOF".to_owned();
        }
        last = error.to_string();
        at = error.source();
    }
    last
}

fn of_tls(error: &rustls::Error) -> String {
    let unverified = |why: &str| format!("tls: failed to verify certificate: x509: {why}");
    match error {
        // The second is a bundle with another authority of the same name.
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            unverified("certificate signed by unknown authority")
        }
        rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { expected, presented }) => {
            let names: Vec<&str> = presented.iter().map(|name| name_of(name)).collect();
            let expected = expected.to_str();
            match names.as_slice() {
                [] => unverified(&format!("certificate is not valid for any names, but wanted to match {expected}")),
                names => unverified(&format!("certificate is valid for {}, not {expected}", names.join(", "))),
            }
        }
        rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => unverified("certificate has expired or is not yet valid"),
        rustls::Error::InvalidMessage(_) => "http: server gave HTTP response to HTTPS client".to_owned(),
        other => format!("tls: {other}"),
    }
}

/// Returns the name in webpki's `DnsName("example.com")`.
fn name_of(presented: &str) -> &str {
    presented.split('"').nth(1).unwrap_or(presented)
}

/// Returns the error for a status code that is not a success.
pub(super) fn of_status(code: u16, headers: &HeaderMap, body: &[u8]) -> String {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_text = content_type.is_empty() || content_type.starts_with("text/");
    let said = match is_text {
        true => String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).trim().to_owned(),
        false => "unknown".to_owned(),
    };
    let fixed = match code {
        409 => "the server reported a conflict",
        404 => "the server could not find the requested resource",
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => return said,
        406 if said.is_empty() || said == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
        }
        406 => return said,
        405 => "the server does not allow this method on the requested resource",
        422 => "the server rejected our request due to an error in our request",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        429 => "the server has received too many requests and has asked us to try again later",
        500.. => return format!("an error on the server ({said:?}) has prevented the request from succeeding"),
        _ => {
            return format!("the server responded with the status code {code} but did not return more information");
        }
    };
    fixed.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_the_text_of_client_go() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        let failed = "an error on the server (\"unknown\") has prevented the request from succeeding";
        assert_eq!(of_status(500, &headers, b"{}"), failed);
        assert_eq!(of_status(403, &headers, b"{}"), "unknown");
        assert_eq!(of_status(403, &HeaderMap::new(), b" go away\n"), "go away");
        assert_eq!(of_status(404, &headers, b""), "the server could not find the requested resource");
        let other = "the server responded with the status code 302 but did not return more information";
        assert_eq!(of_status(302, &headers, b""), other);
    }
}
