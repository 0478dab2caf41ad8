//! Changes a stream in one place: its frames, a field of a message, or raw bytes.

use super::field::field;
use super::frame::kind_of;
use crate::OwnedFrame;
use arbitrary::{Result, Unstructured};

/// Changes the stream in one place. Returns whether it found one.
pub(super) fn mutate(
    frames: &mut Vec<Vec<u8>>,
    other: &[Vec<u8>],
    u: &mut Unstructured<'_>,
) -> Result<bool> {
    let kind = u.int_in_range(0..=33_u8)?;
    let Some(last) = frames.len().checked_sub(1) else {
        return Ok(false);
    };
    let place = usize::from(u.arbitrary::<u16>()?) % (last + 1);
    match kind {
        0 | 1 => drop(frames.remove(place)),
        2 | 3 => {
            let double = frames[place].clone();
            frames.insert(place, double);
        }
        4 => {
            let frame = frames.remove(place);
            let to = u.int_in_range(0..=last)?;
            frames.insert(to, frame);
        }
        5 => frames.swap(place, u.int_in_range(0..=last)?),
        6 | 7 => {
            let from = usize::from(u.arbitrary::<u16>()?) % other.len().max(1);
            let run = u.int_in_range(1..=8)?;
            let run = other.iter().skip(from).take(run).cloned();
            frames.splice(place..place, run.collect::<Vec<_>>());
        }
        8 => {
            let end = u.int_in_range(0..=frames[place].len())?;
            frames[place].truncate(end);
            frames.truncate(place + 1);
        }
        9 => {
            let bytes: [u8; 6] = u.arbitrary()?;
            frames.insert(place, bytes[..u.int_in_range(0..=6)?].to_vec());
        }
        10 => {
            let session = OwnedFrame::CopyBothResponse {
                format: 0,
                columns: Vec::new(),
            };
            frames.insert(place, session.bytes());
        }
        11 => {
            let fields = vec![(b'S', "ERROR".into()), (b'C', "57P01".into())];
            frames.insert(place, OwnedFrame::ErrorResponse(fields).bytes());
        }
        12 => swell(frames, u.arbitrary()?),
        13 | 14 => raw(&mut frames[place], u)?,
        15 => {
            // Removes a run of frames, as if a file lost its middle part.
            let end = (place + u.int_in_range(2..=20)?).min(last + 1);
            frames.drain(place..end);
        }
        16 | 17 => return Ok(unannounce(frames, place, u.arbitrary()?)),
        _ => return field(frames, place, u),
    }
    Ok(true)
}

/// Removes the begin of a prepared transaction, and its Prepare if `all`.
fn unannounce(frames: &mut Vec<Vec<u8>>, place: usize, all: bool) -> bool {
    let is = |frame: &Vec<u8>, kind| kind_of(frame) == Some(kind);
    let begin = (place..frames.len())
        .chain(0..place)
        .find(|at| is(&frames[*at], b'b'));
    let Some(begin) = begin else {
        return false;
    };
    let end = (begin..frames.len()).find(|at| is(&frames[*at], b'P'));
    let end = end.map_or(begin, |end| end + usize::from(all));
    frames.drain(begin..end);
    true
}

/// Repeats a row in place, up to some hundred KiB. Any transaction may send such rows.
pub(super) fn swell(frames: &mut Vec<Vec<u8>>, choice: u8) {
    let is_row = |frame: &Vec<u8>| {
        frame.len() > 30
            && frame[0] == b'd'
            && frame[5] == b'w'
            && matches!(frame[30], b'I' | b'U' | b'D' | b'T' | b'M')
    };
    let rows: Vec<_> = (0..frames.len())
        .filter(|at| is_row(&frames[*at]))
        .collect();
    let Some(last) = rows.len().checked_sub(1) else {
        return;
    };
    let place = rows[usize::from(choice) % (last + 1)];
    let most = (300 << 10) / frames[place].len();
    let count = [10, 100, 1000, 4000][usize::from(choice >> 6)].min(most);
    let repeated = vec![frames[place].clone(); count];
    frames.splice(place..place, repeated);
}

/// Changes a length, a kind or any other byte.
fn raw(frame: &mut [u8], u: &mut Unstructured<'_>) -> Result<()> {
    if frame.is_empty() {
        return Ok(());
    }
    let kind = [0, 5, 30];
    match u.int_in_range(0..=3)? {
        0 if frame.len() >= 5 => {
            let length: u32 = match u.int_in_range(0..=4)? {
                0 => u.int_in_range(0..=64)?,
                1 => 1 << 30,
                2 => (1 << 30) + 1,
                3 => u32::MAX,
                _ => u.int_in_range(1 << 16..=1 << 26)?,
            };
            frame[1..5].copy_from_slice(&length.to_be_bytes());
        }
        1 => {
            let at = *u.choose(&kind)? % frame.len();
            frame[at] = *u.choose(b"BCOUIDTRYMSEcAbPKrpwkWdNhrZ")?;
        }
        2 if frame.len() >= 34 => {
            // Most likely a length, a count or a 32-bit number.
            let at = u.int_in_range(30..=frame.len() - 4)?;
            let value = *u.choose(&[0, 1, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, u32::MAX])?;
            frame[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        _ => {
            let at = u.choose_index(frame.len())?;
            frame[at] ^= u.int_in_range(1..=255)?;
        }
    }
    Ok(())
}
