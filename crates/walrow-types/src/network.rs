//! `inet`, `cidr`, `macaddr` and `macaddr8`: “Network Address Types”.
//!
//! ```text
//! text    192.168.0.1/24, 2001:db8::1, ::ffff:1.2.3.4      inet leaves out /32 and /128, cidr does not
//! binary  u8 family, 2 or 3 | u8 bits | u8 is cidr | u8 length, 4 or 16 | address
//! text    08:00:2b:01:02:03
//! binary  6 or 8 bytes
//! ```

use crate::bytea::hex_from_byte;
use crate::digits::write_decimal;
use crate::error::CellError;
use crate::pg_type::{PgType, known, text_from_binary};

/// `inet`.
#[derive(Clone, Copy, Debug)]
pub struct Inet;

/// `cidr`.
#[derive(Clone, Copy, Debug)]
pub struct Cidr;

/// `macaddr`.
#[derive(Clone, Copy, Debug)]
pub struct Macaddr;

/// `macaddr8`.
#[derive(Clone, Copy, Debug)]
pub struct Macaddr8;

known!(Inet: INET;);
known!(Cidr: CIDR;);
known!(Macaddr: MACADDR;);
known!(Macaddr8: MACADDR8;);

impl PgType for Inet {
    text_from_binary!(|cell, out| network_text_from_binary(cell, false, out));
}

impl PgType for Cidr {
    text_from_binary!(|cell, out| network_text_from_binary(cell, true, out));
}

impl PgType for Macaddr {
    text_from_binary!(|cell, out| mac_text_from_binary(cell, MacSize::Six, out));
}

impl PgType for Macaddr8 {
    text_from_binary!(|cell, out| mac_text_from_binary(cell, MacSize::Eight, out));
}

/// Appends the text of a binary `inet`, or of a `cidr`.
fn network_text_from_binary(
    cell: &[u8],
    is_cidr: bool,
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    let [family, bits, flag, length, address @ ..] = cell else {
        return Err(NOT_A_NETWORK);
    };
    if *flag != u8::from(is_cidr) || usize::from(*length) != address.len() {
        return Err(NOT_A_NETWORK);
    }
    let most = if let (2, Ok(address)) = (*family, <[u8; 4]>::try_from(address)) {
        write_v4(address, out);
        32
    } else if let (3, Ok(address)) = (*family, <[u8; 16]>::try_from(address)) {
        write_v6(address, out);
        128
    } else {
        return Err(NOT_A_NETWORK);
    };
    if *bits > most {
        return Err(NOT_A_NETWORK);
    }
    if is_cidr || *bits < most {
        out.push(b'/');
        write_decimal(*bits, out);
    }
    Ok(())
}

/// Appends the text of a binary `macaddr` or `macaddr8`.
fn mac_text_from_binary(cell: &[u8], size: MacSize, out: &mut Vec<u8>) -> Result<(), CellError> {
    let (length, expected) = match size {
        MacSize::Six => (6, CellError::Malformed("6 bytes")),
        MacSize::Eight => (8, CellError::Malformed("8 bytes")),
    };
    if cell.len() != length {
        return Err(expected);
    }
    for (place, byte) in cell.iter().enumerate() {
        if place > 0 {
            out.push(b':');
        }
        out.extend_from_slice(&hex_from_byte(*byte));
    }
    Ok(())
}

/// The number of bytes of a MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MacSize {
    Six,
    Eight,
}

fn write_v4(address: [u8; 4], out: &mut Vec<u8>) {
    for (place, byte) in address.into_iter().enumerate() {
        if place > 0 {
            out.push(b'.');
        }
        write_decimal(byte, out);
    }
}

/// The longest run of two or more zero words, or the first of several such runs, becomes `::`. After 96 bits that are
/// zeros, or zeros and `ffff`, the rest is written like an address of version 4.
fn write_v6(address: [u8; 16], out: &mut Vec<u8>) {
    let (words, _) = address.as_chunks::<2>();
    let mut longest = (0, 0);
    let mut zeros = 0_usize;
    for (place, word) in words.iter().enumerate() {
        zeros = if *word == [0, 0] {
            zeros.saturating_add(1)
        } else {
            0
        };
        if zeros > longest.1 {
            longest = (place.saturating_add(1).saturating_sub(zeros), zeros);
        }
    }
    let (start, length) = longest;
    let end = start.saturating_add(length);
    let skips = length > 1;
    let [.., a, b, c, d] = address;
    let in_v4 =
        skips && start == 0 && (length == 6 || (length == 5 && words.get(5) == Some(&[0xff; 2])));
    for (place, word) in words.iter().enumerate() {
        if skips && (start..end).contains(&place) {
            if place == start {
                out.push(b':');
            }
            continue;
        }
        if place > 0 {
            out.push(b':');
        }
        if in_v4 && place == 6 {
            write_v4([a, b, c, d], out);
            return;
        }
        let hex = word.map(hex_from_byte);
        let digits = hex.as_flattened();
        let zeros = digits.iter().take(3).take_while(|digit| **digit == b'0');
        out.extend_from_slice(digits.get(zeros.count()..).unwrap_or_default());
    }
    if skips && end == words.len() {
        out.push(b':');
    }
}

const NOT_A_NETWORK: CellError = CellError::Malformed("family, bits, kind, length and address");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn network(cell: &[u8], is_cidr: bool) -> Result<String, CellError> {
        let mut out = Vec::new();
        network_text_from_binary(cell, is_cidr, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    fn v6(words: [u16; 8], bits: u8) -> Vec<u8> {
        let mut cell = vec![3, bits, 0, 16];
        cell.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        cell
    }

    #[test]
    fn networks_are_written_as_the_server_writes_them() {
        for (text, bits, address) in [
            ("1.2.3.4", 32, [1, 2, 3, 4]),
            ("1.2.3.4/24", 24, [1, 2, 3, 4]),
            ("0.0.0.0/0", 0, [0; 4]),
            ("255.255.255.255", 32, [255; 4]),
        ] {
            let mut cell = vec![2, bits, 0, 4];
            cell.extend_from_slice(&address);
            assert_eq!(network(&cell, false).as_deref(), Ok(text));
        }
        for (text, bits, address) in [
            ("10.0.0.0/8", 8, [10, 0, 0, 0]),
            ("10.1.2.3/32", 32, [10, 1, 2, 3]),
        ] {
            let mut cell = vec![2, bits, 1, 4];
            cell.extend_from_slice(&address);
            assert_eq!(network(&cell, true).as_deref(), Ok(text));
            assert!(network(&cell, false).is_err());
        }
        for (text, bits, words) in [
            ("::", 128, [0; 8]),
            ("::/0", 0, [0; 8]),
            ("::1", 128, [0, 0, 0, 0, 0, 0, 0, 1]),
            ("::0.1.0.2", 128, [0, 0, 0, 0, 0, 0, 1, 2]),
            ("::1.2.3.4", 128, [0, 0, 0, 0, 0, 0, 0x102, 0x304]),
            (
                "::ffff:1.2.3.4/96",
                96,
                [0, 0, 0, 0, 0, 0xffff, 0x102, 0x304],
            ),
            ("::ffff:0.0.0.0", 128, [0, 0, 0, 0, 0, 0xffff, 0, 0]),
            ("::5:0:0", 128, [0, 0, 0, 0, 0, 5, 0, 0]),
            ("2001:db8::1/64", 64, [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]),
            ("2001:0:0:1::", 128, [0x2001, 0, 0, 1, 0, 0, 0, 0]),
            ("2001:0:0:1::1", 128, [0x2001, 0, 0, 1, 0, 0, 0, 1]),
            ("1:2:3:4:5:6:7:8", 128, [1, 2, 3, 4, 5, 6, 7, 8]),
            ("1:0:3:4:5:6:7:8", 128, [1, 0, 3, 4, 5, 6, 7, 8]),
            ("1:2:3:4:5:6::", 128, [1, 2, 3, 4, 5, 6, 0, 0]),
            ("::3:4:5:6:7:8", 128, [0, 0, 3, 4, 5, 6, 7, 8]),
            ("fe80::a:0:0:1", 128, [0xfe80, 0, 0, 0, 0xa, 0, 0, 1]),
        ] {
            assert_eq!(network(&v6(words, bits), false).as_deref(), Ok(text));
        }
    }

    #[test]
    fn other_networks_are_refused() {
        for wrong in [
            &[][..],
            &[2, 32, 0],
            &[2, 33, 0, 4, 1, 2, 3, 4],
            &[2, 32, 2, 4, 1, 2, 3, 4],
            &[2, 32, 0, 4, 1, 2, 3],
            &[2, 32, 0, 4, 1, 2, 3, 4, 5],
            &[3, 32, 0, 4, 1, 2, 3, 4],
            &[1, 32, 0, 4, 1, 2, 3, 4],
            &[10, 32, 0, 4, 1, 2, 3, 4],
            &[
                3, 129, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ],
        ] {
            assert!(network(wrong, false).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn mac_addresses_are_pairs_of_digits() {
        let mut out = Vec::new();
        mac_text_from_binary(&[8, 0, 0x2b, 1, 2, 255], MacSize::Six, &mut out).unwrap();
        assert_eq!(out, b"08:00:2b:01:02:ff");
        out.clear();
        mac_text_from_binary(&[8, 0, 0x2b, 1, 2, 3, 4, 5], MacSize::Eight, &mut out).unwrap();
        assert_eq!(out, b"08:00:2b:01:02:03:04:05");
        assert!(mac_text_from_binary(&[0; 8], MacSize::Six, &mut out).is_err());
        assert!(mac_text_from_binary(&[0; 6], MacSize::Eight, &mut out).is_err());
    }

    proptest! {
        #[test]
        fn standard_readers_read_the_text_back(address: [u8; 16], zeros in 0..=8_usize, at in 0..8_usize) {
            let mut words = address;
            for word in words.as_chunks_mut::<2>().0.iter_mut().skip(at).take(zeros) {
                *word = [0; 2];
            }
            let mut cell = vec![3, 128, 0, 16];
            cell.extend_from_slice(&words);
            let text = network(&cell, false).unwrap();
            let parsed: std::net::Ipv6Addr = text.parse().unwrap();
            prop_assert_eq!(parsed.octets(), words);
        }

        #[test]
        fn arbitrary_bytes_never_panic(cell in proptest::collection::vec(any::<u8>(), 0..30), is_cidr: bool) {
            let _ = network(&cell, is_cidr);
            let _ = mac_text_from_binary(&cell, MacSize::Six, &mut Vec::new());
        }
    }
}
