//! The pull reader: an iterator over the batches of a source of bytes.

use crate::batch::Batch;
use crate::builder::DecoderBuilder;
use crate::decoder::Decoder;
use crate::error::{Error, ErrorKind};
use std::io::{self, Read};

/// Reads a stream to its end: an iterator over its batches.
///
/// [`DecoderBuilder::build_reader`] makes one from any source of wire frames, such as a file. The
/// reader reads large blocks, so the source needs no buffer.
///
/// ```
/// use walrow_arrow::DecoderBuilder;
///
/// let stream: &[u8] = &[]; // or std::fs::File::open("stream.wire")?
/// for batch in DecoderBuilder::new().build_reader(stream)? {
///     let batch = batch?;
///     println!("{}: {} rows", batch.relation(), batch.record_batch().num_rows());
/// }
/// # Ok::<(), walrow_arrow::Error>(())
/// ```
///
/// # Errors
/// The errors of [`Decoder::decode`], of [`Decoder::finish`] at the end of the source, and of the
/// source itself. An error comes after all batches before it, and ends the iterator.
#[derive(Debug)]
pub struct Reader<R> {
    decoder: Decoder,
    source: R,
    /// The current block. The bytes from `start` to `end` are not decoded yet.
    block: Vec<u8>,
    start: usize,
    end: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Reading,
    /// Nothing more is read. The error comes after the last batch.
    Ended(Option<Error>),
}

/// Large enough to keep most transactions in one block.
const BLOCK: usize = 8 << 20;

impl<R: Read> Reader<R> {
    fn new(decoder: Decoder, source: R) -> Self {
        Self {
            decoder,
            source,
            block: Vec::new(),
            start: 0,
            end: 0,
            state: State::Reading,
        }
    }

    /// The decoder, which has the position, the schema and the counts.
    pub const fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Decodes the current block, or reads the next one. Returns false at the end of the source.
    fn advance(&mut self) -> Result<bool, Error> {
        let input = self.block.get(self.start..self.end).unwrap_or_default();
        if !input.is_empty() || !self.decoder.wants_input() {
            let consumed = self.decoder.decode(input)?;
            self.start = self.start.saturating_add(consumed);
            return Ok(true);
        }
        if self.block.is_empty() {
            self.block.resize(BLOCK, 0);
        }
        let size = loop {
            match self.source.read(&mut self.block) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match size {
            Ok(0) => {
                self.decoder.finish()?;
                Ok(false)
            }
            Ok(size) => {
                (self.start, self.end) = (0, size);
                Ok(true)
            }
            Err(error) => {
                // The complete rows come before the error.
                self.decoder.flush()?;
                let kind = ErrorKind::Source {
                    kind: error.kind(),
                    text: error.to_string(),
                };
                Err(Error::new(kind))
            }
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.decoder.next_batch() {
                Ok(Some(batch)) => return Some(Ok(batch)),
                Ok(None) => {}
                Err(error) if matches!(self.state, State::Reading) => {
                    self.state = State::Ended(Some(error));
                }
                // The error is already stored, or was already returned.
                Err(_) => {}
            }
            match &mut self.state {
                State::Ended(error) => return error.take().map(Err),
                State::Reading => match self.advance() {
                    Ok(true) => {}
                    Ok(false) => self.state = State::Ended(None),
                    Err(error) => self.state = State::Ended(Some(error)),
                },
            }
        }
    }
}

impl<R: Read> std::iter::FusedIterator for Reader<R> {}

impl DecoderBuilder {
    /// Builds a reader for a source of wire frames.
    ///
    /// # Errors
    /// The errors of [`DecoderBuilder::build`].
    pub fn build_reader<R: Read>(self, source: R) -> Result<Reader<R>, Error> {
        Ok(Reader::new(self.build()?, source))
    }
}
