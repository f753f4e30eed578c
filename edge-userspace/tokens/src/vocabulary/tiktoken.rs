//! Rank files: a line holds a token's bytes in base64, a space and its rank.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::error::VocabularyError;
use super::ranks::Ranks;

/// The ranks of a `.tiktoken` file. Lines come in any order; a rank that is left out is a hole.
pub(super) fn read(name: &str, file: &[u8]) -> Result<Ranks, VocabularyError> {
    let mut tokens: Vec<Vec<u8>> = Vec::new();
    for (i, line) in file.split(|&byte| byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let (rank, token) = read_line(line).map_err(|reason| VocabularyError::Line {
            name: name.to_owned(),
            line: i + 1,
            reason,
        })?;
        if tokens.len() <= rank {
            tokens.resize(rank + 1, Vec::new());
        }
        if !tokens[rank].is_empty() {
            return Err(VocabularyError::Line {
                name: name.to_owned(),
                line: i + 1,
                reason: format!("a second token of rank {rank}"),
            });
        }
        tokens[rank] = token;
    }
    Ranks::new(tokens).map_err(|source| VocabularyError::Ranks {
        name: name.to_owned(),
        source,
    })
}

fn read_line(line: &[u8]) -> Result<(usize, Vec<u8>), String> {
    let shape = "a line is a token in base64, a space and its rank";
    let mut parts = line.split(|&byte| byte == b' ');
    let (Some(token), Some(rank), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(shape.to_owned());
    };
    let rank: usize = std::str::from_utf8(rank)
        .ok()
        .filter(|rank| rank.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|rank| rank.parse().ok())
        .ok_or_else(|| format!("the rank is no number; {shape}"))?;
    if rank >= Ranks::MOST {
        return Err(format!("rank {rank}: ranks end at {}", Ranks::MOST - 1));
    }
    let token = STANDARD
        .decode(token)
        .map_err(|error| format!("the token is no base64 ({error}); {shape}"))?;
    if token.is_empty() {
        return Err("the token is empty".to_owned());
    }
    Ok((rank, token))
}
