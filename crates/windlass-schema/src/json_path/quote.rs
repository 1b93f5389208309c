//! Go's string escapes.

/// Returns the text between quotes with its escapes resolved; `None` if one is invalid or an unescaped quote remains.
pub(super) fn unquote(text: &str, quote: char) -> Option<String> {
    if !text.contains(['\\', quote]) {
        return Some(text.to_owned());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == quote {
            return None;
        }
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = chars.next()?;
        let byte = match escape {
            'a' => 0x07,
            'b' => 0x08,
            'f' => 0x0c,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 0x0b,
            '\\' => b'\\',
            '\'' | '"' if escape == quote => escape as u8,
            'x' => u8::try_from(digits(&mut chars, 2, 16, 0)?).ok()?,
            '0'..='7' => u8::try_from(digits(&mut chars, 2, 8, escape.to_digit(8)?)?).ok()?,
            'u' | 'U' => {
                let code = digits(&mut chars, if escape == 'u' { 4 } else { 8 }, 16, 0)?;
                out.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        };
        out.push(byte);
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

fn digits(chars: &mut std::str::Chars<'_>, count: usize, radix: u32, first: u32) -> Option<u32> {
    (0..count).try_fold(first, |number, _| number.checked_mul(radix)?.checked_add(chars.next()?.to_digit(radix)?))
}
