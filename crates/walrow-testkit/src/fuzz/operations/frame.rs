//! A frame of a stream: the kind of its message, and its fields.

use crate::OwnedFrame;
use walrow_wire::{BackendMessage, Frame};

/// The kind of the message in a frame.
pub(super) fn kind_of(frame: &[u8]) -> Option<u8> {
    match (frame.first()?, frame.get(5)?) {
        (b'd', b'w') => frame.get(30).copied(),
        _ => None,
    }
}

/// Whether the next frame is in a stream block.
pub(super) fn in_stream(frames: &[Vec<u8>]) -> bool {
    let mut blocks =
        frames
            .iter()
            .rev()
            .filter_map(|frame| match (frame.first()?, kind_of(frame)) {
                (_, Some(b'S')) => Some(true),
                (_, Some(b'E')) | (b'W' | b'E', _) => Some(false),
                _ => None,
            });
    blocks.next().unwrap_or(false)
}

/// The frame as fields that can be changed.
pub(super) fn read(frame: &[u8], in_stream: bool) -> Option<OwnedFrame> {
    let (frame, _) = Frame::parse(frame).ok()??;
    OwnedFrame::read(&BackendMessage::parse(frame).ok()?, in_stream).ok()
}
