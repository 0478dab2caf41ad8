//! The stream of an input: a history, a capture, or two of them.

use super::mutation::{mutate, swell};
use super::retype::{rename, retype};
use crate::{History, captures};
use arbitrary::{Result, Unstructured};
use std::sync::LazyLock;
use walrow_wire::Frame;

/// Bytes of an input that choose the operations, for any stream.
pub(super) const PLAN: usize = 32;
/// Bytes per mutation, and the number of mutations.
pub(super) const MUTATION: usize = 12;
const MUTATIONS: usize = 8;
/// If a plan begins with this byte, the stream itself follows the plan.
pub(super) const WRITTEN_OUT: u8 = 0;

/// A parsed input.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) plan: [u8; PLAN],
    pub(super) stream: Vec<u8>,
    /// How many mutations changed the stream.
    pub(super) mutated: usize,
}

impl Input {
    pub(super) fn read(data: &[u8]) -> Result<Self> {
        let (plan, rest) = data
            .split_first_chunk::<PLAN>()
            .ok_or(arbitrary::Error::NotEnoughData)?;
        if plan[0] == WRITTEN_OUT {
            return Ok(Self {
                plan: *plan,
                stream: rest.to_vec(),
                mutated: 0,
            });
        }
        let (mutations, rest) = rest
            .split_at_checked(MUTATION * MUTATIONS)
            .ok_or(arbitrary::Error::NotEnoughData)?;
        let mut u = Unstructured::new(rest);
        let mut stream = source(plan[0], plan[1], &mut u)?;
        let other = other(plan[0], &mut u)?;
        // Most streams are changed little or not at all, because reading stops where a stream is
        // broken.
        let count = [0, 0, 0, 1, 0, 1, 2, 1, 2, 3, 1, 1, 4, 5, 8, 0][usize::from(plan[2] % 16)];
        match plan[2] >> 4 {
            kind @ 0..7 => retype(&mut stream, kind.min(4)),
            7 => {
                let (column, longest) = (plan[1] & 1 == 0, plan[1] & 0xE == 0);
                rename(&mut stream, column, if longest { 60_000 } else { 2000 });
                swell(&mut stream, plan[1] | 0x80);
            }
            _ => {}
        }
        let mut mutated = 0;
        for bytes in mutations.chunks(MUTATION).take(count) {
            mutated += usize::from(mutate(&mut stream, &other, &mut Unstructured::new(bytes))?);
        }
        Ok(Self {
            plan: *plan,
            stream: stream.concat(),
            mutated,
        })
    }

    /// The same input with its stream written out.
    pub(super) fn written_out(&self) -> Vec<u8> {
        let mut plan = self.plan;
        plan[0] = WRITTEN_OUT;
        [&plan, &*self.stream].concat()
    }
}

type Frames = Vec<Vec<u8>>;

fn source(kind: u8, choice: u8, u: &mut Unstructured<'_>) -> Result<Frames> {
    let history = |u: &mut Unstructured<'_>| -> Result<Frames> {
        Ok(u.arbitrary::<History>()?.delivered().frames().to_vec())
    };
    Ok(match kind % 16 {
        0..=5 => history(u)?,
        6 | 7 => u.arbitrary::<History>()?.whole().frames().to_vec(),
        8 | 9 => capture(choice),
        // One session after the other, or joined into one.
        10 => [history(u)?, history(u)?].concat(),
        11 => {
            let (first, second) = (history(u)?, history(u)?);
            [&first[..], &second[1..]].concat()
        }
        12 => [history(u)?, capture(choice)].concat(),
        // A server that repeats unconfirmed transactions.
        13 => {
            let first = history(u)?;
            [first.clone(), first].concat()
        }
        14 => {
            let (first, second) = (history(u)?, history(u)?);
            interleaved(first, second, choice)
        }
        // A history of many rows.
        _ => {
            let mut frames = history(u)?;
            swell(&mut frames, choice);
            frames
        }
    })
}

/// The stream from which foreign frames are taken.
fn other(kind: u8, u: &mut Unstructured<'_>) -> Result<Frames> {
    if kind.is_multiple_of(2) {
        Ok(u.arbitrary::<History>()?.delivered().frames().to_vec())
    } else {
        Ok(capture(kind / 2))
    }
}

fn capture(choice: u8) -> Frames {
    static CAPTURES: LazyLock<Vec<Frames>> = LazyLock::new(|| {
        let small = |bytes: &Vec<u8>| bytes.len() <= 64 << 10;
        let captures = captures().into_iter().map(|capture| capture.bytes);
        captures.filter(small).map(|bytes| frames(&bytes)).collect()
    });
    // Coprime to their number, so that neighbours in the alphabet are not neighbours here.
    CAPTURES[usize::from(choice) * 7 % CAPTURES.len()].clone()
}

/// The frames of a stream. A rest that is not a frame is the last one.
pub(super) fn frames(stream: &[u8]) -> Frames {
    let mut frames = Vec::new();
    let mut rest = stream;
    while let Ok(Some((_, size))) = Frame::parse(rest) {
        frames.push(rest[..size].to_vec());
        rest = &rest[size..];
    }
    if !rest.is_empty() {
        frames.push(rest.to_vec());
    }
    frames
}

fn interleaved(first: Frames, second: Frames, choice: u8) -> Frames {
    let run = usize::from(choice % 8) + 1;
    let (mut first, mut second) = (first.into_iter(), second.into_iter().skip(1));
    let mut frames = Vec::new();
    loop {
        let before = frames.len();
        frames.extend(first.by_ref().take(run));
        frames.extend(second.by_ref().take(run * 2));
        if frames.len() == before {
            return frames;
        }
    }
}
