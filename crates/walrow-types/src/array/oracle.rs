//! The fast readers beside slow ones that follow the server's grammar byte by byte.

use proptest::prelude::*;
use walrow_testkit::strategy::near;

use super::*;

type Elements = Vec<Option<Vec<u8>>>;

/// Bounds and elements of an array of one dimension; `None` for any other text.
fn reference(cell: &[u8], delimiter: u8) -> Option<(i32, Elements)> {
    let cell = cell.to_vec();
    let mut at = 0;
    let mut bounds = None;
    if cell.first() == Some(&b'[') {
        let close = cell.iter().position(|byte| *byte == b']')?;
        let inside = std::str::from_utf8(&cell[1..close]).ok()?;
        let (lower, upper) = inside.split_once(':')?;
        let [lower, upper] = [lower, upper].map(|number| {
            let value: i32 = number.parse().ok()?;
            (value.to_string() == number).then_some(value)
        });
        let (lower, upper) = (lower?, upper?);
        if upper < lower || cell.get(close + 1) != Some(&b'=') {
            return None;
        }
        bounds = Some((lower, upper));
        at = close + 2;
    }
    if cell.get(at) != Some(&b'{') {
        return None;
    }
    at += 1;
    let mut elements = Elements::new();
    if &cell[at..] == b"}" && bounds.is_none() {
        return Some((1, elements));
    }
    loop {
        let mut element = Vec::new();
        if cell.get(at) == Some(&b'"') {
            at += 1;
            loop {
                match *cell.get(at)? {
                    b'"' => break,
                    b'\\' => {
                        at += 1;
                        element.push(*cell.get(at)?);
                    }
                    byte => element.push(byte),
                }
                at += 1;
            }
            at += 1;
            elements.push(Some(element));
        } else {
            while *cell.get(at)? != delimiter && cell[at] != b'}' {
                element.push(cell[at]);
                at += 1;
            }
            let quoted = b"\"\\{ \t\n\x0b\x0c\r";
            if element == b"NULL" {
                elements.push(None);
            } else if element.is_empty()
                || element.eq_ignore_ascii_case(b"null")
                || element.iter().any(|byte| quoted.contains(byte))
            {
                return None;
            } else {
                elements.push(Some(element));
            }
        }
        let after = *cell.get(at)?;
        at += 1;
        if after == b'}' {
            break;
        }
        if after != delimiter {
            return None;
        }
    }
    if at != cell.len() {
        return None;
    }
    let (lower, upper) = bounds.unwrap_or((1, i32::try_from(elements.len()).ok()?));
    let size = i64::from(upper) - i64::from(lower) + 1;
    (size == i64::try_from(elements.len()).ok()?).then_some((lower, elements))
}

fn fast(cell: &[u8], delimiter: u8) -> Option<(i32, Elements)> {
    let mut elements = Elements::new();
    let mut scratch = b"left over".to_vec();
    let shape = array_from_text(cell, delimiter, &mut scratch, |element| {
        elements.push(element.map(<[u8]>::to_vec));
        Ok(())
    });
    let shape = shape.ok()?;
    assert_eq!(shape.len, elements.len());
    Some((shape.lower_bound, elements))
}

fn element() -> impl Strategy<Value = Option<Vec<u8>>> {
    let special = prop::sample::select(&b"aNUL{}\",;:\\ \t\n\x0b\x0c\r\xc3"[..]);
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(b"null".to_vec())),
        4 => proptest::collection::vec(special, 0..5).prop_map(Some),
    ]
}

/// The text that `array_out` writes. It quotes empty elements, NULL in any case, and elements with special bytes.
fn write_element(element: Option<&[u8]>, delimiter: u8, out: &mut Vec<u8>) {
    let Some(element) = element else {
        out.extend_from_slice(b"NULL");
        return;
    };
    let means = |byte: &u8| *byte == delimiter || b"{}\"\\ \t\n\x0b\x0c\r".contains(byte);
    if element.is_empty() || element.eq_ignore_ascii_case(b"NULL") || element.iter().any(means) {
        out.push(b'"');
        for byte in element {
            if b"\"\\".contains(byte) {
                out.push(b'\\');
            }
            out.push(*byte);
        }
        out.push(b'"');
    } else {
        out.extend_from_slice(element);
    }
}

/// One brace per dimension, by recursion.
fn write_dimension(
    sizes: &[usize],
    elements: &mut &[Option<Vec<u8>>],
    delimiter: u8,
    out: &mut Vec<u8>,
) {
    let Some((size, inner)) = sizes.split_first() else {
        let (first, rest) = elements.split_first().unwrap();
        write_element(first.as_deref(), delimiter, out);
        *elements = rest;
        return;
    };
    out.push(b'{');
    for place in 0..*size {
        if place > 0 {
            out.push(delimiter);
        }
        write_dimension(inner, elements, delimiter, out);
    }
    out.push(b'}');
}

fn written(elements: &[Option<Vec<u8>>], lower: i32) -> Vec<u8> {
    let mut out = Vec::new();
    if elements.is_empty() {
        return b"{}".to_vec();
    }
    if lower != 1 {
        let upper = lower + i32::try_from(elements.len()).unwrap() - 1;
        out.extend_from_slice(format!("[{lower}:{upper}]=").as_bytes());
    }
    write_dimension(&[elements.len()], &mut &*elements, b',', &mut out);
    out
}

fn texts() -> impl Strategy<Value = Vec<u8>> {
    (
        proptest::collection::vec(element(), 0..4),
        prop_oneof![Just(1), -2..3],
    )
        .prop_map(|(elements, lower)| written(&elements, lower))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_text_is_read_as_the_grammar_says(
        cell in near(texts(), b"aNULLn01:=[]{}\",;\\ \n-"),
        delimiter in prop::sample::select(vec![b',', b';', b':']),
    ) {
        prop_assert_eq!(fast(&cell, delimiter), reference(&cell, delimiter));
        prop_assert_eq!(fast(&cell, b','), reference(&cell, b','));
    }

    #[test]
    fn text_of_the_server_is_read(
        elements in proptest::collection::vec(element(), 1..6),
        lower in prop_oneof![Just(1), -3..4],
    ) {
        prop_assert_eq!(fast(&written(&elements, lower), b','), Some((lower, elements)));
    }

    #[test]
    fn all_dimensions_are_written_as_recursion_writes_them(
        sizes in proptest::collection::vec(1..4_usize, 1..=6),
        lowers in proptest::collection::vec(prop_oneof![4 => Just(1), 1 => -3..4], 6),
        values in proptest::collection::vec(element(), 1..40),
        delimiter in prop::sample::select(vec![b',', b';', b':']),
    ) {
        let count = sizes.iter().product();
        let elements: Vec<_> = values.into_iter().cycle().take(count).collect();
        let has_nulls = elements.iter().any(Option::is_none);
        let mut sent = Vec::new();
        let mut word = |word: i32| sent.extend_from_slice(&word.to_be_bytes());
        word(i32::try_from(sizes.len()).unwrap());
        word(i32::from(has_nulls));
        word(25);
        for (size, lower) in sizes.iter().zip(&lowers) {
            word(i32::try_from(*size).unwrap());
            word(*lower);
        }
        for element in &elements {
            let length = element.as_ref().map_or(-1, |element| i32::try_from(element.len()).unwrap());
            sent.extend_from_slice(&length.to_be_bytes());
            sent.extend(element.iter().flatten());
        }
        let mut expected = b"before".to_vec();
        let bounds = sizes.iter().zip(&lowers);
        if bounds.clone().any(|(_, lower)| *lower != 1) {
            for (size, lower) in bounds {
                let upper = lower + i32::try_from(*size).unwrap() - 1;
                expected.extend_from_slice(format!("[{lower}:{upper}]").as_bytes());
            }
            expected.push(b'=');
        }
        write_dimension(&sizes, &mut &*elements, delimiter, &mut expected);
        let mut out = b"before".to_vec();
        array_text_from_binary(&sent, 25, delimiter, &mut out, |element, out| {
            out.extend_from_slice(element);
            Ok(())
        }).unwrap();
        prop_assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected));

        let mut again = b"before".to_vec();
        let cell = expected.strip_prefix(b"before").unwrap();
        array_text_from_text(cell, delimiter, &mut again, |element, out| {
            out.extend_from_slice(element);
            Ok(())
        }).unwrap();
        prop_assert_eq!(String::from_utf8_lossy(&again), String::from_utf8_lossy(&expected));
    }
}
