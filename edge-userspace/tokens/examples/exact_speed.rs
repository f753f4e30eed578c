//! How fast the exact counter is on files: `exact_speed VOCABULARY ISA FILE...`.
use edge_tokens::{Counter, Isa, Vocabulary};
use std::time::Instant;

fn main() {
    let a: Vec<String> = std::env::args().collect();
    let vocabulary = Vocabulary::embedded(&a[1]).unwrap();
    let isa = Isa::named(&a[2]).unwrap();
    let rounds: usize = std::env::var("ROUNDS")
        .ok()
        .map_or(15, |r| r.parse().unwrap());
    for file in &a[3..] {
        let text = std::fs::read(file).unwrap();
        let mut counter = Counter::with_isa(&vocabulary, isa).unwrap();
        let _ = counter.count(b"x");
        let now = Instant::now();
        let tokens = counter.count(&text);
        let cold = now.elapsed().as_secs_f64();
        let mut times: Vec<f64> = (0..rounds)
            .map(|_| {
                let now = Instant::now();
                assert_eq!(counter.count(&text), tokens);
                now.elapsed().as_secs_f64()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let mb = text.len() as f64 / 1e6;
        let short = |length: usize| {
            let end = (length..)
                .find(|&e| std::str::from_utf8(&text[..e]).is_ok())
                .unwrap();
            let part = &text[..end];
            let mut counter = Counter::with_isa(&vocabulary, isa).unwrap();
            let mut times: Vec<f64> = (0..51)
                .map(|_| {
                    let now = Instant::now();
                    for _ in 0..100 {
                        std::hint::black_box(counter.count(std::hint::black_box(part)));
                    }
                    now.elapsed().as_secs_f64() / 100.0 * 1e9
                })
                .collect();
            times.sort_by(f64::total_cmp);
            times[25]
        };
        println!(
            "{} {} {tokens} tokens, cold {:.0}, warm median {:.0}, best {:.0} MB/s; 512 {:.0} ns, 2048 {:.0} ns",
            file.rsplit('/').next().unwrap(),
            text.len(),
            mb / cold,
            mb / times[rounds / 2],
            mb / times[0],
            short(512),
            short(2048)
        );
    }
}
