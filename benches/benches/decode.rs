//! Every cell into Arrow, by walrow. Elements are row images.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use walrow_benches::{captures::captures, decode};

fn benches(criterion: &mut Criterion) {
    for capture in captures() {
        let mut group = criterion.benchmark_group(format!("rows/{}", capture.name));
        let count = decode::rows(&capture.bytes).map_or(0, |rows| rows as u64);
        group.throughput(Throughput::Elements(count));
        group.bench_function("walrow", |b| {
            b.iter(|| decode::rows(black_box(&capture.bytes)));
        });
        group.finish();
    }
}

criterion_group!(all, benches);
criterion_main!(all);
