//! The options of net changes.

use crate::catalog::CatalogColumn;

/// The options of [`Net::changes`](crate::Net::changes).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetOptions {
    /// The target finds rows by these columns. Default: the columns of the replica identity, or of
    /// the primary key in the catalog under REPLICA IDENTITY FULL.
    pub keys: Option<Vec<String>>,
    /// The keys that are texts in the target. They are compared as PostgreSQL's text, so `1.0` and
    /// `1.00` are two keys.
    pub text_keys: Vec<String>,
    /// The effect of deletes.
    pub deletes: Deletes,
    /// The effect of truncates.
    pub truncates: Truncates,
    /// The columns of the net rows.
    pub columns: NetColumns,
    /// With [`NetColumns::All`]: columns that the target may have from before the range. They are NULL
    /// in new rows without them, and all others keep what the target has.
    pub known: Vec<CatalogColumn>,
    /// Columns that may lack a value that was never sent. It is neither an error nor counted.
    pub nullable: Vec<String>,
    /// The effect of other values that were never sent.
    pub never_sent: NeverSent,
}

/// The effect of deletes on the rows of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must know each of them")]
pub enum Deletes {
    /// They remove rows.
    #[default]
    Apply,
    /// They mark rows, which keep their last values.
    Soft,
    /// They do nothing.
    Ignore,
}

/// The effect of truncates. A load is not a truncate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must know each of them")]
pub enum Truncates {
    /// They remove all rows.
    #[default]
    Apply,
    /// They do nothing.
    Ignore,
}

/// The columns of net rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must know each of them")]
pub enum NetColumns {
    /// The columns of the last version. A change of a column that does not give its old values is
    /// an error, as in a state.
    #[default]
    Last,
    /// The columns of all versions, by their names, with the types of the last version that has
    /// them. So a dropped column keeps the values that were sent, and a renamed column is new.
    All,
}

/// The effect of values that were never sent, in rows that the target does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must know each of them")]
pub enum NeverSent {
    /// They are an error.
    #[default]
    Error,
    /// They are NULL, and counted.
    Null,
}
