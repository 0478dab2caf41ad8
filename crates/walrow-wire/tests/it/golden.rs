//! Captures of real servers.

#![expect(clippy::panic, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use walrow_testkit::{Capture, Step, captures, for_every_cut, fuzz, step, walk};
use walrow_wire::{BackendMessage, Cell, CopyData, ErrorKind, Frame, Message, OldTuple, Tuple};

/// Captures up to this size are cut and changed at every byte.
const SMALL: usize = 8 * 1024;

fn logical() -> Vec<Capture> {
    let mut captures = captures();
    captures.retain(|capture| !capture.is_physical());
    assert!(!captures.is_empty());
    captures
}

fn steps(capture: &Capture) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let used = walk(&capture.bytes, |step| steps.push(step))
        .unwrap_or_else(|error| panic!("{}: {error}", capture.name));
    assert_eq!(used, capture.bytes.len(), "{}", capture.name);
    assert!(!steps.is_empty(), "{}", capture.name);
    steps
}

#[test]
fn captures_parse_and_encode_to_the_same_bytes() {
    for capture in logical() {
        let (mut frames, mut messages) = (Vec::new(), Vec::new());
        for step in steps(&capture) {
            step.backend.encode(&mut frames);
            // Again from the inside: message, payload, frame.
            match (&step.backend, &step.message) {
                (BackendMessage::CopyData(CopyData::XLogData(data)), Some(message)) => {
                    let (mut payload, mut bytes) = (Vec::new(), Vec::new());
                    message.encode(&mut bytes);
                    assert_eq!(bytes, data.message, "{}", capture.name);
                    data.encode_header(&mut payload);
                    payload.extend_from_slice(&bytes);
                    let frame = Frame {
                        tag: b'd',
                        body: &payload,
                    };
                    frame.encode(&mut messages);
                }
                _ => step.frame.encode(&mut messages),
            }
        }
        assert_eq!(frames, capture.bytes, "{}", capture.name);
        assert_eq!(messages, capture.bytes, "{}", capture.name);
        fuzz::frames(&capture.bytes);
    }
}

#[test]
fn physical_replication_is_refused_at_its_first_data() {
    let mut physical = captures();
    physical.retain(Capture::is_physical);
    assert!(!physical.is_empty(), "no capture of physical replication");
    for capture in physical {
        let error = walk(&capture.bytes, |_| {}).expect_err(&capture.name);
        assert_eq!(error.kind, ErrorKind::PhysicalStream, "{}", capture.name);
        fuzz::frames(&capture.bytes);
    }
}

/// A guard: together, the captures contain every message of pgoutput.
#[test]
fn captures_hold_every_message_cell_and_frame() {
    let mut seen = BTreeSet::new();
    for capture in logical() {
        for step in steps(&capture) {
            seen.insert(format!("frame {}", char::from(step.frame.tag)));
            if let BackendMessage::CopyData(CopyData::PrimaryKeepalive(_)) = step.backend {
                seen.insert("keepalive".into());
            }
            let Some(message) = step.message else {
                continue;
            };
            let block = if step.in_stream { "block" } else { "plain" };
            seen.insert(format!("{} {block}", message.name()));
            let tuples = match message {
                Message::Insert(insert) => vec![insert.new],
                Message::Delete(delete) => vec![delete.old.tuple()],
                Message::Update(update) => {
                    seen.insert(format!(
                        "Update {}",
                        match update.old {
                            None => "without old row",
                            Some(OldTuple::Key(_)) => "with old key",
                            Some(_) => "with old row",
                        }
                    ));
                    let old = update.old.map(OldTuple::tuple);
                    old.into_iter().chain([update.new]).collect()
                }
                Message::StreamAbort(abort) => {
                    let long = abort.abort.is_some();
                    seen.insert(format!(
                        "Stream Abort {}",
                        if long { "long" } else { "short" }
                    ));
                    vec![]
                }
                _ => vec![],
            };
            for cell in tuples.iter().flat_map(Tuple::cells) {
                seen.insert(format!(
                    "cell {}",
                    match cell {
                        Cell::Null => "null",
                        Cell::Unchanged => "unchanged",
                        Cell::Text([]) => "of empty text",
                        Cell::Text(_) => "of text",
                        Cell::Binary(_) => "of binary",
                    }
                ));
            }
        }
    }
    for wanted in [
        "frame W",
        "frame d",
        "frame N",
        "frame S",
        "frame E",
        "frame c",
        "frame C",
        "frame Z",
        "keepalive",
        "Begin plain",
        "Commit plain",
        "Origin plain",
        "Origin block",
        "Relation plain",
        "Relation block",
        "Type plain",
        "Type block",
        "Insert plain",
        "Insert block",
        "Update plain",
        "Update block",
        "Delete plain",
        "Delete block",
        "Truncate plain",
        "Truncate block",
        "Message plain",
        "Message block",
        "Stream Start plain",
        "Stream Stop block",
        "Stream Commit plain",
        "Stream Abort plain",
        "Stream Abort short",
        "Stream Abort long",
        "Begin Prepare plain",
        "Prepare plain",
        "Commit Prepared plain",
        "Rollback Prepared plain",
        "Stream Prepare plain",
        "Update without old row",
        "Update with old key",
        "Update with old row",
        "cell null",
        "cell unchanged",
        "cell of text",
        "cell of empty text",
        "cell of binary",
    ] {
        assert!(
            seen.contains(wanted),
            "no capture holds: {wanted}; {seen:?}"
        );
    }
}

#[test]
fn captures_cut_short_end_at_their_last_whole_frame() {
    let mut cuts = 0;
    for capture in logical() {
        let steps = steps(&capture);
        if capture.bytes.len() <= SMALL {
            for_every_cut(&capture.bytes, |head, _| {
                let whole = steps
                    .iter()
                    .map(|step| step.offset + Frame::HEADER + step.frame.body.len())
                    .take_while(|end| *end <= head.len())
                    .last();
                assert_eq!(
                    walk(head, |_| {}),
                    Ok(whole.unwrap_or(0)),
                    "{}",
                    capture.name
                );
                cuts += 1;
            });
            continue;
        }
        for step in steps {
            let size = Frame::HEADER + step.frame.body.len();
            let frame = &capture.bytes[step.offset..step.offset + size];
            for cut in [0, 1, 4, 5, 6, size / 2, size - 1] {
                if cut < size {
                    assert_eq!(Frame::parse(&frame[..cut]), Ok(None), "{}", capture.name);
                    cuts += 1;
                }
            }
            let followed = &capture.bytes[step.offset..];
            assert_eq!(Frame::parse(followed), Ok(Some((step.frame, size))));
        }
    }
    assert!(cuts > 10_000, "{cuts}");
}

#[test]
fn messages_of_captures_cut_short_are_errors() {
    let mut cuts = 0;
    for capture in logical() {
        for step in steps(&capture) {
            let (BackendMessage::CopyData(CopyData::XLogData(data)), Some(message)) =
                (step.backend, step.message)
            else {
                continue;
            };
            let long = data.message.len();
            let near = (0..long.min(100)).chain(long.saturating_sub(10).max(100)..long);
            for cut in near {
                let parsed = Message::parse(&data.message[..cut], step.in_stream);
                if matches!(message, Message::StreamAbort(_)) && cut == 9 {
                    assert!(parsed.is_ok());
                    continue;
                }
                let error = parsed.expect_err(&capture.name);
                assert!(
                    matches!(
                        error.kind,
                        ErrorKind::UnexpectedEnd { .. } | ErrorKind::UnterminatedString
                    ),
                    "{}: {error}",
                    capture.name
                );
                assert!(error.offset <= cut, "{}: {error}", capture.name);
                cuts += 1;
            }
        }
    }
    assert!(cuts > 10_000, "{cuts}");
}

#[test]
fn captures_changed_in_any_byte_do_not_panic() {
    let mut changes = 0_usize;
    let distance = step(5);
    for capture in logical() {
        if capture.bytes.len() > SMALL {
            continue;
        }
        // The frames before the changed frame stay the same: each frame is changed alone.
        for step in steps(&capture) {
            let size = Frame::HEADER + step.frame.body.len();
            let mut frame = capture.bytes[step.offset..step.offset + size].to_vec();
            for place in (0..size).step_by(distance) {
                for mask in [0xFF, 0x01, 0x80] {
                    frame[place] ^= mask;
                    fuzz::frames(&frame);
                    frame[place] ^= mask;
                    changes += 1;
                }
            }
        }
    }
    assert!(changes * distance > 100_000, "{changes}");
}
