//! Harnesses around other parsers of pgoutput, one program each.
//!
//! A program implements [`Parser`] and calls [`run`]: the payload of each `CopyData` message goes to the
//! parser, as a driver hands it out, and the parsed message is dropped.

pub mod serve;

pub use serve::Counts;

use bytes::Bytes;
use serve::Subject;
use std::error::Error;
use std::hint::black_box;
use std::io;

/// The bytes in front of a pgoutput message in an `XLogData` message.
const XLOG_DATA: usize = 25;

/// A part of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    capture: &'a Bytes,
    bytes: &'a [u8],
}

impl<'a> Payload<'a> {
    /// For parsers that borrow.
    pub fn borrowed(self) -> &'a [u8] {
        self.bytes
    }

    /// For parsers of shared bytes. Nothing is copied.
    pub fn shared(self) -> Bytes {
        self.capture.slice_ref(self.bytes)
    }

    /// The start of the WAL data in an `XLogData` message, and the pgoutput message.
    pub fn xlog_data(self) -> Option<(u64, Self)> {
        let (head, bytes) = self.bytes.split_at_checked(XLOG_DATA)?;
        let (b'w', rest) = head.split_first()? else {
            return None;
        };
        let start = u64::from_be_bytes(*rest.first_chunk()?);
        Some((start, Self { bytes, ..self }))
    }
}

/// Another parser.
pub trait Parser {
    /// The parsed form of a message.
    type Message<'a>;

    /// Parses the payload of a `CopyData` message; `None` for a keepalive.
    ///
    /// # Errors
    /// Those of the parser.
    fn parse<'a>(
        &mut self,
        payload: Payload<'a>,
    ) -> Result<Option<Self::Message<'a>>, Box<dyn Error>>;

    /// Counts a message.
    fn count(message: &Self::Message<'_>, counts: &mut Counts);
}

/// Answers the lines of standard input. Each pass begins with a new parser.
///
/// # Errors
/// Those of standard input and output.
pub fn run<P: Parser>(new: impl Fn() -> P) -> io::Result<()> {
    serve::serve(&mut Harness {
        new,
        capture: Bytes::new(),
    })
}

struct Harness<F> {
    new: F,
    capture: Bytes,
}

impl<P: Parser, F: Fn() -> P> Subject for Harness<F> {
    fn load(&mut self, capture: Vec<u8>) {
        self.capture = Bytes::from(capture);
    }

    fn pass(&mut self) -> Result<u64, Box<dyn Error>> {
        let (mut parser, mut messages) = ((self.new)(), 0);
        for payload in payloads(&self.capture) {
            messages += u64::from(black_box(parser.parse(payload)?).is_some());
        }
        Ok(messages)
    }

    fn count(&mut self) -> Result<Counts, Box<dyn Error>> {
        let (mut parser, mut counts) = ((self.new)(), Counts::default());
        for payload in payloads(&self.capture) {
            if let Some(message) = parser.parse(payload)? {
                P::count(&message, &mut counts);
            }
        }
        Ok(counts)
    }
}

/// The payloads of all `CopyData` messages: what a driver takes off a connection.
fn payloads(capture: &Bytes) -> impl Iterator<Item = Payload<'_>> {
    let mut rest: &[u8] = capture;
    std::iter::from_fn(move || {
        while let Some(([tag, length @ ..], after)) = rest.split_first_chunk::<5>() {
            let length = u32::from_be_bytes(*length) as usize - 4;
            let (bytes, next) = after.split_at_checked(length)?;
            rest = next;
            if *tag == b'd' {
                return Some(Payload { capture, bytes });
            }
        }
        None
    })
}
