//! What keys, audiences and models may be called.

use crate::config::Name;

/// Longest name of a key.
pub const MAX_NAME_BYTES: usize = 128;
/// Longest name of an audience.
pub const MAX_AUDIENCE_BYTES: usize = 255;
/// Most models that a key can be confined to.
pub const MAX_MODELS: usize = 64;
/// Longest name of one.
pub const MAX_MODEL_BYTES: usize = 256;

/// The models that a key is confined to, each a name or its beginning and `*`.
///
/// # Errors
/// What is wrong with one.
pub fn parse_models(names: &[String]) -> Result<Box<[Name]>, &'static str> {
    if names.len() > MAX_MODELS {
        return Err("a key can be confined to 64 models at most");
    }
    let parse = |name: &String| {
        let bad = name.len() > MAX_MODEL_BYTES || name.chars().any(char::is_control);
        (Name::parse(name).filter(|_| !bad))
            .ok_or("a model is a name of at most 256 bytes, or its beginning and *")
    };
    names.iter().map(parse).collect()
}

/// Whether a key may have that name.
///
/// # Errors
/// Why not.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err("should have 1 to 128 bytes and no control characters");
    }
    Ok(())
}

/// Whether an audience may be given that name. Stores that are there may have others.
///
/// # Errors
/// Why not, and the cure.
pub fn check_new_audience(audience: &str) -> Result<(), &'static str> {
    if audience.contains(',') {
        return Err("an audience has no comma in it; for two audiences give --audience twice");
    }
    if audience.chars().any(char::is_whitespace) {
        return Err(
            "an audience has no white space in it; for two audiences give --audience twice",
        );
    }
    check_audience(audience)
}

/// Whether a line's audience may have that name.
///
/// # Errors
/// Why not.
pub fn check_audience(audience: &str) -> Result<(), &'static str> {
    if audience.is_empty()
        || audience.len() > MAX_AUDIENCE_BYTES
        || audience.chars().any(char::is_control)
    {
        return Err("an audience should have 1 to 255 bytes and no control characters");
    }
    Ok(())
}
