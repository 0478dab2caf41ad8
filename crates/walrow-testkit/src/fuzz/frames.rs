//! Reads arbitrary bytes as those of a connection.

use super::messages;
use crate::{OwnedFrame, walk};
use walrow_wire::{BackendMessage, CopyData, Frame};

/// Frames that parse re-encode to the same bytes. All other input is an error with an offset inside
/// it.
pub fn frames(data: &[u8]) {
    let mut walked = 0;
    let end = walk(data, |step| {
        assert_eq!(step.offset, walked);
        let mut again = Vec::new();
        step.frame.encode(&mut again);
        let bytes = &data[walked..walked + again.len()];
        assert_eq!(again, bytes);
        again.clear();
        step.backend.encode(&mut again);
        assert_eq!(again, bytes);
        let owned = OwnedFrame::read(&step.backend, step.in_stream).expect("it was read before");
        assert_eq!(owned.bytes(), bytes);
        walked += bytes.len();
    });
    match end {
        Ok(used) => assert_eq!(used, walked),
        Err(error) => {
            assert!((walked..=data.len()).contains(&error.offset), "{error}");
            assert!(!error.to_string().is_empty());
        }
    }
    // The bytes after the fault are checked too, frame by frame, in any state.
    let mut rest = data.get(walked..).unwrap_or_default();
    while let Ok(Some((frame, size))) = Frame::parse(rest) {
        if let Ok(BackendMessage::CopyData(CopyData::XLogData(data))) = BackendMessage::parse(frame)
        {
            messages(data.message);
        }
        rest = &rest[size..];
    }
}
