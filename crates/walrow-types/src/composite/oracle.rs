//! The fast reader beside a slow one that follows the server's grammar byte by byte.

use proptest::prelude::*;
use walrow_testkit::strategy::near;

use super::*;

type Fields = Vec<Option<Vec<u8>>>;

/// Any number of fields; `None` if the text is not that of a composite value.
fn reference(cell: &[u8]) -> Option<Fields> {
    let mut bytes = cell.iter().copied().peekable();
    if bytes.next()? != b'(' {
        return None;
    }
    let mut fields = Fields::new();
    loop {
        let mut field = Vec::new();
        if bytes.next_if_eq(&b'"').is_some() {
            loop {
                match bytes.next()? {
                    b'"' if bytes.next_if_eq(&b'"').is_some() => field.push(b'"'),
                    b'"' => break,
                    b'\\' => field.push(bytes.next()?),
                    byte => field.push(byte),
                }
            }
            fields.push(Some(field));
        } else {
            while let Some(byte) = bytes.next_if(|byte| !b"\"\\(), \t\n\x0b\x0c\r".contains(byte)) {
                field.push(byte);
            }
            fields.push((!field.is_empty()).then_some(field));
        }
        match bytes.next()? {
            b',' => {}
            b')' if bytes.peek().is_none() => return Some(fields),
            _ => return None,
        }
    }
}

fn fast(cell: &[u8], width: usize) -> Option<Fields> {
    let mut fields = Fields::new();
    let read = record_from_text(cell, width, &mut Vec::new(), |place, field| {
        assert_eq!(place, fields.len());
        fields.push(field.map(<[u8]>::to_vec));
        Ok(())
    });
    read.ok().map(|()| fields)
}

/// The text that `record_out` writes: quotes and backslashes are doubled.
fn written(fields: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut out = b"(".to_vec();
    for (place, field) in fields.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        let Some(field) = field else { continue };
        let means = |byte: &u8| b"\"\\(), \t\n\x0b\x0c\r".contains(byte);
        if !field.is_empty() && !field.iter().any(means) {
            out.extend_from_slice(field);
            continue;
        }
        out.push(b'"');
        for byte in field {
            out.extend(std::iter::repeat_n(
                *byte,
                if b"\"\\".contains(byte) { 2 } else { 1 },
            ));
        }
        out.push(b'"');
    }
    out.push(b')');
    out
}

fn fields() -> impl Strategy<Value = Fields> {
    let special = prop::sample::select(&b"ab\"\\(),[ \t\n\x0b\x0c\r\xc3"[..]);
    let field = proptest::option::of(proptest::collection::vec(special, 0..5));
    proptest::collection::vec(field, 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_text_is_read_as_the_grammar_says(
        cell in near(fields().prop_map(|fields| written(&fields)), b"ab(),\"\\ \t"),
        width in 1..6_usize,
    ) {
        let expected = reference(&cell);
        let with_width = expected.clone().filter(|fields| fields.len() == width);
        prop_assert_eq!(fast(&cell, width), with_width);
        if let Some(fields) = expected {
            prop_assert_eq!(fast(&cell, fields.len()), Some(fields));
        }
        prop_assert_eq!(fast(&cell, 0).is_some(), cell == b"()");
    }

    #[test]
    fn text_of_the_server_is_read_and_written_again(fields in fields()) {
        let cell = written(&fields);
        let mut again = b"before".to_vec();
        record_text_from_text(&cell, fields.len(), &mut again, |_, field, out| {
            out.extend_from_slice(field);
            Ok(())
        }).unwrap();
        prop_assert_eq!(again.strip_prefix(b"before"), Some(cell.as_slice()));
        prop_assert_eq!(fast(&written(&fields), fields.len()), Some(fields));
    }
}
