//! Turns PostgreSQL's replication messages into committed transactions, in commit order.
//!
//! The [`Assembler`] takes the bytes of a stream, cut anywhere, and returns the [`Event`]s of
//! committed transactions. It never returns a row of a transaction that is open, cut off or rolled
//! back. It keeps the relation versions of the rows ([`Relation`]).
//!
//! ```
//! use walrow_stream::{Assembler, Event};
//!
//! let stream: &[u8] = &[]; // wire frames, from a file or a connection
//! let mut assembler = Assembler::default();
//! let mut input = stream;
//! while let Some(event) = assembler.next(&mut input)? {
//!     match event {
//!         Event::Begin(transaction) => println!("transaction {}", transaction.xid),
//!         Event::Change(change) => println!("{} #{}", change.relation, change.seq),
//!         Event::Commit { transaction, .. } => println!("durable up to {}", transaction.end_lsn),
//!         _ => {}
//!     }
//! }
//! # Ok::<(), walrow_stream::Error>(())
//! ```

mod assembler;
mod catalog;
mod ddl;
mod encode;
mod encoding;
mod error;
pub mod fact;
mod frames;
mod net;
mod printable;
mod recent;
mod relation;
mod spool;
mod transaction;
mod undecided;
mod walk;

pub use assembler::{Assembler, End};
pub use catalog::{
    Attribute, Catalog, CatalogColumn, CatalogError, CatalogTable, CatalogType, TypeKind,
};
pub use ddl::{Ddl, DdlColumn};
pub use encode::Encoder;
pub use encoding::Encoding;
pub use error::{Error, ErrorKind, Location, MessagePlace, Remedy};
pub use fact::{Fact, Segment};
pub use net::{
    Barrier, CellText, CellTextOf, Deletes, Gap, KeyBytes, KeyBytesOf, Net, NetColumns, NetError,
    NetJoin, NetOptions, NetRows, NeverSent, Tally, Truncates,
};
pub use printable::Printable;
pub use relation::{Column, Relation, TypeName};
pub use spool::{Spool, SpoolFile};
pub use transaction::{
    Change, Event, Message, Origin, Prepared, RowChange, Transaction, Truncate, Unread,
};
pub use walk::{Counts, Step, Walk};
