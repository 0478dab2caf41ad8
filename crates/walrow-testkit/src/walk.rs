//! A stream read to its end, frame by frame and message by message.

use walrow_wire::{BackendMessage, CopyData, Error, Frame, Message};

/// One frame of a walk.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// Bytes before the frame.
    pub offset: usize,
    /// The frame.
    pub frame: Frame<'a>,
    /// Its message.
    pub backend: BackendMessage<'a>,
    /// Whether the frame stands in a stream block; a Stream Stop does, a Stream Start does not.
    pub in_stream: bool,
    /// The pgoutput message, if it holds one.
    pub message: Option<Message<'a>>,
}

/// Visits every whole frame and says how many bytes they have.
///
/// # Errors
/// The first fault, its offset counted from the start of `bytes`.
pub fn walk<'a>(bytes: &'a [u8], mut visit: impl FnMut(Step<'a>)) -> Result<usize, Error> {
    let mut offset = 0;
    let mut in_stream = false;
    while let Some((frame, size)) =
        Frame::parse(&bytes[offset..]).map_err(|error| error.at(offset))?
    {
        let backend = BackendMessage::parse(frame).map_err(|error| error.at(offset))?;
        let message = match &backend {
            BackendMessage::CopyData(CopyData::XLogData(data)) => Some(
                data.message(in_stream)
                    .map_err(|error| error.at(offset + Frame::HEADER))?,
            ),
            _ => None,
        };
        let next = match (&backend, &message) {
            (_, Some(Message::StreamStart(_))) => true,
            (_, Some(Message::StreamStop))
            | (BackendMessage::CopyBothResponse(_) | BackendMessage::ErrorResponse(_), _) => false,
            _ => in_stream,
        };
        visit(Step {
            offset,
            frame,
            backend,
            in_stream,
            message,
        });
        in_stream = next;
        offset += size;
    }
    Ok(offset)
}
