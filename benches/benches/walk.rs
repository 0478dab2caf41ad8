//! Every frame, message and cell: the floor, and walrow. Elements are messages.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use walrow_benches::{captures::captures, floor, walk::walk};

fn benches(criterion: &mut Criterion) {
    for capture in captures() {
        let mut group = criterion.benchmark_group(format!("walk/{}", capture.name));
        let messages = floor::walk(&capture.bytes).messages as u64;
        group.throughput(Throughput::Elements(messages));
        group.bench_function("floor", |b| {
            b.iter(|| floor::walk(black_box(&capture.bytes)));
        });
        group.bench_function("walrow", |b| b.iter(|| walk(black_box(&capture.bytes))));
        group.finish();
    }
}

criterion_group!(all, benches);
criterion_main!(all);
