//! The source of a writer's changes, and the comparison of the session's server with the log's
//! server.

use crate::error::Error;
use crate::write::comparison::Comparison;
use std::collections::BTreeMap;
use std::mem;
use walrow_stream::Message;
use walrow_stream::fact::{Fact, PreparedBefore, Source, Taken};
use walrow_wire::Lsn;

/// The source of a log, and the session that sends more changes.
#[derive(Debug, Default)]
pub(crate) struct Session {
    source: Source,
    /// Whether the server of the session is the log's.
    comparison: Comparison,
    /// The server's timeline and options, until the comparison has ended.
    found: Found,
    /// The last transaction that was prepared after `source.last`, and the end of its record. It
    /// becomes `source.last` once the log is past its record.
    last_prepare: Option<(Taken, Lsn)>,
    /// The only prefix of logical messages that the session takes. `None` takes all messages.
    prefix: Option<String>,
}

/// The timeline and the options of a session.
#[derive(Debug, Default)]
struct Found {
    timeline: Option<(u32, Option<Lsn>)>,
    asked: Option<BTreeMap<String, String>>,
}

/// Facts that have to be noted in the stream.
pub(crate) type Facts = Vec<Fact>;

impl Session {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source,
            ..Self::default()
        }
    }

    pub(crate) const fn source(&self) -> &Source {
        &self.source
    }

    /// Begins another session, without a comparison of its server.
    pub(crate) fn begin(&mut self) {
        self.last_prepare = None;
        (self.comparison, self.found) = (Comparison::default(), Found::default());
        self.prefix = None;
    }

    /// Whether the session takes a logical message. Another message is as if it was never sent: the
    /// server is compared without it, too.
    pub(crate) fn takes_message(&self, message: &Message<'_>) -> bool {
        let is_wanted = |prefix| message.transactional && message.prefix == prefix;
        self.prefix.as_deref().is_none_or(is_wanted)
    }

    /// Begins to compare the server with the log, which ends at `end`.
    pub(crate) fn compare(&mut self, end: Lsn, confirmed: Lsn, only: bool) {
        let last = self.source.last.as_ref();
        self.comparison = Comparison::begin(end, last, confirmed, only);
    }

    /// Notes that the server was compared before.
    pub(crate) fn assume_compared(&mut self, end: Lsn) {
        self.comparison = Comparison::known(end);
    }

    pub(crate) const fn is_compared(&self) -> bool {
        !self.comparison.is_waiting()
    }

    /// Whether the log takes new changes.
    pub(crate) const fn takes(&self) -> bool {
        self.comparison.takes()
    }

    /// Compares a transaction, prepare or message that ends at this LSN.
    pub(crate) fn meet(&mut self, found: &Taken, end: Lsn) -> Result<Facts, Error> {
        let has_passed = self.comparison.meet(found, end)?;
        Ok(self.passed(has_passed))
    }

    /// Notes that the server has sent everything up to this LSN.
    pub(crate) fn reach(&mut self, lsn: Lsn) -> Result<Facts, Error> {
        let has_passed = self.comparison.reach(lsn)?;
        Ok(self.passed(has_passed))
    }

    /// The session's timeline and options, if its server is now known to be the log's.
    fn passed(&mut self, has_passed: bool) -> Facts {
        if !has_passed || !self.takes() {
            return Facts::new();
        }
        let Found { timeline, asked } = mem::take(&mut self.found);
        let timeline = timeline.and_then(|(timeline, start)| self.set_timeline(timeline, start));
        let asked = asked.and_then(|options| self.set_asked(options));
        timeline.into_iter().chain(asked).collect()
    }

    /// Sets the last transaction or message that the log took.
    #[inline]
    pub(crate) fn take(&mut self, taken: Taken) {
        self.source.last = Some(taken);
        self.last_prepare = None;
    }

    /// Notes a prepared transaction, whose record ends at `end`.
    pub(crate) fn prepare(&mut self, taken: Taken, end: Lsn) {
        self.last_prepare = Some((taken, end));
    }

    /// Sets `source.last` to the last prepared transaction, if its record ends at or before this
    /// LSN.
    pub(crate) fn take_prepare(&mut self, until: Lsn) -> Option<Fact> {
        let (taken, _) = self.last_prepare.take_if(|(_, end)| *end <= until)?;
        self.source.last = Some(taken.clone());
        Some(Fact::Taken(taken))
    }

    pub(crate) fn set_timeline(&mut self, timeline: u32, start: Option<Lsn>) -> Option<Fact> {
        if !self.takes() {
            self.found.timeline = Some((timeline, start));
            return None;
        }
        let source = &mut self.source;
        let is_same = source.timeline == Some(timeline);
        if is_same && (start.is_none() || source.timeline_start == start) {
            return None;
        }
        (source.timeline, source.timeline_start) = (Some(timeline), start);
        Some(Fact::Timeline { timeline, start })
    }

    pub(crate) fn set_asked(&mut self, options: BTreeMap<String, String>) -> Option<Fact> {
        let messages = options.get("messages").and_then(|it| it.strip_prefix('"'));
        self.prefix = messages.and_then(|it| it.strip_suffix('"')).map(Into::into);
        if !self.takes() {
            self.found.asked = Some(options);
            return None;
        }
        if self.source.asked == options {
            return None;
        }
        self.source.asked.clone_from(&options);
        Some(Fact::Asked { options })
    }

    /// Notes where a gap ends.
    pub(crate) const fn cross_gap(&mut self, end: Lsn) {
        self.source.gap_end = Some(end);
    }

    pub(crate) fn set_slot_start(&mut self, lsn: Lsn) -> Option<Fact> {
        if self.source.slot_start == Some(lsn) {
            return None;
        }
        self.source.slot_start = Some(lsn);
        Some(Fact::SlotStart { lsn })
    }

    pub(crate) fn set_prepared_before(&mut self, before: &PreparedBefore) -> Option<Fact> {
        if self.source.prepared_before == *before {
            return None;
        }
        self.source.prepared_before = before.clone();
        Some(Fact::PreparedBefore(before.clone()))
    }

    /// Facts about the source for the journal. Segments have these facts in their feet.
    pub(crate) fn facts(&self) -> Facts {
        let Source {
            timeline,
            timeline_start: start,
            slot_start,
            prepared_before,
            asked,
            ..
        } = &self.source;
        let facts = [
            timeline.map(|timeline| Fact::Timeline {
                timeline,
                start: *start,
            }),
            (!asked.is_empty()).then(|| Fact::Asked {
                options: asked.clone(),
            }),
            slot_start.map(|lsn| Fact::SlotStart { lsn }),
            (!prepared_before.is_empty()).then(|| Fact::PreparedBefore(prepared_before.clone())),
        ];
        facts.into_iter().flatten().collect()
    }

    /// Takes over the facts about the source from a journal of this log.
    pub(crate) fn recover(&mut self, found: Recovered) {
        let source = &mut self.source;
        if let Some((timeline, start)) = found.timeline {
            (source.timeline, source.timeline_start) = (Some(timeline), start);
        }
        source.last = found.last.or_else(|| source.last.take());
        if let Some(asked) = found.asked {
            source.asked = asked;
        }
        source.slot_start = found.slot_start.or(source.slot_start);
        source.gap_end = found.gap_end.or(source.gap_end);
        if let Some(before) = found.prepared_before {
            source.prepared_before = before;
        }
    }
}

/// The facts about the source in a journal. A field is `None` if the journal has no such fact.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) timeline: Option<(u32, Option<Lsn>)>,
    pub(crate) last: Option<Taken>,
    pub(crate) asked: Option<BTreeMap<String, String>>,
    pub(crate) slot_start: Option<Lsn>,
    pub(crate) gap_end: Option<Lsn>,
    pub(crate) prepared_before: Option<PreparedBefore>,
}
