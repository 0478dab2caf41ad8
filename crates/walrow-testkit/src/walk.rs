//! Reads a stream to its end, frame by frame and message by message.

use walrow_stream::{ErrorKind, Walk};
use walrow_wire::{BackendMessage, CopyData, Error, Frame, Framing, Message};

/// One frame of a walk. It outlives the walk.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// Bytes before the frame.
    pub offset: usize,
    /// The frame.
    pub frame: Frame<'a>,
    /// Its message.
    pub backend: BackendMessage<'a>,
    /// Whether the frame is in a stream block. A Stream Stop is, a Stream Start is not.
    pub in_stream: bool,
    /// The pgoutput message, if the frame contains one.
    pub message: Option<Message<'a>>,
}

/// Visits every whole frame, and returns how many bytes they have.
///
/// # Errors
/// The first fault. Its offset counts from the start of `bytes`. Physical replication is a fault.
pub fn walk<'a>(bytes: &'a [u8], mut visit: impl FnMut(Step<'a>)) -> Result<usize, Error> {
    let mut walk = Walk::new(Framing::Wire);
    let mut rest = bytes;
    let mut end = 0;
    loop {
        let in_stream = match walk.next(&mut rest) {
            Ok(Some(step)) => step.block.is_some(),
            Ok(None) => return Ok(end),
            Err(error) => {
                let ErrorKind::Wire(mut fault) = error.kind else {
                    panic!("a walk does not know {:?}", error.kind)
                };
                fault.offset = usize::try_from(error.offset).expect("it lies in memory");
                return Err(fault);
            }
        };
        let offset = end;
        end = usize::try_from(walk.offset()).expect("it lies in memory");
        let (frame, _) = Frame::parse(&bytes[offset..end])?.expect("it was visited whole");
        let backend = BackendMessage::parse(frame)?;
        let message = match &backend {
            BackendMessage::CopyData(CopyData::XLogData(data)) => {
                let message = data.message(in_stream);
                Some(message.map_err(|error| error.at(offset + Frame::HEADER))?)
            }
            _ => None,
        };
        visit(Step {
            offset,
            frame,
            backend,
            in_stream,
            message,
        });
    }
}
