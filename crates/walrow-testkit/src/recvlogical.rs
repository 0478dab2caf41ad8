//! Streams as `pg_recvlogical` writes them.

use crate::walk;

/// The file that `pg_recvlogical` makes of a connection's bytes: their messages, each followed by a
/// newline.
pub fn recvlogical(wire: &[u8]) -> Vec<u8> {
    in_recvlogical(wire).concat()
}

/// As [`recvlogical`], one piece per message.
pub fn in_recvlogical(wire: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    walk(wire, |step| {
        if let Some(message) = step.message {
            let mut piece = Vec::new();
            message.encode(&mut piece);
            piece.push(b'\n');
            pieces.push(piece);
        }
    })
    .expect("the stream is valid");
    pieces
}
