//! Takes the decoder out of pgoutput-decoder's source distribution, where `PGOUTPUT_DECODER` names it.
//!
//! The package is a module for Python. Its decoder is plain Rust: one file, and the structs of another.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=PGOUTPUT_DECODER");
    if env::var_os("CARGO_FEATURE_PGOUTPUT_DECODER").is_none() {
        return Ok(());
    }
    let source = env::var("PGOUTPUT_DECODER")
        .map(PathBuf::from)?
        .join("src/pgoutput");
    let messages = fs::read_to_string(source.join("messages.rs"))?;
    let start = messages
        .find("/// Begin transaction message")
        .ok_or("no structs")?;
    let end = messages
        .find("// Helper function to convert PyObject")
        .ok_or("no end of structs")?;
    let decoder = fs::read_to_string(source.join("decoder.rs"))?;
    let decoder = decoder.replacen("use super::messages::*;", "", 1);
    let out = PathBuf::from(env::var("OUT_DIR")?).join("pgoutput_decoder.rs");
    fs::write(out, decoder + &messages[start..end])?;
    Ok(())
}
