//! Keeps a table of SQLite as a table of a log is: docs/net.md has the rules.
//!
//! ```text
//! cargo run -p walrow --example sqlite_target LOG TABLE DATABASE
//! ```
//! The database gets the rows, and up to where it has them, in one transaction. So the program may be
//! killed at any time, and its next run goes on. All values are PostgreSQL's texts.

#![expect(clippy::print_stdout, reason = "an example prints")]

use rusqlite::{Connection, Transaction, TransactionBehavior, params, params_from_iter};
use std::error::Error;
use std::sync::Arc;
use walrow::arrow_array::Array;
use walrow::arrow_array::cast::AsArray;
use walrow::log::{Directory, Log, LogNetOptions, NetCheckpoint};
use walrow::stream::Column;
use walrow::{Batch, DecoderBuilder, Lsn, Profile, net_changes};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [log, table, database] = &*arguments else {
        return Err("sqlite_target LOG TABLE DATABASE".into());
    };
    let log = Log::open(Arc::new(Directory::open(log)?))?;
    let end = apply(&log, table, &mut Connection::open(database)?)?;
    println!("up to {end}");
    Ok(())
}

/// Applies what the database lacks, in one transaction. Returns up to where it is then.
fn apply(log: &Log, table: &str, db: &mut Connection) -> Result<Lsn, Box<dyn Error>> {
    let db = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    db.execute_batch("CREATE TABLE IF NOT EXISTS applied (name PRIMARY KEY, checkpoint)")?;
    let query = "SELECT max(checkpoint) FROM applied WHERE name = ?";
    let stored: Option<String> = db.query_row(query, [table], |row| row.get(0))?;
    let stored: Option<NetCheckpoint> = stored.map(|it| it.parse()).transpose()?;
    let mut options = LogNetOptions::default();
    options.start = stored.as_ref().map_or(Lsn(0), NetCheckpoint::end);
    // Keys are texts: 1.0 and 1.00 are two of them.
    let columns = log.versions().iter().flat_map(|it| &it.columns);
    options.net.text_keys = columns.map(|(name, ..)| name.clone()).collect();
    let decoder = DecoderBuilder::new().with_profile(Profile::Text);
    let mut net = net_changes(log, table, options, decoder)?;
    // Refuses another log, another table, and another key.
    let checkpoint = net.checkpoint(stored.as_ref())?;
    if net.tally()?.clears {
        // The table may have another key now.
        db.execute_batch(&format!("DROP TABLE IF EXISTS {}", quoted(table)))?;
    }
    let mut names = None;
    for batch in &mut net {
        let batch = batch?;
        let names = names.insert(prepare(&db, table, &batch.relation().columns)?);
        land(&db, names, &batch)?;
    }
    // Nothing is written before all old values were read.
    if let Some(Names { to, keys, columns }) = names {
        db.execute_batch(&format!(
            "DELETE FROM {to} WHERE ({keys}) IN (SELECT {keys} FROM removed);
             REPLACE INTO {to} ({columns}) SELECT {columns} FROM written;
             DROP TABLE removed; DROP TABLE written"
        ))?;
    }
    let has = params![table, checkpoint.to_string()];
    db.execute("REPLACE INTO applied VALUES (?, ?)", has)?;
    db.commit()?;
    Ok(net.position())
}

/// Names in SQL.
struct Names {
    to: String,
    keys: String,
    columns: String,
}

/// Makes the table, its new columns, and temporary tables for rows.
fn prepare(db: &Transaction<'_>, table: &str, columns: &[Column]) -> rusqlite::Result<Names> {
    let to = quoted(table);
    let keys = list(columns.iter().filter(|it| it.is_key));
    let names = list(columns);
    db.execute_batch(&format!(
        "CREATE TABLE IF NOT EXISTS {to} ({names}, PRIMARY KEY ({keys}))"
    ))?;
    for Column { name, .. } in columns {
        if !db.column_exists(None, table, name)? {
            db.execute_batch(&format!("ALTER TABLE {to} ADD COLUMN {}", quoted(name)))?;
        }
    }
    db.execute_batch(&format!(
        "CREATE TEMP TABLE IF NOT EXISTS removed AS SELECT {keys} FROM {to} LIMIT 0;
         CREATE TEMP TABLE IF NOT EXISTS written AS SELECT {names} FROM {to} LIMIT 0"
    ))?;
    let columns = names;
    Ok(Names { to, keys, columns })
}

/// Lands rows in the temporary tables.
fn land(db: &Transaction<'_>, names: &Names, batch: &Batch) -> Result<(), Box<dyn Error>> {
    let Names { to, keys, .. } = names;
    let (columns, records) = (&batch.relation().columns, batch.record_batch());
    let metadata = |name: &str| records.column_by_name(name).ok_or("no such column");
    let kinds = metadata("_change_type")?.as_string::<i32>();
    let unsent = metadata("_unsent")?.as_list::<i32>();
    let mut head = None;
    for (row, kind) in kinds.iter().enumerate() {
        // The table's columns come before the metadata.
        let texts = records.columns().iter().zip(columns).map(|(it, column)| {
            let texts = it.as_string::<i32>();
            (column, texts.is_valid(row).then(|| texts.value(row)))
        });
        let key = texts.clone().filter(|(column, _)| column.is_key);
        let key: Vec<_> = key.map(|(_, text)| text).collect();
        let marks = vec!["?"; key.len()].join(", ");
        match kind {
            Some("truncate") => {}
            Some("update_preimage") => head = Some(key),
            Some("delete") => {
                let sql = format!("INSERT INTO removed VALUES ({marks})");
                db.execute(&sql, params_from_iter(key))?;
            }
            _ => {
                let unsent = unsent.value(row);
                let unsent: Vec<_> = unsent.as_string::<i32>().iter().flatten().collect();
                let (mut values, mut given) = (Vec::new(), Vec::new());
                for (column, text) in texts {
                    if kind == Some("update_postimage") && unsent.contains(&&*column.name) {
                        values.push(quoted(&column.name));
                    } else {
                        values.push("?".to_owned());
                        given.push(text);
                    }
                }
                let (old, mut from) = (head.take().unwrap_or(key), String::new());
                if given.len() < values.len() {
                    from = format!("FROM {to} WHERE ({keys}) = ({marks})");
                    given.extend(old);
                }
                let sql = format!("INSERT INTO written SELECT {} {from}", values.join(", "));
                if db.execute(&sql, params_from_iter(given))? != 1 {
                    return Err("the database lacks a row that was updated".into());
                }
            }
        }
    }
    Ok(())
}

/// The names of columns in SQL.
fn list<'a>(columns: impl IntoIterator<Item = &'a Column>) -> String {
    let names: Vec<_> = columns.into_iter().map(|it| quoted(&it.name)).collect();
    names.join(", ")
}

/// A name in SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
