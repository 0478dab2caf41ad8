//! Python bindings of walrow: `walrow._core`.
//!
//! They convert options, pass bytes to the decoder, and return batches through the Arrow PyCapsule
//! interface. The interpreter lock is released while bytes are decoded.
//!
//! The comments of classes, methods and getters are Python's docstrings. `_core.pyi` has the same
//! ones, and a test compares them.

#![expect(
    clippy::doc_markdown,
    reason = "the comments of classes and methods are Python's docstrings"
)]

mod backup;
mod batch;
mod catalog;
mod column_counts;
mod commands;
mod copy_data;
mod count;
mod dataframes;
mod decoder;
mod detached;
mod engine;
mod errors;
mod export;
mod log;
mod log_block;
mod log_eraser;
mod log_load;
mod log_net;
mod log_objects;
mod log_rows;
mod log_store;
mod log_writer;
mod lsn;
mod messages;
mod options;
mod reader;
mod rows;
mod schema;
mod schema_union;
mod signals;
mod survey;
mod upkeep;
mod zstd;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::backup::{
        base_backup_command, crc32c, hot_standby_feedback, parse_backup_data,
        parse_backup_position, parse_next_timeline, parse_read_slot, parse_setting,
        parse_tablespace, read_slot_command, show_command, start_physical_command,
        upload_manifest_command, wal_position,
    };
    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::catalog::Catalog;
    #[pymodule_export]
    use crate::commands::{
        alter_slot_command, create_physical_slot_command, create_slot_command, drop_slot_command,
        parse_created_slot, parse_identify_system, parse_timeline_history,
        start_replication_command, timeline_history_command,
    };
    #[pymodule_export]
    use crate::copy_data::{
        beginning, copy_data_header, end_of_wal, first_data, frame_size, is_keepalives,
        status_update,
    };
    #[pymodule_export]
    use crate::count::Counts;
    #[pymodule_export]
    use crate::decoder::{BatchIterator, Decoder};
    #[pymodule_export]
    use crate::log::{LogDirectory, LogFile};
    #[pymodule_export]
    use crate::log_block::LogBlock;
    #[pymodule_export]
    use crate::log_eraser::LogEraser;
    #[pymodule_export]
    use crate::log_load::{LogCopy, LogLoad};
    #[pymodule_export]
    use crate::log_net::{NetJoin, NetPart, NetTally};
    #[pymodule_export]
    use crate::log_objects::{LogLock, LogObjects};
    #[pymodule_export]
    use crate::log_rows::LogRows;
    #[pymodule_export]
    use crate::log_writer::LogWriter;
    #[pymodule_export]
    use crate::messages::{Frame, Frames, Message, Unchanged};
    #[pymodule_export]
    use crate::reader::Reader;
    #[pymodule_export]
    use crate::rows::Rows;
    #[pymodule_export]
    use crate::schema::Schema;
    #[pymodule_export]
    use crate::schema_union::SchemaUnion;
    #[pymodule_export]
    use crate::survey::Survey;
    #[pymodule_export]
    use crate::zstd::ZstdDecompressor;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("WAL_HEADER", crate::backup::WAL_HEADER)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("FRAME_HEADER", crate::copy_data::FRAME_HEADER)?;
        module.add("KEEPALIVE_SIZE", crate::copy_data::KEEPALIVE_SIZE)?;
        module.add("OPTIONS", crate::options::defaults(module.py())?)?;
        let of_decoders = crate::options::decoder_defaults(module.py())?;
        module.add("DECODER_OPTIONS", of_decoders)?;
        module.add("UNCHANGED", crate::messages::unchanged(module.py())?)
    }
}
