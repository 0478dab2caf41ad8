//! Which transactions come out of which bytes.

mod lines;
mod prepared;
mod properties;
mod spool;
mod streamed;
mod transactions;
