//! What bytes of unknown origin begin with.
//!
//! The first byte of a frame and of a pgoutput message is a letter, and some letters are both. What
//! follows decides: a frame has a plausible length and content.

use crate::backend::Frame;
use crate::copy_data::{CopyData, PrimaryKeepalive, XLogData};
use crate::message::Kind;
use crate::peek::Peek;

/// What bytes begin with, as far as the protocol can say. They may be no stream at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Beginning {
    /// A frame, as on a connection.
    Frame,
    /// A frame by its type byte, but with a length or content that no frame has.
    InvalidFrame,
    /// One payload of CopyData, and nothing else.
    CopyData,
    /// A pgoutput message by its kind.
    Message,
    /// None of these.
    Unknown,
}

impl Beginning {
    /// What `head` begins with. `None` if it has too few bytes to decide, and has not `ended`.
    pub fn of(head: &[u8], ended: bool) -> Option<Self> {
        if head.len() <= Frame::HEADER && !ended {
            return None;
        }
        let first = head.first().copied().unwrap_or_default();
        Some(if is_frame(head) {
            Self::Frame
        } else if is_payload(head) {
            Self::CopyData
        } else if Kind::from_byte(first).is_some() {
            Self::Message
        } else if Frame::is_known(first) {
            Self::InvalidFrame
        } else {
            Self::Unknown
        })
    }
}

/// The data of the first whole XLogData at the front of `head`, and its offset there. `head` begins
/// with frames, or is one payload of CopyData.
pub fn first_data(head: &[u8]) -> Option<(usize, &[u8])> {
    if let Ok(CopyData::XLogData(data)) = CopyData::parse(head) {
        return Some((XLogData::HEADER, data.message));
    }
    let (mut rest, mut at) = (head, 0_usize);
    while let Ok(Some((frame, size))) = Frame::parse(rest) {
        if frame.tag == b'd'
            && let Ok(CopyData::XLogData(data)) = CopyData::parse(frame.body)
        {
            return Some((at.saturating_add(Peek::HEADERS), data.message));
        }
        at = at.saturating_add(size);
        rest = head.get(at..).unwrap_or_default();
    }
    None
}

/// Whether whole frames are all keepalives.
pub fn are_keepalives(mut frames: &[u8]) -> bool {
    const SIZE: usize = Frame::HEADER.saturating_add(PrimaryKeepalive::SIZE);
    while let Some((frame, rest)) = frames.split_first_chunk::<SIZE>() {
        if !matches!(frame, [b'd', _, _, _, _, b'k', ..]) {
            return false;
        }
        frames = rest;
    }
    frames.is_empty()
}

fn is_frame(head: &[u8]) -> bool {
    match (Frame::new(head), Frame::size(head)) {
        (Some(frame), Ok(Some(size))) => {
            begins(frame.tag, frame.body, size.saturating_sub(Frame::HEADER))
        }
        (Some(_), _) => false,
        // A truncated file. No message begins with these.
        (None, _) => matches!(head, [b'd' | b'W', ..]),
    }
}

/// Whether a frame's body, of `size` bytes in all, begins as it should.
fn begins(tag: u8, body: &[u8], size: usize) -> bool {
    let first = body.first().copied();
    match tag {
        b'd' if let Some(kind) = first => {
            size > 0 && matches!(kind, b'w' | b'k' | b'r' | b'h' | b'p')
        }
        b'd' | b'W' => true,
        // A text. A Stream Start has 0 or 1 here, a Commit a part of an LSN, and a Stream Stop a
        // newline instead of a length.
        b'N' | b'E' | b'C' | b'S' | b'Z' => size < LONG && is_name(first),
        // After the server's process, the channel's name. A Stream Abort ends here, or has a part
        // of an LSN.
        b'A' => size < LONG && is_name(body.get(4).copied()),
        b'D' => is_row(body, size, value_end),
        b'T' => is_row(body, size, description_end),
        _ => tag == b'c' && size == 0,
    }
}

fn is_name(first: Option<u8>) -> bool {
    first.is_some_and(|it| it.is_ascii_alphabetic() || it == b'_')
}

/// Whether it is a row or its description, of exactly this size, as far as it is there. `end` says
/// where the column ends that begins at an offset.
///
/// A Delete or a Truncate has other bytes at the place of the number of columns.
fn is_row(body: &[u8], size: usize, end: impl Fn(&[u8], usize) -> Option<usize>) -> bool {
    let (count, mut at) = match body.first_chunk() {
        Some(count) => (u16::from_be_bytes(*count), size_of::<u16>()),
        None => (0, size_of::<u16>()),
    };
    for _ in 0..count {
        if at >= body.len() {
            break;
        }
        let Some(end) = end(body, at) else {
            return false;
        };
        at = end;
    }
    at == size || (body.len() <= at && at < size)
}

/// Where a value ends: after its length, -1 for NULL, and its bytes.
fn value_end(body: &[u8], at: usize) -> Option<usize> {
    let length = body.get(at..)?.first_chunk();
    let length = length.map_or(0, |it| i32::from_be_bytes(*it));
    let bytes = usize::try_from(length).unwrap_or(0);
    Some(at.saturating_add(size_of::<i32>()).saturating_add(bytes))
}

/// Where the description of a column ends: after its name, and 18 bytes.
fn description_end(body: &[u8], at: usize) -> Option<usize> {
    let name = body.get(at..)?.iter().take(LONGEST_NAME);
    let length = name.take_while(|it| **it != 0).count();
    let end = at.saturating_add(length);
    (body.get(end) == Some(&0)).then(|| end.saturating_add(1).saturating_add(DESCRIPTION))
}

fn is_payload(head: &[u8]) -> bool {
    match head {
        [b'k', ..] => head.len() == PrimaryKeepalive::SIZE,
        [b'w', ..] => head.len() > XLogData::HEADER,
        _ => false,
    }
}

/// The most bytes of a message that is a text.
const LONG: usize = 1 << 20;
/// The most bytes of a column's name.
const LONGEST_NAME: usize = 63;
/// Bytes of a column's description after its name.
const DESCRIPTION: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(head: &[u8]) -> Beginning {
        Beginning::of(head, true).unwrap()
    }

    #[test]
    fn the_bytes_after_the_letter_decide() {
        let cases: [(&[u8], Beginning); 16] = [
            (b"d\0\0\0\x16k", Beginning::Frame),
            (b"d\0\0\0\x16x", Beginning::InvalidFrame),
            (b"d", Beginning::Frame),
            (b"c\0\0\0\x04", Beginning::Frame),
            // A Stream Commit.
            (b"c\0\0\0\x05", Beginning::Message),
            (b"S\0\0\0\x0cTime", Beginning::Frame),
            // A Stream Start.
            (b"S\0\0\0\x0c\x01", Beginning::Message),
            (b"T\0\0\0\x1a\0\x01a\0", Beginning::Frame),
            (b"T\0\0\0\x19\0\x01a\0", Beginning::Message),
            (b"D\0\0\0\x0c\0\x01\0\0\0\x02", Beginning::Frame),
            (b"D\0\0\0\x0c\0\x01\0\0\0\x03", Beginning::Message),
            (b"W\0\0\0\x01", Beginning::InvalidFrame),
            (&[b'k'; 18], Beginning::CopyData),
            (&[b'k'; 19], Beginning::Unknown),
            (&[b'w'; 26], Beginning::CopyData),
            (b"", Beginning::Unknown),
        ];
        for (head, expected) in cases {
            assert_eq!(of(head), expected, "{head:?}");
        }
        assert_eq!(Beginning::of(b"d\0\0\0\x16", false), None);
    }

    #[test]
    fn other_frames_are_no_keepalives() {
        let keepalive = [&b"d\0\0\0\x16k"[..], &[0; 17]].concat();
        let data = [&b"d\0\0\0\x16w"[..], &[0; 17]].concat();
        let twice = keepalive.repeat(2);
        assert!(are_keepalives(&twice) && are_keepalives(b""));
        assert!(!are_keepalives(&twice[1..]) && !are_keepalives(&twice[..45]));
        assert!(!are_keepalives(&[keepalive, data].concat()));
    }

    #[test]
    fn the_first_data_is_found_behind_other_frames() {
        let mut payload = alloc::vec![b'w'; XLogData::HEADER];
        payload.extend_from_slice(b"BEGIN");
        assert_eq!(first_data(&payload), Some((25, &b"BEGIN"[..])));
        let mut head = alloc::vec::Vec::new();
        let tag = b'c';
        Frame { tag, body: b"" }.encode(&mut head);
        assert_eq!(first_data(&head), None);
        let body = &payload[..];
        Frame { tag: b'd', body }.encode(&mut head);
        assert_eq!(first_data(&head), Some((35, &b"BEGIN"[..])));
        head.pop();
        assert_eq!(first_data(&head), None);
    }
}
