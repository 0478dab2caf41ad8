//! Frames and payloads of CopyData, for `walrow.postgres` and for bytes of unknown origin.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};
use walrow::wire::{
    self, Beginning, CopyData, Frame, PrimaryKeepalive, StandbyStatusUpdate, Timestamp, XLogData,
};
use walrow::{Framing, Lsn};

/// Bytes of a frame before its body.
pub(crate) const FRAME_HEADER: usize = Frame::HEADER;
/// Bytes of a keepalive's payload. XLogData is always longer.
pub(crate) const KEEPALIVE_SIZE: usize = PrimaryKeepalive::SIZE;

/// Returns the header of the frame of a CopyData payload of this size.
#[pyfunction]
pub(crate) fn copy_data_header(py: Python<'_>, size: usize) -> Bound<'_, PyBytes> {
    let mut header = Vec::with_capacity(Frame::HEADER);
    Framing::CopyData.append_header(size, Lsn::INVALID, &mut header);
    PyBytes::new(py, &header)
}

/// Returns the end of WAL in a payload of the server, whether it asks for an answer, and its clock.
///
/// The end of WAL is 0 if the payload does not have it. The clock counts microseconds since 2000.
#[pyfunction]
pub(crate) fn end_of_wal(payload: &Bound<'_, PyAny>) -> PyResult<(u64, bool, i64)> {
    // A message may be large: its bytes are not needed.
    let head = PySlice::new(payload.py(), 0, XLogData::HEADER.cast_signed(), 1);
    let head = PyMemoryView::from(payload)?.get_item(head)?;
    let head = head.call_method0("tobytes")?.cast_into::<PyBytes>()?;
    Ok(match CopyData::parse(head.as_bytes()) {
        Ok(CopyData::XLogData(data)) => (data.end.0, false, data.clock.0),
        Ok(CopyData::PrimaryKeepalive(it)) => (it.end.0, it.reply_requested, it.clock.0),
        _ => (0, false, 0),
    })
}

/// Writes a Standby status update.
///
/// Args:
///     received: All transactions up to this LSN were received.
///     flushed: All transactions up to this LSN are durable.
///     applied: All transactions up to this LSN are applied.
///     clock: The time, in microseconds since 2000.
///     reply: Whether to ask the server for an answer at once.
#[pyfunction]
pub(crate) fn status_update(
    py: Python<'_>,
    received: u64,
    flushed: u64,
    applied: u64,
    clock: i64,
    reply: bool,
) -> Bound<'_, PyBytes> {
    let mut payload = Vec::new();
    CopyData::StandbyStatusUpdate(StandbyStatusUpdate {
        write: Lsn(received),
        flush: Lsn(flushed),
        apply: Lsn(applied),
        clock: Timestamp(clock),
        reply_requested: reply,
    })
    .encode(&mut payload);
    PyBytes::new(py, &payload)
}

/// Returns whether whole frames are all keepalives.
#[pyfunction]
pub(crate) fn is_keepalives(block: &[u8]) -> bool {
    wire::are_keepalives(block)
}

/// Returns the size of the frame that begins so, or None if its header is cut or invalid.
#[pyfunction]
pub(crate) fn frame_size(head: &[u8]) -> Option<usize> {
    Frame::size(head).ok().flatten()
}

/// Returns what bytes begin with, or None if more of them are needed.
#[pyfunction]
#[pyo3(signature = (head, *, ended))]
pub(crate) fn beginning(head: &[u8], ended: bool) -> Option<&'static str> {
    Some(match Beginning::of(head, ended)? {
        Beginning::Frame => "frame",
        Beginning::InvalidFrame => "invalid frame",
        Beginning::CopyData => "copydata",
        Beginning::Message => "message",
        _ => "unknown",
    })
}

/// Returns the data of the first whole XLogData, after its offset.
///
/// None without one.
///
/// Args:
///     head: Frames, or one payload of CopyData.
#[pyfunction]
pub(crate) fn first_data<'py>(
    py: Python<'py>,
    head: &[u8],
) -> Option<(usize, Bound<'py, PyBytes>)> {
    let (offset, data) = wire::first_data(head)?;
    Some((offset, PyBytes::new(py, data)))
}
