//! Changes a log beside its writer: registers readers, and removes, merges and erases segments.

pub(crate) mod columns;
pub(crate) mod compaction;
pub(crate) mod erase;
pub(crate) mod erasure;
pub(crate) mod filter;
pub(crate) mod readers;
pub(crate) mod retention;

use crate::error::Error;
use crate::read::log::Log;
use crate::store::Store;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use walrow_wire::Oid;

/// Registers the readers of a log, and removes and merges its segments. Any number of readers and
/// a writer may use the log meanwhile.
///
/// ```
/// use std::sync::Arc;
/// use walrow_log::{Directory, Upkeep, Writer, WriterOptions};
/// use walrow_wire::Timestamp;
///
/// # let path = std::env::temp_dir().join(format!("walrow-upkeep-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&path);
/// # drop(Writer::open(Arc::new(Directory::create(&path)?), WriterOptions::default())?);
/// let mut upkeep = Upkeep::open(Arc::new(Directory::open(&path)?))?;
/// let reader = upkeep.register("nightly", None, Timestamp(0))?;
/// assert_eq!(reader.position, upkeep.start());
/// upkeep.compact(64 << 20, &mut || Ok(()))?;
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Upkeep {
    store: Arc<dyn Store>,
    log: Log,
    tables: BTreeMap<Oid, Option<(String, String)>>,
}

impl Upkeep {
    /// Opens a log.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn open(store: Arc<dyn Store>) -> Result<Self, Error> {
        let log = Log::open(store.clone())?;
        let tables = BTreeMap::new();
        Ok(Self { store, log, tables })
    }

    /// Sets the schema and the name that tables have now. The last load of a table without them
    /// holds no segments: it is not published any more. Other tables have the names in the log.
    pub fn set_tables(&mut self, tables: BTreeMap<Oid, Option<(String, String)>>) {
        self.tables = tables;
    }

    /// Looks for segments that were published since, as [`Log::follow`].
    ///
    /// # Errors
    /// As [`Log::follow`].
    pub fn follow(&mut self) -> Result<usize, Error> {
        self.log.follow()
    }

    /// Opens the log again: other processes may have removed or merged segments.
    fn refresh(&mut self) -> Result<(), Error> {
        self.log = Log::open(self.store.clone())?;
        Ok(())
    }
}

/// The log as it was when it was opened, changed or followed last.
impl Deref for Upkeep {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.log
    }
}
