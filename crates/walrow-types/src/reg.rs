//! `regclass`, `regtype` and the like: a name in text, an OID in binary, whose name is not looked
//! up.

use crate::int::{u32_from_binary, write_decimal};
use crate::pg_type::{PgType, known, text_from_binary};

/// `regclass` and the other types that name an object of the catalog.
#[derive(Clone, Copy, Debug)]
pub struct Reg;

known!(
    Reg: REGPROC, REGPROCEDURE, REGOPER, REGOPERATOR, REGCLASS, REGTYPE, REGCONFIG, REGDICTIONARY,
    REGNAMESPACE, REGROLE, REGCOLLATION;
);

impl PgType for Reg {
    text_from_binary!(|cell, out| {
        write_decimal(u32_from_binary(cell)?, out);
        Ok(())
    });
}
