//! Makes an embedded vocabulary from its source; `vocabularies/PROVENANCE.md` lists the
//! sources.
//!
//! ```sh
//! cargo run -p edge-tokens --example compact_vocabulary -- cl100k_base.tiktoken cl100k_base.bin
//! cargo run -p edge-tokens --example compact_vocabulary -- claude.json claude-2.bin
//! ```

use std::error::Error;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use edge_tokens::{Pattern, Ranks, Vocabulary};
use sha2::{Digest as _, Sha256};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, target] = &arguments[..] else {
        return Err("two arguments: a .tiktoken file or claude.json, and the file to write".into());
    };
    let file = std::fs::read(source)?;
    let ranks = if Path::new(source).extension().is_some_and(|e| e == "json") {
        claude(&file)?
    } else {
        let vocabulary = Vocabulary::from_tiktoken(source, &file, Pattern::Cl100k)?;
        vocabulary.ranks().clone()
    };
    let compact = ranks.to_compact()?;
    if Ranks::from_compact(&compact)? != ranks {
        return Err("the compact form does not read back the same".into());
    }
    std::fs::write(target, &compact)?;
    for (path, bytes) in [(source, &file), (target, &compact)] {
        let digest = hex::encode(Sha256::digest(bytes));
        println!("{digest}  {path} ({} bytes)", bytes.len());
    }
    println!("{} tokens, ranks below {}", ranks.tokens(), ranks.end());
    Ok(())
}

/// The ranks in the form of the JavaScript tiktoken: lines of `! FIRST_RANK TOKEN TOKEN …`.
fn claude(file: &[u8]) -> Result<Ranks, Box<dyn Error>> {
    let json: serde_json::Value = serde_json::from_slice(file)?;
    let lines = json["bpe_ranks"].as_str().ok_or("no bpe_ranks")?.lines();
    let mut tokens: Vec<Vec<u8>> = Vec::new();
    for line in lines {
        let mut parts = line.split(' ').skip(1);
        let first = parts
            .next()
            .ok_or("a line without its first rank")?
            .parse()?;
        if first < tokens.len() {
            return Err("the lines overlap".into());
        }
        tokens.resize(first, Vec::new());
        for token in parts {
            tokens.push(STANDARD.decode(token)?);
        }
    }
    Ok(Ranks::new(tokens)?)
}
