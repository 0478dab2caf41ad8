//! Reads a segment as a whole, and compares it with its foot, the index and the state.

use crate::error::{DamagedPart, Error, ErrorKind};
use crate::format::index::{Segment, TableChanges};
use crate::format::listing::INDEX;
use crate::format::segment::Foot;
use crate::format::state::STATE;
use crate::read::Step;
use crate::read::log::Log;
use crate::read::recount::{Counts, Recount};

impl Log {
    /// Reads all bytes of a segment, and compares them with its checksums. Counts its stream again,
    /// and compares the counts with its foot and the index. `step` is called after each MiB or so of
    /// the segment, and at most 16 MiB of its stream. An error of `step` ends the call.
    ///
    /// # Errors
    /// The segment, the index or the state is damaged, or cannot be read; or the error of `step`.
    pub fn verify(&self, segment: &Segment, step: &mut Step<'_>) -> Result<(), Error> {
        let object = segment.name().to_string();
        let damaged = |object: &str, what| Err(Error::new(object, ErrorKind::Damaged { what }));
        if !self.state_object().is_possible() {
            return damaged(STATE, DamagedPart::State);
        }
        let mut opened = self.read_segments([segment]);
        let Some(mut reader) = opened.open_next()? else {
            return Ok(());
        };
        let foot = reader.foot();
        // A segment that was merged since is a part of a merged segment. Then the foot is the foot
        // of the merged segment.
        let is_own = (segment.start, segment.part) == (foot.start, foot.part);
        let mut described = self.described(segment, foot);
        if is_own && described != *foot {
            // The segment may have been rewritten since.
            let now = Self::open(self.objects())?;
            let found = now.segments().iter();
            let found = found.into_iter().find(|it| it.name() == segment.name());
            match found.map(|found| now.described(found, foot)) {
                Some(now) if now == *foot => described = now,
                _ => return damaged(INDEX, DamagedPart::Index),
            }
        }
        let mut recount = Recount::new();
        let mut chunk = Vec::new();
        while reader.read(&mut chunk)? {
            let counted = recount.take(&chunk);
            counted.map_err(|error| Error::new(&object, error.kind))?;
            step()?;
        }
        if !recount.is_whole() {
            return damaged(&object, DamagedPart::Content);
        }
        if recount.counts() != Counts::of(&described) {
            return damaged(&object, DamagedPart::Foot);
        }
        Ok(())
    }

    /// The foot of a segment, with all fields that the index has from the index.
    fn described(&self, segment: &Segment, foot: &Foot) -> Foot {
        let versions = self.versions();
        let table = |changes: &TableChanges| {
            let version = versions.get(changes.version)?;
            Some(changes.table(version))
        };
        Foot {
            start: segment.start,
            part: segment.part,
            end: segment.end,
            continues: segment.continues,
            transactions: segment.transactions,
            times: segment.times,
            gaps: segment.gaps.clone(),
            tables: segment.tables.iter().filter_map(table).collect(),
            stream_bytes: segment.stream_bytes,
            bytes: segment.bytes,
            crc32c: segment.crc32c,
            ..foot.clone()
        }
    }
}
