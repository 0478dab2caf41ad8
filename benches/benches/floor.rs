//! Every cell into typed vectors, by the floor. Elements are row images.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use walrow_benches::{captures::captures, floor};

fn benches(criterion: &mut Criterion) {
    for capture in captures() {
        let mut group = criterion.benchmark_group(format!("rows/{}", capture.name));
        let rows = |bytes: &[u8]| floor::rows(bytes, |table| drop(black_box(table)));
        let count = rows(&capture.bytes) as u64;
        group.throughput(Throughput::Elements(count));
        group.bench_function("floor", |b| b.iter(|| rows(black_box(&capture.bytes))));
        group.finish();
    }
}

criterion_group!(all, benches);
criterion_main!(all);
