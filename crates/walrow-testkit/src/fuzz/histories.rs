//! Arbitrary histories, each delivered in two ways and then broken in one place.

use super::frames;
use crate::History;
use crate::reference::committed;
use arbitrary::Unstructured;

/// Both deliveries come to what the history says; a broken stream is an error or a round trip.
pub fn histories(data: &[u8]) -> arbitrary::Result<()> {
    let mut u = Unstructured::new(data);
    let history: History = u.arbitrary()?;
    let expected = history.expected();
    for stream in [history.whole(), history.delivered()] {
        let committed = committed(&stream.bytes()).expect("a history's stream is valid");
        assert_eq!(committed.transactions, expected);
        assert_eq!(committed.notes, history.expected_notes());
        frames(&stream.broken(&mut u)?.bytes());
    }
    Ok(())
}
