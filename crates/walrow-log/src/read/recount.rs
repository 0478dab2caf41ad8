//! Counts the contents of a stream again, as its writer did.

use crate::error::Error;
use crate::format::contents::{Contents, Which};
use crate::format::segment::{Foot, TableFoot};
use crate::spool::FileSpool;
use std::sync::Arc;
use walrow_stream::fact::{Gap, Source};
use walrow_stream::{Assembler, Event, Fact};
use walrow_wire::{Framing, Lsn};

/// Memory for a transaction that is cut. The rest of the transaction waits in a file.
const MEMORY: usize = 8 << 20;

/// A stream that is counted.
#[derive(Debug)]
pub(crate) struct Recount {
    assembler: Assembler,
    contents: Contents,
    /// Whether the last transaction continues elsewhere.
    continues: bool,
}

impl Recount {
    pub(crate) fn new() -> Self {
        let assembler = Assembler::new(Framing::Wire)
            .with_spool(Arc::new(FileSpool::default()))
            .with_spool_memory(MEMORY);
        Self {
            assembler,
            contents: Contents::default(),
            continues: false,
        }
    }

    /// Counts a chunk of the stream.
    pub(crate) fn take(&mut self, mut chunk: &[u8]) -> Result<(), Error> {
        let Self {
            assembler,
            contents,
            continues,
        } = self;
        while let Some(event) = assembler.next_with(&mut chunk, |change| {
            if !change.is_valid() {
                // Reading the change returns the error.
                change.read()?;
            }
            contents.row(change.relation, change.row.size());
            Ok::<_, walrow_stream::Error>(())
        })? {
            match event {
                Event::Change(error) => return Err(error.into()),
                Event::Begin(transaction) => {
                    *continues = false;
                    contents.begin(transaction);
                }
                Event::Truncate(truncate) => {
                    for relation in &truncate.relations {
                        contents.truncate(relation);
                    }
                }
                Event::Fact(fact) => match *fact {
                    Fact::Continues => *continues = true,
                    Fact::Gap(gap) => contents.gap(gap),
                    _ => {}
                },
                Event::Commit { .. } => contents.commit(),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the stream ends between transactions, or with a part of a transaction.
    pub(crate) fn is_whole(&self) -> bool {
        self.continues || !self.assembler.is_mid_transaction()
    }

    /// The counts, as a foot has them.
    pub(crate) fn counts(&self) -> Counts {
        Counts::of(&self.foot())
    }

    /// The changes of tables.
    pub(crate) fn tables(&self) -> Vec<TableFoot> {
        self.foot().tables
    }

    fn foot(&self) -> Foot {
        let which = if self.continues {
            Which::Current
        } else {
            Which::Whole
        };
        self.contents.foot(which, &Source::default(), Lsn::INVALID)
    }
}

/// The counts of a foot, with the tables in a fixed order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    continues: bool,
    transactions: u64,
    times: Option<(i64, i64)>,
    gaps: Vec<Gap>,
    tables: Vec<TableFoot>,
}

impl Counts {
    pub(crate) fn of(foot: &Foot) -> Self {
        let tables = foot.tables.iter().map(|table| TableFoot {
            // These bytes depend on how the relations were described.
            bytes: 0,
            ..table.clone()
        });
        let mut tables: Vec<_> = tables.collect();
        tables.sort_unstable_by(|one, other| order(one).cmp(&order(other)));
        Self {
            continues: foot.continues,
            transactions: foot.transactions,
            times: foot.times,
            gaps: foot.gaps.clone(),
            tables,
        }
    }
}

type Order<'a> = (u32, &'a str, &'a str, &'a [(String, u32, i32, bool)], char);

fn order(table: &TableFoot) -> Order<'_> {
    let TableFoot {
        oid,
        schema,
        name,
        columns,
        identity,
        ..
    } = table;
    (*oid, schema, name, columns, *identity)
}
