fn main(){ let c=walrow_benches::captures::captures(); for _ in 0..100 { std::hint::black_box(walrow_benches::walk::walk(std::hint::black_box(&c[0].bytes))); } }
