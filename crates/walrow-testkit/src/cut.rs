//! The same bytes in different pieces.

/// Calls `check` with the bytes cut in two, at every place: before the first byte, between any
/// two, after the last.
pub fn for_every_cut<'a>(bytes: &'a [u8], mut check: impl FnMut(&'a [u8], &'a [u8])) {
    for place in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(place);
        check(head, tail);
    }
}

/// The bytes in pieces of these sizes, in turn and repeated. The last piece may be shorter.
///
/// # Panics
/// If all sizes are 0: the pieces would never end.
pub fn in_chunks<'a>(bytes: &'a [u8], sizes: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    assert!(
        sizes.iter().any(|size| *size > 0),
        "pieces of no bytes never end"
    );
    let mut sizes = sizes.iter().cycle();
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at(rest.len().min(*sizes.next()?));
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_is_made_once() {
        let mut cuts = Vec::new();
        for_every_cut(b"ab", |head, tail| cuts.push((head, tail)));
        let expected: [(&[u8], &[u8]); 3] = [(b"", b"ab"), (b"a", b"b"), (b"ab", b"")];
        assert_eq!(cuts, expected);
    }

    #[test]
    fn sizes_come_in_turn() {
        let chunks: Vec<&[u8]> = in_chunks(b"abcdefg", &[1, 0, 3]).collect();
        let expected: [&[u8]; 5] = [b"a", b"", b"bcd", b"e", b""];
        assert_eq!(chunks[..5], expected);
        assert_eq!(chunks.concat(), b"abcdefg");
    }
}
