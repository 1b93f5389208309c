//! Panic messages.

use std::any::Any;

/// Returns the message of a caught panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_panic_is_returned() {
        let bombs: [(fn(), &str); 3] = [
            (|| panic!("boom"), "boom"),
            (|| panic!("boom {}", std::hint::black_box(1)), "boom 1"),
            (|| std::panic::panic_any(7), "no message"),
        ];
        for (bomb, said) in bombs {
            assert_eq!(message(std::panic::catch_unwind(bomb).unwrap_err().as_ref()), said);
        }
    }
}
