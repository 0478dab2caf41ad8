//! Does one thing once, for a counter of instructions.
//!
//! `once floor|walrow FILE` reads a capture. `once append FILE LOG` writes it to a new log, `once
//! segments FILE LOG` too, as many small segments, `once read LOG` decodes a log, `once state LOG TABLE`
//! makes the rows of a table, and `once net LOG TABLE` its net changes.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use walrow::log::{Directory, Log, LogNetOptions, StateOptions};
use walrow::{cell_text, key_bytes};
use walrow_benches::{decode, log};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments.as_slice() {
        ["floor", file] => {
            walrow_floor::rows(&std::fs::read(file)?, |table| drop(black_box(table)));
        }
        ["walrow", file] => {
            decode::rows(&std::fs::read(file)?)?;
        }
        ["append", file, folder] => log::append(&std::fs::read(file)?, Path::new(folder), None)?,
        ["segments", file, folder] => {
            log::append(&std::fs::read(file)?, Path::new(folder), Some(log::SMALL))?;
        }
        ["read", folder] => drop(log::rows(Path::new(folder))?),
        ["state", log, table] => state(log, table)?,
        ["net", log, table] => net(log, table)?,
        _ => {
            let usage =
                "once floor|walrow FILE, append|segments FILE LOG, read LOG, state|net LOG TABLE";
            return Err(usage.into());
        }
    }
    Ok(())
}

/// Makes the rows of a table, as a stream.
fn state(log: &str, table: &str) -> Result<(), Box<dyn Error>> {
    let log = Log::open(Arc::new(Directory::open(log)?))?;
    let mut options = StateOptions::default();
    options.cell_text = Some(cell_text);
    let mut rows = log.state(&|_, _, name| name == table, options)?;
    let mut chunk = Vec::new();
    while rows.read(&mut chunk)? {
        black_box(&chunk);
    }
    Ok(())
}

/// Makes the net changes of a table since the beginning of a log, as a stream.
fn net(log: &str, table: &str) -> Result<(), Box<dyn Error>> {
    let log = Log::open(Arc::new(Directory::open(log)?))?;
    let mut options = LogNetOptions::default();
    options.cell_text = Some(cell_text);
    options.key_bytes = Some(key_bytes);
    let wants = |_, schema: &str, name: &str| format!("{schema}.{name}") == table;
    let mut net = log.net(&wants, options)?;
    let mut chunk = Vec::new();
    while net.read(&mut chunk)? {
        black_box(&chunk);
    }
    Ok(())
}
