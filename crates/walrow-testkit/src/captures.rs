//! Files for tests: captures of servers, and seeds of fuzzers.

use std::fs;
use std::path::{Path, PathBuf};

/// A capture of a server's stream, from the response to START_REPLICATION on.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Its path below `tests/data`, without the extension: `18/streaming.v1`.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// The bytes as on the connection.
    pub bytes: Vec<u8>,
}

impl Capture {
    /// Whether it is physical replication, which decoders reject.
    pub fn is_physical(&self) -> bool {
        self.name.ends_with(".physical")
    }
}

/// All `.wire` files below `tests/data`, by name.
///
/// # Panics
/// If there are no files: a test without input proves nothing.
pub fn captures() -> Vec<Capture> {
    let root = root("tests/data");
    let mut found = Vec::new();
    for path in files(&root) {
        if path
            .extension()
            .is_some_and(|extension| extension == "wire")
        {
            found.push(Capture {
                name: name(&root, &path.with_extension("")),
                bytes: read(&path),
                path,
            });
        }
    }
    assert!(!found.is_empty(), "no capture below {}", root.display());
    found
}

/// A seed of a fuzz target.
#[derive(Clone, Debug)]
pub struct Seed {
    /// The target: the folder.
    pub target: String,
    /// The file's name, which describes the seed.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

/// All files `fuzz/seeds/TARGET/NAME`, by target and name.
///
/// # Panics
/// If there are no files.
pub fn seeds() -> Vec<Seed> {
    let root = root("fuzz/seeds");
    let found: Vec<_> = files(&root)
        .into_iter()
        .map(|path| {
            let name = name(&root, &path);
            let (target, name) = name
                .split_once('/')
                .expect("a seed lies in its target's folder");
            Seed {
                target: target.to_owned(),
                name: name.to_owned(),
                bytes: read(&path),
            }
        })
        .collect();
    assert!(!found.is_empty(), "no seed below {}", root.display());
    found
}

fn root(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(below)
}

fn name(root: &Path, path: &Path) -> String {
    let path = path
        .strip_prefix(root)
        .expect("files are listed below the root");
    path.to_string_lossy().replace('\\', "/")
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files below a folder, in a fixed order. Empty if the folder does not exist.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
