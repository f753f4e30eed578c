use std::time::Instant;
use edge_tokens::{Counter, Vocabulary};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let text = std::fs::read(&a[2]).unwrap();
    let n: usize = a[3].parse().unwrap();
    let text = &text[..n.min(text.len())];
    let now = Instant::now();
    let vocabulary = Vocabulary::embedded(&a[1]).unwrap();
    let mut counter = Counter::new(&vocabulary);
    let made = now.elapsed();
    let now = Instant::now();
    let tokens = counter.count(text);
    let first = now.elapsed();
    let now = Instant::now();
    counter.count(text);
    println!("{} B: made {made:?}, first {first:?}, second {:?}, {tokens} tokens", text.len(), now.elapsed());
}
