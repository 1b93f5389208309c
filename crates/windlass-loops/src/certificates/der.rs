//! The parts of DER that certificates need. Pure.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;

/// Encodes a value with its tag and length.
pub(super) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut encoded = vec![tag];
    match u8::try_from(content.len()) {
        Ok(length) if length < 0x80 => encoded.push(length),
        _ => {
            let length = content.len().to_be_bytes();
            let length: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
            encoded.push(0x80 | length.len() as u8);
            encoded.extend(length);
        }
    }
    encoded.extend(content);
    encoded
}

/// Encodes a sequence of encoded parts.
pub(super) fn sequence<Part: AsRef<[u8]>>(parts: &[Part]) -> Vec<u8> {
    let content: Vec<u8> = parts.iter().flat_map(|part| part.as_ref().iter().copied()).collect();
    tagged(0x30, &content)
}

/// Encodes a non-negative integer.
pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    let mut content: Vec<u8> = bytes.iter().copied().skip_while(|byte| *byte == 0).collect();
    if content.first().is_none_or(|first| *first >= 0x80) {
        content.insert(0, 0);
    }
    tagged(0x02, &content)
}

/// Encodes a bit string; `unused` is the number of unused bits in the last byte.
pub(super) fn bit_string(bytes: &[u8], unused: u8) -> Vec<u8> {
    let mut content = vec![unused];
    content.extend(bytes);
    tagged(0x03, &content)
}

/// Encodes named bits, the first being the highest, without trailing zero bits.
pub(super) fn named_bits(bits: u16) -> Vec<u8> {
    let mut bytes = bits.to_be_bytes().to_vec();
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    let unused = bytes.last().map_or(0, |last| last.trailing_zeros() as u8);
    bit_string(&bytes, unused)
}

/// Encodes a time in seconds: UTCTime with a two-digit year through 2049, GeneralizedTime afterwards.
pub(super) fn time(time: Timestamp) -> Vec<u8> {
    let year = time.to_zoned(jiff::tz::TimeZone::UTC).year();
    if (1950..2050).contains(&year) {
        tagged(0x17, time.strftime("%y%m%d%H%M%SZ").to_string().as_bytes())
    } else {
        tagged(0x18, time.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes())
    }
}

/// Encodes an extension of a certificate.
pub(super) fn extension(oid: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let mut parts = vec![tagged(0x06, oid)];
    if critical {
        parts.push(tagged(0x01, &[0xff]));
    }
    parts.push(tagged(0x04, value));
    sequence(&parts)
}

/// Encodes DER as PEM.
pub(super) fn pem(label: &str, encoded: &[u8]) -> String {
    let text = STANDARD.encode(encoded);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_in_der() {
        assert_eq!(integer(&[0, 0, 0x7f]), [2, 1, 0x7f]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[]), [2, 1, 0]);
        assert_eq!(named_bits(0xa000), [3, 2, 5, 0xa0]);
        assert_eq!(named_bits(0x0080), [3, 3, 7, 0, 0x80]);
        assert_eq!(tagged(4, &[1; 200])[..3], [4, 0x81, 200]);
        assert_eq!(tagged(4, &[1; 300])[..4], [4, 0x82, 1, 44]);
        assert_eq!(time("2026-01-02T03:04:05Z".parse().unwrap())[2..], *b"260102030405Z");
        assert_eq!(time("2050-01-02T03:04:05Z".parse().unwrap())[2..], *b"20500102030405Z");
        let text = pem("X", &[0; 50]);
        assert_eq!(text.lines().map(str::len).collect::<Vec<_>>(), [17, 64, 4, 15]);
    }
}
