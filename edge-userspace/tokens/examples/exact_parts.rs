use std::time::Instant;
use edge_tokens::{Counter, Text, Vocabulary};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let vocabulary = Vocabulary::embedded(&a[1]).unwrap();
    let mut counter = Counter::new(&vocabulary);
    for f in &a[2..] {
        let text = std::fs::read(f).unwrap();
        let mb = text.len() as f64 / 1e6;
        let now = Instant::now();
        let tokens = counter.count(&text);
        print!("{f}: {tokens} tokens; whole {:.0}", mb / now.elapsed().as_secs_f64());
        for size in [16, 4096, 65536] {
            let mut best = f64::MAX;
            for _ in 0..5 {
            let now = Instant::now();
            let mut parts = Text::new(&counter);
            for part in text.chunks(size) { parts.push(&mut counter, part); }
            assert_eq!(parts.finish(&mut counter), tokens);
            best = best.min(now.elapsed().as_secs_f64());
            }
            print!(", parts of {size}: {:.0}", mb / best);
        }
        println!(" MB/s");
    }
}
