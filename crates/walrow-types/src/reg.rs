//! `regclass`, `regtype` and the other `reg` types: “Object Identifier Types”.
//!
//! ```text
//! text    pg_type     the name
//! binary  u32 OID     its text is the number: the name is unknown
//! ```

use crate::digits::write_decimal;
use crate::int::u32_from_binary;
use crate::pg_type::{PgType, known, text_from_binary};

/// `regclass` and the other types that name an object of the catalog.
#[derive(Clone, Copy, Debug)]
pub struct Reg;

known!(
    Reg: REGPROC, REGPROCEDURE, REGOPER, REGOPERATOR, REGCLASS, REGTYPE, REGCONFIG, REGDICTIONARY,
    REGNAMESPACE, REGROLE, REGCOLLATION, REGDATABASE;
);

impl PgType for Reg {
    text_from_binary!(|cell, out| {
        write_decimal(u32_from_binary(cell)?, out);
        Ok(())
    });
}
