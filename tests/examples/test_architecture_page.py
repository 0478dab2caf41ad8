"""Applies the changes of docs/architecture.md: a made-up type, a made-up metadata column."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")

MADE_UP = """
use arrow_array::cast::AsArray;
use arrow_array::types::{DurationSecondType, UInt64Type};
use arrow_schema::DataType;
use walrow_arrow::{ArrowTypeName, DecoderBuilder, Profile, Reader, parse_arrow_type};
use walrow_testkit::{Stream, binary, text};
use walrow_wire::ReplicaIdentity;

fn columns(profile: Profile) -> arrow_array::RecordBatch {
    read(DecoderBuilder::new().with_profile(profile))
}

fn read(builder: DecoderBuilder) -> arrow_array::RecordBatch {
    let columns = [("lap", 20_001, -1, false)];
    let stream = Stream::new()
        .session()
        .begin(0x1000, 700)
        .user_type(20_001, "public", "lap")
        .relation(16_385, "public", "t", ReplicaIdentity::Default, &columns)
        .insert(16_385, &[text("90s")])
        .insert(16_385, &[binary((-5_i64).to_be_bytes())])
        .commit()
        .bytes();
    let mut batches = builder.build_reader(&*stream).unwrap();
    batches.next().unwrap().unwrap().into_record_batch()
}

#[test]
fn a_lap_is_a_duration() {
    let batch = columns(Profile::Arrow);
    let laps = batch.column_by_name("lap").unwrap().as_primitive::<DurationSecondType>();
    assert_eq!(laps.values()[..], [90, -5]);
}

#[test]
fn spark_has_no_durations() {
    let batch = columns(Profile::Spark);
    let laps = batch.column_by_name("lap").unwrap();
    assert_eq!(*laps.data_type(), DataType::Utf8);
    assert_eq!(laps.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("90s"), Some("-5s")]);
}

#[test]
fn its_arrow_type_has_a_name() {
    let duration = parse_arrow_type("duration[s]").unwrap();
    assert_eq!(ArrowTypeName(&duration).to_string(), "duration[s]");
    let batch = read(DecoderBuilder::new().with_type("lap", duration.clone()));
    assert_eq!(*batch.column_by_name("lap").unwrap().data_type(), duration);
    let batch = read(DecoderBuilder::new().with_type("lap", DataType::Utf8));
    assert_eq!(*batch.column_by_name("lap").unwrap().data_type(), DataType::Utf8);
}

#[test]
fn rows_have_the_end_of_their_transaction() {
    let batch = columns(Profile::Arrow);
    let ends = batch.column_by_name("_end_lsn").unwrap().as_primitive::<UInt64Type>();
    let commits = batch.column_by_name("_commit_lsn").unwrap().as_primitive::<UInt64Type>();
    assert!(ends.values()[0] > commits.values()[0]);
}
"""


@pytest.mark.builds
@pytest.mark.timeout(600)
def test_the_worked_examples_compile_and_run(tmp_path: Path) -> None:
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("crates", "benches"):
        shutil.copytree(ROOT / name, tmp_path / name)
    blocks = re.findall(r"^```diff\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        command = ["git", "apply", "-C1", "-"]
        subprocess.run(command, cwd=tmp_path, input=block, text=True, check=True)  # noqa: S603
    (tmp_path / "crates/walrow-arrow/tests/made_up.rs").write_text(MADE_UP)
    environment = os.environ | {
        "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    }
    # With the features of the whole workspace, whose dependencies test-rust has built. Only these
    # crates are built again, so they are not optimised.
    command = ["cargo", "test", "--locked", "--workspace", "--test", "made_up"]
    for crate in (tmp_path / "crates").iterdir():
        command += ["--config", f"profile.test.package.{crate.name}.opt-level=0"]
    done = subprocess.run(  # noqa: S603
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-2000:]
    assert "4 passed" in done.stdout
