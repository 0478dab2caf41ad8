//! What files of `pg_recvlogical` take: memory for the bytes that are there, not for claimed ones.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "a panic is how a test fails"
)]

use walrow_stream::{Assembler, Event};
use walrow_testkit::allocation::{allocated, peak};
use walrow_testkit::{Stream, in_chunks, in_recvlogical, recvlogical, text};
use walrow_wire::{Framing, ReplicaIdentity};

const T: u32 = 16_384;
const MIB: usize = 1 << 20;

fn rows<'a>(assembler: &mut Assembler, pieces: impl IntoIterator<Item = &'a [u8]>) -> usize {
    let mut rows = 0;
    for piece in pieces {
        let mut rest = piece;
        while let Ok(Some(event)) = assembler.next(&mut rest) {
            rows += usize::from(matches!(event, Event::Change(_)));
        }
    }
    rows
}

fn table() -> Stream {
    let columns = [("note", 25, -1, true)];
    let stream = Stream::new().begin(0x1000, 700);
    stream.relation(T, "public", "t", ReplicaIdentity::Default, &columns)
}

#[test]
fn claimed_lengths_take_no_memory() {
    let begin = recvlogical(&table().bytes());
    let claims: [&[u8]; 6] = [
        b"I\0\0\x40\0N\0\x01t\x3f\xff\xff\x00",
        b"I\0\0\x40\0N\xff\xff",
        b"T\x0f\xff\xff\xff",
        b"T\xff\xff\xff\xff",
        b"M\x01\0\0\0\0\0\0\0\0\0\x3f\xff\xff\xff",
        b"R\0\0\x40\0\0t\0d\xff\xff",
    ];
    for claim in claims {
        let bytes = [&begin, claim].concat();
        for size in [1, 1000] {
            let mut assembler = Assembler::new(Framing::Recvlogical);
            let (held, rows) = peak(|| rows(&mut assembler, in_chunks(&bytes, &[size])));
            let held = held.expect("the test binary counts");
            assert_eq!(rows, 0);
            assert!(held < 100_000, "{held} bytes for {claim:02x?}");
        }
    }
}

#[test]
fn large_row_in_small_pieces_is_copied_few_times() {
    let value = "\n".repeat(16 * MIB);
    let stream = table().insert(T, &[text(value)]).commit();
    let bytes = recvlogical(&stream.bytes());
    let mut assembler = Assembler::new(Framing::Recvlogical);
    let (total, (held, rows)) =
        allocated(|| peak(|| rows(&mut assembler, in_chunks(&bytes, &[1000]))));
    assert_eq!(rows, 1);
    // Twice, in a vector that doubles.
    let held = held.expect("the test binary counts");
    assert!(held < 100 * MIB, "{held} bytes at a time");
    assert!(total < 200 * MIB, "{total} bytes in all");
}

/// What is remembered of returned transactions has a limit.
#[test]
fn many_transactions_take_little() {
    let pieces = in_recvlogical(&table().commit().bytes());
    let (begin, relation, commit) = match &pieces[..] {
        [begin, relation, commit] => (begin, relation, commit),
        other => panic!("{} messages", other.len()),
    };
    let mut assembler = Assembler::new(Framing::Recvlogical);
    let mut transactions = 0;
    let (held, ()) = peak(|| {
        for number in 0..600_000_u64 {
            let lsn = (0x1000 + number * 0x100).to_be_bytes();
            let (mut begin, mut commit) = (begin.clone(), commit.clone());
            begin[1..9].copy_from_slice(&lsn);
            commit[2..10].copy_from_slice(&lsn);
            for mut rest in [&*begin, relation, &*commit] {
                while let Ok(Some(event)) = assembler.next(&mut rest) {
                    transactions += u64::from(matches!(event, Event::Commit { .. }));
                }
            }
        }
    });
    assert_eq!(transactions, 600_000);
    assert_eq!(assembler.repeated_transactions(), 0);
    let held = held.expect("the test binary counts");
    assert!(held < 16 * MIB, "{held} bytes");
}
