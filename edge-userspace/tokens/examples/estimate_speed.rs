//! How fast the estimate is on files: `estimate_speed FILE...`.
//!
//! The first 256 KiB of each file are scanned again and again with each set of instructions, or
//! the one that `EDGE_TOKENS_ISA` names; the shortest time stands, so that what else the machine does at the time is left out.

use std::hint::black_box;
use std::time::Instant;

use edge_tokens::estimate::{Estimator, Scan};
use edge_tokens::{ISA_VARIABLE, Isa};

const BYTES: usize = 256 << 10;
const ROUNDS: usize = 1000;

fn main() {
    let estimator = Estimator::named("cl100k_base").expect("a built-in vocabulary");
    let forced = std::env::var_os(ISA_VARIABLE).map(|_| Isa::detect());
    for file in std::env::args().skip(1) {
        let text = std::fs::read(&file).expect("a text");
        let text = &text[..text.len().min(BYTES)];
        let isas = Isa::available().filter(|isa| forced.is_none_or(|forced| forced == *isa));
        let speeds = isas.map(|isa| {
            let once = || {
                let now = Instant::now();
                let mut scan = Scan::with_isa(isa).expect("instructions of this machine");
                scan.push(black_box(text));
                black_box(estimator.estimate(&scan.finish()));
                now.elapsed().as_secs_f64()
            };
            let best = (0..ROUNDS).map(|_| once()).fold(f64::MAX, f64::min);
            format!("{isa} {:.2} GB/s", text.len() as f64 / 1e9 / best)
        });
        let name = file.rsplit('/').next().unwrap_or(&file);
        println!("{name}: {}", speeds.collect::<Vec<_>>().join(", "));
    }
}
