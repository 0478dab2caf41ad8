//! Frames, messages and cells.

use std::hint::black_box;
use std::ops::AddAssign;

/// The messages of a capture, one after the other.
pub(crate) struct Messages<'a> {
    /// The bytes after the last message.
    pub(crate) rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while let Some((tag, body)) = frame(&mut self.rest) {
            if tag == b'd'
                && let Some(([b'w', ..], message)) = body.split_first_chunk::<25>()
            {
                return Some(message);
            }
        }
        None
    }
}

#[inline]
fn frame<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let ([tag, length @ ..], after) = rest.split_first_chunk::<5>()?;
    let (body, next) = after.split_at(u32::from_be_bytes(*length) as usize - 4);
    *rest = next;
    Some((*tag, body))
}

/// Calls `each` with the letter and the value of every cell of a tuple, and returns the bytes after the
/// tuple.
///
/// The letter is `t` for text, `b` for binary, `n` for NULL and `u` for an unchanged large value, which
/// the server does not send. These two have an empty value.
#[inline]
pub(crate) fn cells<'a>(tuple: &'a [u8], mut each: impl FnMut(u8, &'a [u8])) -> &'a [u8] {
    let count = u16::from_be_bytes([tuple[0], tuple[1]]);
    let mut rest = &tuple[2..];
    for _ in 0..count {
        if let [tag @ (b't' | b'b'), a, b, c, d, after @ ..] = rest {
            let (value, after) = after.split_at(u32::from_be_bytes([*a, *b, *c, *d]) as usize);
            rest = after;
            each(*tag, value);
        } else {
            let tag = rest[0];
            rest = &rest[1..];
            each(tag, &[]);
        }
    }
    rest
}

/// The counts of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain counts")]
pub struct Visited {
    pub frames: usize,
    pub messages: usize,
    pub cells: usize,
    pub nulls: usize,
    /// Large values that did not change.
    pub unsent: usize,
    pub value_bytes: usize,
}

impl AddAssign for Visited {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.messages += other.messages;
        self.cells += other.cells;
        self.nulls += other.nulls;
        self.unsent += other.unsent;
        self.value_bytes += other.value_bytes;
    }
}

/// Visits every frame, message and cell. No value is optimised away.
pub fn walk(bytes: &[u8]) -> Visited {
    let mut visited = Visited::default();
    let mut in_stream = false;
    let mut rest = bytes;
    while let Some((tag, body)) = frame(&mut rest) {
        visited.frames += 1;
        if tag != b'd' || body[0] != b'w' {
            continue;
        }
        let message = &body[25..];
        visited.messages += 1;
        let tuple = if in_stream { 10 } else { 6 };
        match message[0] {
            b'I' | b'D' => {
                cells(&message[tuple..], |tag, value| {
                    visit(&mut visited, tag, value);
                });
            }
            b'U' => {
                let mut rest = &message[tuple..];
                if message[tuple - 1] != b'N' {
                    rest = &cells(rest, |tag, value| visit(&mut visited, tag, value))[1..];
                }
                cells(rest, |tag, value| visit(&mut visited, tag, value));
            }
            b'S' => in_stream = true,
            b'E' => in_stream = false,
            _ => {}
        }
    }
    visited
}

#[inline]
fn visit(visited: &mut Visited, tag: u8, value: &[u8]) {
    visited.cells += 1;
    visited.value_bytes += black_box(value).len();
    visited.nulls += usize::from(tag == b'n');
    visited.unsent += usize::from(tag == b'u');
}
