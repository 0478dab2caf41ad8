//! Logs, and transactions that wait in files.

#[cfg(feature = "segments")]
mod ahead;
mod between;
#[cfg(feature = "segments")]
mod compaction;
#[cfg(feature = "segments")]
mod directory;
#[cfg(feature = "segments")]
mod erasure;
#[cfg(feature = "segments")]
mod faults;
mod fold;
#[cfg(feature = "segments")]
mod gaps;
#[cfg(feature = "segments")]
mod log;
#[cfg(feature = "segments")]
mod net;
#[cfg(feature = "segments")]
mod passing;
#[cfg(feature = "segments")]
mod recovery;
#[cfg(feature = "segments")]
mod retention;
#[cfg(feature = "segments")]
mod same_server;
#[cfg(feature = "segments")]
mod segments;
mod spool;
#[cfg(feature = "segments")]
mod stages;
#[cfg(feature = "segments")]
mod upkeep;
#[cfg(feature = "segments")]
mod versions;
#[cfg(feature = "segments")]
mod world;

/// How many random cases a long test has: all of them with the slow tests.
#[cfg(feature = "segments")]
fn cases(all: u32) -> u32 {
    if walrow_testkit::is_slow() {
        all
    } else {
        all / 4
    }
}

/// The stream of all segments.
#[cfg(feature = "segments")]
#[expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
fn read_all(log: &walrow_log::Log) -> walrow_log::PlanReader {
    let names = log.plan(&walrow_log::Plan::default()).unwrap();
    log.read(&names, walrow_wire::Lsn::INVALID).unwrap()
}

/// Makes everything durable, and returns the durable position. 0/0 if there is no such position.
#[cfg(feature = "segments")]
fn sync(
    writer: &mut walrow_log::Writer,
    assembler: &mut walrow_stream::Assembler,
) -> Result<walrow_wire::Lsn, walrow_log::Error> {
    let durable = writer.sync(assembler)?;
    Ok(durable.map_or(walrow_wire::Lsn::INVALID, walrow_log::Confirmable::lsn))
}
