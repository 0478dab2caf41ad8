//! The fast reader of `hstore` beside a slow one that follows the extension's grammar byte by byte.

use proptest::prelude::*;
use walrow_testkit::strategy::near;

use super::*;

type Pairs = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn reference(cell: &[u8]) -> Option<Pairs> {
    fn quoted(bytes: &mut impl Iterator<Item = u8>) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        loop {
            match bytes.next()? {
                b'"' => return Some(text),
                b'\\' => text.push(bytes.next()?),
                byte => text.push(byte),
            }
        }
    }
    fn word(bytes: &mut impl Iterator<Item = u8>, expected: &[u8]) -> Option<()> {
        let mut expected = expected.iter();
        expected
            .all(|byte| bytes.next() == Some(*byte))
            .then_some(())
    }
    let mut pairs = Pairs::new();
    let mut bytes = cell.iter().copied().peekable();
    while bytes.peek().is_some() {
        if !pairs.is_empty() {
            word(&mut bytes, b", ")?;
        }
        word(&mut bytes, b"\"")?;
        let key = quoted(&mut bytes)?;
        word(&mut bytes, b"=>")?;
        let value = if bytes.next_if_eq(&b'"').is_some() {
            Some(quoted(&mut bytes)?)
        } else {
            word(&mut bytes, b"NULL")?;
            None
        };
        pairs.push((key, value));
    }
    Some(pairs)
}

fn fast(cell: &[u8]) -> Option<Pairs> {
    let mut pairs = Pairs::new();
    let read = hstore_from_text(cell, &mut b"left over".to_vec(), |key, value| {
        pairs.push((key.to_vec(), value.map(<[u8]>::to_vec)));
        Ok(())
    });
    assert!(read.is_err() || read == Ok(pairs.len()));
    read.ok().map(|_| pairs)
}

/// The text that `hstore_out` writes: everything except NULL in quotes, with a backslash before quotes and backslashes.
fn written(pairs: &Pairs) -> Vec<u8> {
    fn quoted(text: &[u8], out: &mut Vec<u8>) {
        out.push(b'"');
        for byte in text {
            if b"\"\\".contains(byte) {
                out.push(b'\\');
            }
            out.push(*byte);
        }
        out.push(b'"');
    }
    let mut out = Vec::new();
    for (key, value) in pairs {
        if !out.is_empty() {
            out.extend_from_slice(b", ");
        }
        quoted(key, &mut out);
        out.extend_from_slice(b"=>");
        match value {
            Some(value) => quoted(value, &mut out),
            None => out.extend_from_slice(b"NULL"),
        }
    }
    out
}

fn pairs() -> impl Strategy<Value = Pairs> {
    let special = prop::sample::select(&b"aNUL=>\",\\ \t\xc3"[..]);
    let text = proptest::collection::vec(special, 0..5);
    proptest::collection::vec((text.clone(), proptest::option::of(text)), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_hstore_is_read_as_the_grammar_says(
        cell in near(pairs().prop_map(|pairs| written(&pairs)), b"aNUL=>\", \\"),
    ) {
        prop_assert_eq!(fast(&cell), reference(&cell));
    }

    #[test]
    fn text_of_the_extension_is_read(pairs in pairs()) {
        prop_assert_eq!(fast(&written(&pairs)), Some(pairs));
    }
}
