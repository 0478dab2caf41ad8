//! Bytes as hexadecimal digits.

/// The bytes of hexadecimal digits. Blanks are ignored.
///
/// # Panics
/// If the text contains anything else, or an odd number of digits.
#[must_use]
pub fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits
        .chars()
        .filter(|digit| !digit.is_whitespace())
        .map(|digit| u8::try_from(digit.to_digit(16).expect("a hex digit")).expect("4 bits"))
        .collect();
    let (pairs, half) = digits.as_chunks::<2>();
    assert!(half.is_empty(), "half a byte is left");
    pairs.iter().map(|[high, low]| high << 4 | low).collect()
}
