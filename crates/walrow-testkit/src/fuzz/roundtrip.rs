//! Writes and reads arbitrary valid frames.

use crate::OwnedFrame;
use arbitrary::Unstructured;
use walrow_wire::{BackendMessage, Frame};

/// A frame that was written without walrow's encoder parses to the same fields and re-encodes to
/// the same bytes. A cut frame needs more bytes.
pub fn roundtrip(data: &[u8]) -> arbitrary::Result<()> {
    let mut u = Unstructured::new(data);
    let owned: OwnedFrame = u.arbitrary()?;
    let bytes = owned.bytes();
    let (frame, size) = Frame::parse(&bytes)
        .unwrap_or_else(|error| panic!("{owned:?}: {error}"))
        .expect("the frame is whole");
    assert_eq!(size, bytes.len());
    let backend = BackendMessage::parse(frame).unwrap_or_else(|error| panic!("{owned:?}: {error}"));
    let read = OwnedFrame::read(&backend, owned.in_stream());
    assert_eq!(read.as_ref(), Ok(&owned));
    let mut again = Vec::new();
    backend.encode(&mut again);
    assert_eq!(again, bytes);
    let cut = u.int_in_range(0..=bytes.len().saturating_sub(1))?;
    assert_eq!(Frame::parse(&bytes[..cut]), Ok(None));
    Ok(())
}
