//! The transactions that a stream's bytes contain.

mod encode;
mod lines;
mod net;
mod prepared;
mod properties;
mod recvlogical;
mod spool;
mod streamed;
mod transactions;
