//! The input of the benches: servers' streams, recorded by `benches/captures.py`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The workloads; benches/workloads.py describes them.
const WORKLOADS: [&str; 11] = [
    "narrow",
    "wide",
    "mixed",
    "pgbench",
    "tiny",
    "updates",
    "toast",
    "toast-full",
    "streamed",
    "columns",
    "tables",
];

/// A capture in memory.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The workload.
    pub workload: &'static str,
    /// Whether the server sent values in binary, where it can.
    pub binary: bool,
    /// Whether it has few rows and comes from benches/data.
    pub small: bool,
    /// The bytes as on the connection.
    pub bytes: Vec<u8>,
}

impl Capture {
    /// Its name: `narrow`, or `narrow.binary`.
    pub fn name(&self) -> String {
        name(self.workload, self.binary)
    }
}

/// All captures of the folder `WALROW_BENCH_DATA` or `target/bench-data`. A small capture replaces a missing one.
///
/// # Errors
/// A file that cannot be read.
pub fn captures() -> io::Result<Vec<Capture>> {
    let folder = env::var_os("WALROW_BENCH_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench-data"),
        PathBuf::from,
    );
    let mut captures = small_captures()?;
    for capture in &mut captures {
        if let Ok(bytes) = fs::read(folder.join(capture.name() + ".wire")) {
            capture.bytes = bytes;
            capture.small = false;
        }
    }
    Ok(captures)
}

/// The small captures of benches/data.
///
/// # Errors
/// A file that cannot be read, or is not what zstd wrote.
pub fn small_captures() -> io::Result<Vec<Capture>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let forms = WORKLOADS.iter().flat_map(|it| [(*it, false), (*it, true)]);
    let capture = |(workload, binary)| {
        let stored = fs::read(folder.join(name(workload, binary) + ".wire.zst"))?;
        Ok(Capture {
            workload,
            binary,
            small: true,
            bytes: decompressed(&stored)?,
        })
    };
    forms.map(capture).collect()
}

fn name(workload: &str, binary: bool) -> String {
    format!("{workload}{}", if binary { ".binary" } else { "" })
}

fn decompressed(stored: &[u8]) -> io::Result<Vec<u8>> {
    let size = zstd_safe::get_frame_content_size(stored).ok().flatten();
    let size = size.and_then(|size| usize::try_from(size).ok());
    let mut bytes = Vec::with_capacity(size.unwrap_or_default());
    zstd_safe::decompress(&mut bytes, stored)
        .map_err(|code| io::Error::other(zstd_safe::get_error_name(code)))?;
    Ok(bytes)
}
