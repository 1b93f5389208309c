//! Header blocks: names and values, compressed by zlib with a dictionary that both sides know.
//!
//! All blocks of a connection are one zlib stream in each direction. The server compresses without the dictionary,
//! which is allowed, and sufficient for the few names that it sends.

use flate2::{Compress, Compression, FlushCompress};
use miniz_oxide::inflate::{
    TINFLStatus,
    core::{DecompressorOxide, decompress, inflate_flags::TINFL_FLAG_HAS_MORE_INPUT},
};

use super::SpdyError;

/// Names and values. A name occurs once, with several values separated by NUL bytes.
pub(crate) type Headers = Vec<(String, String)>;

/// The reach of references in a compressed stream, and so the amount of history to keep.
const WINDOW: usize = 32 << 10;
/// The largest accepted block, decompressed.
const BLOCK_MAX: usize = 64 << 10;

/// The words at the beginning of the dictionary, each preceded by its length.
const WORDS: &[&str] = &[
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];

/// The rest of the dictionary.
const REST: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
    203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden\
    404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug \
    Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,\
    application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8\
    charset=iso-8859-1,utf-,*,enq=0.";

/// Returns the dictionary of SPDY/3.
pub(crate) fn dictionary() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1423);
    for word in WORDS {
        bytes.extend_from_slice(&(word.len() as u32).to_be_bytes());
        bytes.extend_from_slice(word.as_bytes());
    }
    bytes.extend_from_slice(REST.as_bytes());
    bytes
}

/// Decompresses the blocks of a connection, in their order.
pub(crate) struct Reader {
    inflate: Box<DecompressorOxide>,
    /// The last bytes of the stream, as a ring buffer.
    window: Box<[u8]>,
    at: usize,
    /// The bytes received so far of the stream's preamble: two of zlib, four of the dictionary's checksum.
    preamble: Vec<u8>,
    begun: bool,
}

impl Reader {
    pub(crate) fn new() -> Self {
        let mut window = vec![0; WINDOW].into_boxed_slice();
        let dictionary = dictionary();
        window[..dictionary.len()].copy_from_slice(&dictionary);
        let at = dictionary.len();
        Self { inflate: Box::default(), window, at, preamble: Vec::new(), begun: false }
    }

    /// Returns the headers of the next block.
    pub(crate) fn read(&mut self, block: &[u8]) -> Result<Headers, SpdyError> {
        let block = self.after_preamble(block)?;
        let plain = self.inflate(block)?;
        parse(&plain).ok_or(SpdyError::Headers)
    }

    /// Returns the block without the preamble of the zlib stream. A stream that names no dictionary uses none.
    fn after_preamble<'a>(&mut self, mut block: &'a [u8]) -> Result<&'a [u8], SpdyError> {
        while !self.begun {
            let Some((&byte, rest)) = block.split_first() else { return Ok(block) };
            self.preamble.push(byte);
            block = rest;
            if let [method, flags, sum @ ..] = &*self.preamble {
                let valid = method & 0x0f == 8 && (u16::from(*method) << 8 | u16::from(*flags)) % 31 == 0;
                if !valid {
                    return Err(SpdyError::Headers);
                }
                self.begun = flags & 0x20 == 0 || sum.len() == 4;
            }
        }
        Ok(block)
    }

    fn inflate(&mut self, mut block: &[u8]) -> Result<Vec<u8>, SpdyError> {
        let mut plain = Vec::new();
        loop {
            let (status, read, written) =
                decompress(&mut self.inflate, block, &mut self.window, self.at, TINFL_FLAG_HAS_MORE_INPUT);
            plain.extend_from_slice(&self.window[self.at..self.at + written]);
            if plain.len() > BLOCK_MAX {
                return Err(SpdyError::Headers);
            }
            self.at = (self.at + written) % WINDOW;
            block = &block[read..];
            match status {
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput | TINFLStatus::Done => return Ok(plain),
                _ => return Err(SpdyError::Headers),
            }
        }
    }
}

/// Compresses the blocks of a connection.
pub(crate) struct Writer(Compress);

impl Writer {
    pub(crate) fn new() -> Self {
        Self(Compress::new(Compression::fast(), true))
    }

    pub(crate) fn write(&mut self, headers: &Headers) -> Vec<u8> {
        let mut plain = (headers.len() as u32).to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend_from_slice(&(text.len() as u32).to_be_bytes());
            plain.extend_from_slice(text.as_bytes());
        }
        // More than enough for an incompressible block and its flush.
        let mut out = Vec::with_capacity(plain.len() * 2 + 128);
        let done = self.0.compress_vec(&plain, &mut out, FlushCompress::Sync);
        done.expect("compression into a large buffer must succeed");
        out
    }
}

/// Parses the pairs of a block; returns `None` if it is malformed.
fn parse(block: &[u8]) -> Option<Headers> {
    let (count, mut rest) = length(block)?;
    let mut headers = Headers::new();
    let mut text = || {
        let (length, after) = length(rest)?;
        let (text, after) = after.split_at_checked(length)?;
        rest = after;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    for _ in 0..count {
        headers.push((text()?.to_ascii_lowercase(), text()?));
    }
    rest.is_empty().then_some(headers)
}

fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*length) as usize, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers() -> impl Strategy<Value = Headers> {
        proptest::collection::vec(("[a-z-]{1,20}", "[ -~]{0,200}"), 0..20)
    }

    #[test]
    fn the_dictionary_is_that_of_the_specification() {
        let dictionary = dictionary();
        assert_eq!(dictionary.len(), 1423);
        // The Adler-32 checksum by which streams name the dictionary.
        let (a, b) = dictionary.iter().fold((1u32, 0u32), |(a, b), byte| {
            let a = (a + u32::from(*byte)) % 65521;
            (a, (b + a) % 65521)
        });
        assert_eq!(b << 16 | a, 0xe3c6_a7c2);
    }

    #[test]
    fn a_block_that_refers_to_the_dictionary_is_read() {
        // The bytes that Go's spdystream sends for `streamtype: error`, `port: 8080`, `requestid: 0`.
        let block = &[
            0x78, 0xf9, 0xe3, 0xc6, 0xa7, 0xc2, 0x02, 0x25, 0x3a, 0x48, 0xf9, 0x5b, 0x04, 0x4e, 0xea, 0x16, 0x06, 0x16,
            0x06, 0x0c, 0x0c, 0x0c, 0x9c, 0x45, 0x90, 0xf8, 0xca, 0x04, 0xa5, 0x63, 0x46, 0x03, 0x70, 0x4a, 0x2c, 0x29,
            0x4a, 0x4d, 0xcc, 0x85, 0x16, 0x36, 0xac, 0xa9, 0xa0, 0xa8, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff,
        ];
        let read = Reader::new().read(block).unwrap();
        let expected = [("port", "8080"), ("requestid", "0"), ("streamtype", "error")];
        let mut read: Vec<_> = read.iter().map(|(name, value)| (&**name, &**value)).collect();
        read.sort_unstable();
        assert_eq!(read, expected);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again_block_by_block(blocks in proptest::collection::vec(headers(), 0..30)) {
            let (mut writer, mut reader) = (Writer::new(), Reader::new());
            for block in blocks {
                prop_assert_eq!(reader.read(&writer.write(&block)).unwrap(), block);
            }
        }

        #[test]
        fn no_block_panics(
            blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..4),
            zlib in any::<bool>(),
        ) {
            let mut reader = Reader::new();
            for (index, mut block) in blocks.into_iter().enumerate() {
                if zlib && index == 0 {
                    block.splice(0..0, [0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2]);
                }
                let _ = reader.read(&block);
            }
        }

        #[test]
        fn no_pairs_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&bytes);
        }
    }
}
