//! The places in a stream of a server.

use walrow_wire::{Frame, Kind, Lsn, Message, Peek};

/// The state of the stream after some bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub(super) bytes: usize,
    pub(super) end: Lsn,
    pub(super) is_inside: bool,
}

/// The end of each frame, with the greatest end LSN of a transaction or message up to it.
pub(super) fn marks(stream: &[u8]) -> Vec<Mark> {
    let (mut marks, mut mark, mut is_streamed) = (Vec::new(), Mark::default(), false);
    let mut rest = stream;
    while let Ok(Some(size)) = Frame::size(rest) {
        let (frame, more) = rest.split_at(size);
        rest = more;
        mark.bytes += size;
        if let Some(peek) = Peek::new(frame) {
            match peek.kind() {
                Kind::StreamStart => is_streamed = true,
                Kind::StreamStop => is_streamed = false,
                Kind::Begin | Kind::BeginPrepare => mark.is_inside = true,
                _ => {}
            }
            let end = match peek.message(is_streamed) {
                Ok(Message::Commit(it)) => it.end_lsn,
                Ok(Message::StreamCommit(it)) => it.end_lsn,
                Ok(Message::Prepare(it)) => it.end_lsn,
                Ok(Message::StreamPrepare(it)) => it.end_lsn,
                Ok(Message::CommitPrepared(it)) => it.end_lsn,
                Ok(Message::RollbackPrepared(it)) => it.rollback_end_lsn,
                Ok(Message::Message(it)) if !it.transactional => it.lsn,
                _ => Lsn::INVALID,
            };
            if matches!(peek.kind(), Kind::Commit | Kind::Prepare) {
                mark.is_inside = false;
            }
            mark.end = mark.end.max(end);
        }
        marks.push(mark);
    }
    marks
}
