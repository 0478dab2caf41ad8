//! A stream's frames and messages, one by one, whether or not their transactions commit.

use crate::error::{Error, Fault};
use crate::frames::{Frames, Place};
use walrow_wire::{self as wire, BackendMessage, CopyData, Frame, Framing, Message, XLogData, Xid};

/// Visits every frame of a stream, with its message.
///
/// Push bytes and pull steps, as with the [`Assembler`](crate::Assembler): the input may be cut
/// anywhere. The walk tracks two facts that a message does not contain: whether it is in a stream
/// block, and whether the session is physical replication. Data of physical replication are not
/// parsed.
///
/// ```
/// use walrow_stream::Walk;
/// use walrow_wire::Framing;
///
/// let stream: &[u8] = &[]; // wire frames, from a file or a connection
/// let mut walk = Walk::new(Framing::Wire);
/// let mut input = stream;
/// while let Some(step) = walk.next(&mut input)? {
///     println!("{}: {:?}", step.offset, step.message);
/// }
/// assert!(!walk.is_cut());
/// # Ok::<(), walrow_stream::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Walk {
    frames: Frames,
    session: Session,
    /// The SQLSTATE of the last error of the server.
    server_error: Option<String>,
    failure: Option<Error>,
}

/// One frame of a walk.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Step<'a> {
    /// Bytes fed before the frame.
    pub offset: u64,
    /// The frame's bytes, as wire frames have them.
    pub bytes: &'a [u8],
    /// The message of the server.
    pub backend: BackendMessage<'a>,
    /// In a stream block, its top-level transaction. A Stream Stop is inside, a Stream Start is
    /// not.
    pub block: Option<Xid>,
    /// The pgoutput message, if the frame has a message.
    pub message: Option<Message<'a>>,
}

/// The state that the parsing of the next frame depends on.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    block: Option<Xid>,
    /// Whether a transaction has begun, and its Commit or Prepare has not come yet.
    is_open: bool,
    holds: Holds,
}

/// The kind of data in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Holds {
    /// No data so far.
    #[default]
    Unknown,
    Pgoutput,
    /// Physical replication.
    Wal,
}

impl Walk {
    /// A walk over input in this framing. Chunks must be wire frames: [`Framing::append`] makes
    /// them.
    pub fn new(framing: Framing) -> Self {
        Self {
            frames: Frames::new(framing),
            ..Self::default()
        }
    }

    /// Bytes fed of all frames so far.
    pub const fn offset(&self) -> u64 {
        self.frames.offset()
    }

    /// Whether the input so far ends inside a frame.
    pub const fn is_cut(&self) -> bool {
        self.frames.is_cut()
    }

    /// Whether the input so far ends inside a frame, a transaction or a chunk of one.
    ///
    /// Transactions that are open between two chunks do not count.
    pub const fn is_mid_transaction(&self) -> bool {
        self.frames.is_cut() || self.session.is_open || self.session.block.is_some()
    }

    /// The SQLSTATE of the error, if the server ended the session with an error. `None` once the
    /// next session begins.
    pub fn server_error(&self) -> Option<&str> {
        self.server_error.as_deref()
    }

    /// Takes bytes from the front of `input` and visits the next frame. `None` when all of `input`
    /// was taken and more is needed.
    ///
    /// # Errors
    /// Bytes that do not follow the protocol. Later calls repeat the error.
    #[inline]
    pub fn next<'t, 'i: 't>(&'t mut self, input: &mut &'i [u8]) -> Result<Option<Step<'t>>, Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let place = match self.frames.front(input) {
            Ok(Some(place)) => place,
            Ok(None) => return Ok(None),
            Err(error) => return Err(self.failure.insert(error).clone()),
        };
        let offset = self.frames.offset();
        self.frames.take(place, input);
        let bytes = match place {
            Place::Input(frame) => frame,
            Place::Completed => self.frames.completed(),
        };
        if self.frames.is_split() {
            // It ends a block that a new session left open.
            self.session.block = self.frames.block();
        }
        match self.session.step(bytes, offset) {
            Ok(step) => {
                match &step.backend {
                    BackendMessage::CopyBothResponse(_) => self.server_error = None,
                    BackendMessage::ErrorResponse(fields) => {
                        let sqlstate = fields.sqlstate();
                        let sqlstate = sqlstate.map(|it| it.to_string());
                        self.server_error = Some(sqlstate.unwrap_or_default());
                    }
                    _ => {}
                }
                Ok(Some(step))
            }
            Err(error) => {
                let error = Fault::from(error).at(&self.frames, offset);
                Err(self.failure.insert(error).clone())
            }
        }
    }
}

impl Session {
    #[inline]
    fn step<'a>(&mut self, bytes: &'a [u8], offset: u64) -> Result<Step<'a>, wire::Error> {
        let frame = Frame::new(bytes).unwrap_or(Frame {
            tag: 0,
            body: bytes,
        });
        let backend = BackendMessage::parse(frame)?;
        let block = self.block;
        let message = match &backend {
            BackendMessage::CopyData(CopyData::XLogData(data)) => {
                let message = self.message(data);
                message.map_err(|error| error.at(Frame::HEADER))?
            }
            BackendMessage::CopyBothResponse(_) => {
                *self = Self::default();
                None
            }
            BackendMessage::ErrorResponse(_) => {
                self.block = None;
                self.is_open = false;
                None
            }
            _ => None,
        };
        match &message {
            Some(Message::Begin(_) | Message::BeginPrepare(_)) => self.is_open = true,
            Some(Message::Commit(_) | Message::Prepare(_)) => self.is_open = false,
            Some(Message::StreamStart(start)) => self.block = Some(start.xid),
            Some(Message::StreamStop) => self.block = None,
            _ => {}
        }
        Ok(Step {
            offset,
            bytes,
            backend,
            block,
            message,
        })
    }

    /// The message in the session's next data; `None` in physical replication.
    #[inline]
    fn message<'a>(&mut self, data: &XLogData<'a>) -> Result<Option<Message<'a>>, wire::Error> {
        let in_stream = self.block.is_some();
        let parsed = match self.holds {
            Holds::Wal => return Ok(None),
            // A session does not change from pgoutput to WAL: a message that does not parse is
            // corrupt.
            Holds::Pgoutput => {
                Message::parse(data.message, in_stream).map_err(|error| error.at(XLogData::HEADER))
            }
            Holds::Unknown => data.message(in_stream),
        };
        match parsed {
            Ok(message) => {
                self.holds = Holds::Pgoutput;
                Ok(Some(message))
            }
            Err(error) if error.kind == wire::ErrorKind::PhysicalStream => {
                self.holds = Holds::Wal;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// How many frames, messages and cells a stream has, by kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Counts {
    /// Frames by tag; CopyData frames by the kind of their payload.
    pub frames: [u64; 256],
    /// Messages by their kind.
    pub messages: [u64; 256],
    /// Cells that are NULL.
    pub nulls: u64,
    /// Cells of unchanged values that were not sent.
    pub unchanged: u64,
    /// Cells in text.
    pub texts: u64,
    /// Cells in binary.
    pub binaries: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            frames: [0; 256],
            messages: [0; 256],
            nulls: 0,
            unchanged: 0,
            texts: 0,
            binaries: 0,
        }
    }
}

impl Counts {
    /// Counts the frame, the message and the cells of a step.
    pub fn add(&mut self, step: &Step<'_>) {
        count(&mut self.frames, step.backend.kind());
        let Some(message) = &step.message else {
            return;
        };
        count(&mut self.messages, message.kind().byte());
        match message {
            Message::Insert(insert) => self.add_tuple(insert.new),
            Message::Update(update) => {
                if let Some(old) = update.old {
                    self.add_tuple(old.tuple());
                }
                self.add_tuple(update.new);
            }
            Message::Delete(delete) => self.add_tuple(delete.old.tuple()),
            _ => {}
        }
    }

    fn add_tuple(&mut self, tuple: wire::Tuple<'_>) {
        for cell in tuple.cells() {
            let count = match cell {
                wire::Cell::Null => &mut self.nulls,
                wire::Cell::Unchanged => &mut self.unchanged,
                wire::Cell::Text(_) => &mut self.texts,
                wire::Cell::Binary(_) => &mut self.binaries,
            };
            *count = count.saturating_add(1);
        }
    }
}

fn count(counts: &mut [u64; 256], letter: u8) {
    if let Some(place) = counts.get_mut(usize::from(letter)) {
        *place = place.saturating_add(1);
    }
}
