//! `uuid`: “UUID Type”.
//!
//! ```text
//! text    a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11
//! binary  16 bytes
//! ```

use crate::bytea::{hex_from_byte, sixteen_from_hex};
use crate::error::CellError;
use crate::pg_type::{PgType, known, scalar, text_from_binary};

/// `uuid`.
#[derive(Clone, Copy, Debug)]
pub struct Uuid;

known!(Uuid: UUID;);
scalar!(Uuid => [u8; 16]: uuid_from_text, uuid_from_binary);

impl PgType for Uuid {
    text_from_binary!(|cell, out: &mut Vec<u8>| {
        out.extend_from_slice(&uuid_to_text(uuid_from_binary(cell)?));
        Ok(())
    });
}

/// Parses the text of a `uuid`.
#[inline]
fn uuid_from_text(cell: &[u8]) -> Result<[u8; 16], CellError> {
    digits(cell)
        .and_then(|digits| {
            let mut bytes = [0; 16];
            sixteen_from_hex(&digits, &mut bytes).then_some(bytes)
        })
        .ok_or(CellError::Malformed("8-4-4-4-12 hexadecimal digits"))
}

/// Parses the binary form of a `uuid`.
#[inline]
fn uuid_from_binary(cell: &[u8]) -> Result<[u8; 16], CellError> {
    cell.try_into()
        .map_err(|_| CellError::Malformed("16 bytes"))
}

/// Writes a `uuid` as the server does, in lower case.
#[inline]
fn uuid_to_text(uuid: [u8; 16]) -> [u8; 36] {
    let mut digits = [0; 32];
    for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(uuid) {
        *pair = hex_from_byte(byte);
    }
    let mut text = [b'-'; 36];
    let (head, last) = text.split_at_mut(24);
    let (first, middle) = head.split_at_mut(8);
    let (first_digits, rest) = digits.split_at(8);
    let (middle_digits, last_digits) = rest.split_at(12);
    first.copy_from_slice(first_digits);
    last.copy_from_slice(last_digits);
    let groups = middle_digits.as_chunks::<4>().0;
    for ([_, place @ ..], group) in middle.as_chunks_mut::<5>().0.iter_mut().zip(groups) {
        *place = *group;
    }
    text
}

/// The digits without the hyphens between them.
#[inline]
fn digits(cell: &[u8]) -> Option<[u8; 32]> {
    let (first, rest) = cell.split_first_chunk::<8>()?;
    let (middle, last) = rest.split_first_chunk::<15>()?;
    let [b'-', last @ ..] = last.first_chunk::<13>().filter(|_| cell.len() == 36)? else {
        return None;
    };
    let mut digits = [0; 32];
    let (head, tail) = digits.split_at_mut(20);
    tail.copy_from_slice(last);
    let (head, places) = head.split_at_mut(8);
    head.copy_from_slice(first);
    let places = places.as_chunks_mut::<4>().0.iter_mut();
    for (place, group) in places.zip(middle.as_chunks::<5>().0) {
        let [b'-', group @ ..] = group else {
            return None;
        };
        *place = *group;
    }
    Some(digits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &[u8; 36] = b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    const BYTES: [u8; 16] = [
        0xa0, 0xee, 0xbc, 0x99, 0x9c, 0x0b, 0x4e, 0xf8, 0xbb, 0x6d, 0x6b, 0xb9, 0xbd, 0x38, 0x0a,
        0x11,
    ];

    #[test]
    fn text_and_binary_name_the_same_bytes() {
        assert_eq!(uuid_from_text(TEXT), Ok(BYTES));
        assert_eq!(uuid_from_text(&TEXT.to_ascii_uppercase()), Ok(BYTES));
        assert_eq!(uuid_from_binary(&BYTES), Ok(BYTES));
        assert_eq!(&uuid_to_text(BYTES), TEXT);
        assert_eq!(
            uuid_from_text(b"00000000-0000-0000-0000-000000000000"),
            Ok([0; 16])
        );
        assert_eq!(
            uuid_from_text(b"ffffffff-ffff-ffff-ffff-ffffffffffff"),
            Ok([255; 16])
        );
    }

    #[test]
    fn other_shapes_are_refused() {
        for wrong in [
            "",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111",
            "a0eebc999-c0b-4ef8-bb6d-6bb9bd380a11",
        ] {
            assert!(uuid_from_text(wrong.as_bytes()).is_err(), "{wrong}");
        }
        for place in 0..36 {
            for byte in 0..=u8::MAX {
                let mut cell = *TEXT;
                cell[place] = byte;
                let expected = if TEXT[place] == b'-' {
                    byte == b'-'
                } else {
                    byte.is_ascii_hexdigit()
                };
                assert_eq!(uuid_from_text(&cell).is_ok(), expected, "{byte} at {place}");
            }
        }
        assert!(uuid_from_binary(&[0; 15]).is_err());
        assert!(uuid_from_binary(&[0; 17]).is_err());
    }

    proptest! {
        #[test]
        fn written_text_is_read_as_the_same_bytes(bytes: [u8; 16]) {
            let text = uuid_to_text(bytes);
            let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let groups = [&hex[..4], &hex[4..6], &hex[6..8], &hex[8..10], &hex[10..]];
            let expected = groups.map(<[String]>::concat).join("-");
            prop_assert_eq!(String::from_utf8(text.to_vec()).unwrap(), expected);
            prop_assert_eq!(uuid_from_text(&text), Ok(bytes));
        }

        #[test]
        fn text_is_that_of_the_uuid_crate(bytes: [u8; 16]) {
            let other = uuid::Uuid::from_bytes(bytes).hyphenated().to_string();
            prop_assert_eq!(uuid_from_text(other.as_bytes()), Ok(bytes));
            prop_assert_eq!(&uuid_to_text(bytes)[..], other.as_bytes());
        }

        #[test]
        fn arbitrary_bytes_never_panic(cell in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (uuid_from_text(&cell), uuid_from_binary(&cell));
        }
    }
}
