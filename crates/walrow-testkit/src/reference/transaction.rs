//! An open transaction.

use super::outcome::{Described, Reason};
use crate::{OwnedMessage, PgText};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A change, its (sub)transaction, its relations and the (sub)transactions that described them.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) writer: Option<u32>,
    pub(super) message: OwnedMessage,
    pub(super) relations: Vec<Arc<Described>>,
    pub(super) describers: Vec<Option<u32>>,
}

/// A description in a streamed transaction.
#[derive(Clone)]
pub(super) struct Own {
    pub(super) writer: u32,
    pub(super) relation: Arc<Described>,
    pub(super) arrival: usize,
}

#[derive(Clone, Default)]
pub(super) struct Transaction {
    pub(super) origin: Option<PgText>,
    pub(super) rows: Vec<Row>,
    /// Its own descriptions in order of arrival. Only for a streamed transaction.
    pub(super) own: Vec<Own>,
    /// The descriptions that its commit promotes.
    pub(super) kept: BTreeMap<u32, Own>,
    /// The session's descriptions that its rows use.
    pub(super) used: BTreeMap<u32, Arc<Described>>,
    pub(super) aborted: BTreeSet<u32>,
    /// Whether its begin is missing.
    pub(super) lost: bool,
}

impl Transaction {
    /// Rolls back a subtransaction. Its logical messages do not name it, so they stay.
    pub(super) fn abort(&mut self, subxid: u32) -> Result<(), Reason> {
        self.rows.retain(|row| row.writer != Some(subxid));
        self.own.retain(|own| own.writer != subxid);
        self.kept.retain(|_, own| own.writer != subxid);
        self.aborted.insert(subxid);
        let left = |row: &Row| row.describers.contains(&Some(subxid));
        if self.rows.iter().any(left) {
            return Err(Reason::Unclear("a row described by what was rolled back"));
        }
        Ok(())
    }
}
