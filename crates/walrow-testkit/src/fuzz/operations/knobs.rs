//! Checks that wait for the decoder: each is switched off by `false`, and named after its fault.

/// A Commit whose end LSN is 0/0 hands out its rows where no start was given.
pub(super) const COMMIT_ENDS_AT_ZERO: bool = false;
/// A transaction that is spilled while its memory is empty keeps its file.
pub(super) const SPILLED_WHILE_EMPTY: bool = false;
/// `late_start` outlives saving and restoring what is prepared.
pub(super) const LATE_START_IS_SAVED: bool = false;
/// A Prepare without its Begin Prepare, and a Commit Prepared of what is not held, are those of
/// empty transactions.
pub(super) const EMPTY_PREPARED: bool = false;
/// Both images of an update lie in one batch.
pub(super) const UPDATES_ARE_WHOLE: bool = false;
/// A batch counts no more nulled values than it has nulls.
pub(super) const NULLED_ARE_NULL: bool = false;
/// A Truncate that names a relation many times takes no memory for each.
pub(super) const TRUNCATE_IS_BOUNDED: bool = false;
/// Long names take no memory for each row.
pub(super) const NAMES_ARE_BOUNDED: bool = false;
/// After an error the input ends in no transaction.
pub(super) const ERROR_ENDS_TRANSACTION: bool = false;
/// A restored transaction is read by no other transaction's description of a relation.
pub(super) const RESTORED_ARE_APART: bool = false;
