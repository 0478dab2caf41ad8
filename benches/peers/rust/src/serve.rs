//! The lines that a harness reads and answers: `benches/peers/README.md` has the protocol.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, Write};
use std::time::Instant;

/// The contents of a capture. A parser leaves out the counts that it does not know.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Messages by their tag, such as `b'I'`.
    pub messages: BTreeMap<u8, u64>,
    /// Cells of all tuples.
    pub cells: Option<u64>,
    /// Cells without a value: NULL, or not sent.
    pub nulls: Option<u64>,
    /// The bytes of all values.
    pub value_bytes: Option<u64>,
}

impl Counts {
    /// Counts a message.
    pub fn message(&mut self, tag: u8) {
        self.messages
            .entry(tag)
            .and_modify(|count| *count = count.wrapping_add(1))
            .or_insert(1);
    }

    /// Counts a cell by the length of its value.
    pub fn cell(&mut self, value: Option<usize>) {
        add(&mut self.cells, 1);
        add(&mut self.nulls, u64::from(value.is_none()));
        add(&mut self.value_bytes, value.unwrap_or_default() as u64);
    }

    /// As an object of JSON.
    fn json(&self) -> String {
        let mut text = String::from(r#"{"messages": {"#);
        for (index, (tag, count)) in self.messages.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let _ = write!(text, r#"{comma}"{}": {count}"#, char::from(*tag));
        }
        text.push('}');
        for (name, count) in [
            ("cells", self.cells),
            ("nulls", self.nulls),
            ("value_bytes", self.value_bytes),
        ] {
            if let Some(count) = count {
                let _ = write!(text, r#", "{name}": {count}"#);
            }
        }
        text.push('}');
        text
    }
}

fn add(total: &mut Option<u64>, count: u64) {
    *total = Some(total.unwrap_or_default().wrapping_add(count));
}

/// A parser behind the protocol.
pub trait Subject {
    /// Takes a capture over: all bytes of a connection.
    fn load(&mut self, capture: Vec<u8>);

    /// Parses the whole capture and drops the results: how many messages or rows these were.
    ///
    /// # Errors
    /// Those of the parser.
    fn pass(&mut self) -> Result<u64, Box<dyn Error>>;

    /// Parses the whole capture and counts its contents, however long that takes.
    ///
    /// # Errors
    /// Those of the parser.
    fn count(&mut self) -> Result<Counts, Box<dyn Error>>;
}

/// Answers the lines of standard input until it ends.
///
/// # Errors
/// Those of standard input and output.
pub fn serve(subject: &mut dyn Subject) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let text = answer(subject, &line?).unwrap_or_else(|error| {
            let plain = error.to_string().replace(['"', '\\'], "'");
            format!(r#"{{"error": "{}"}}"#, plain.replace(char::is_control, " "))
        });
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(subject: &mut dyn Subject, line: &str) -> Result<String, Box<dyn Error>> {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("load", path) => {
            subject.load(fs::read(path)?);
            Ok("{}".to_owned())
        }
        ("count", _) => Ok(subject.count()?.json()),
        ("pass", _) => {
            let start = Instant::now();
            let items = subject.pass()?;
            let ns = start.elapsed().as_nanos();
            Ok(format!(r#"{{"ns": {ns}, "items": {items}}}"#))
        }
        _ => Err("unknown line: load FILE, count or pass".into()),
    }
}
