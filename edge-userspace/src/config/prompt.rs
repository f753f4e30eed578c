//! `[prompt]`: how the tokens of requests are counted, and how many there may be.

use super::load::Loader;
use super::models::{MODELS, Model, Models};
use crate::prompt::calibration;
use std::path::PathBuf;

/// `[prompt]`: how the tokens of requests are counted, and how many there may be.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// Most tokens of one prompt on this node; 0, the default, for no limit. May change while
    /// the daemon runs.
    pub max_tokens: u64,
    /// Bytes of request bodies that are held at a time, all threads together, until they have
    /// been sent on; what has no room is a 529. Default 512 MiB.
    pub max_held_bytes: u64,
    /// How each model's prompts are counted. May change while the daemon runs.
    pub models: Models,
    /// Where what has been learnt of the models' tokenizers is kept; none: it is learnt anew
    /// with each start.
    pub calibration_file: Option<PathBuf>,
    /// Models that are learnt apart. Default 64.
    pub calibrated_models: usize,
}

impl Loader<'_, '_> {
    pub(super) fn prompt(&mut self) -> Prompt {
        let calibration_file = self.path("prompt.calibration_file");
        if let Some(path) = &calibration_file
            // What it holds may be damaged: then the daemon learns anew, and says so.
            && let Err(error @ calibration::file::Error::Io { .. }) = calibration::file::read(path)
        {
            self.wrong(
                "prompt.calibration_file",
                error.to_string(),
                "name a file that the daemon may read and write, in a directory that is there",
            );
        }
        Prompt {
            max_tokens: self.integer("prompt.max_tokens"),
            max_held_bytes: self.integer("prompt.max_held_bytes"),
            models: self.models(),
            calibration_file,
            calibrated_models: self.integer("prompt.calibrated_models") as usize,
        }
    }

    /// The rules that are written, with the vocabularies that they name.
    fn models(&mut self) -> Models {
        let written = self.values.models(MODELS).unwrap_or(&[]).to_vec();
        let directory = self
            .problems
            .file
            .parent()
            .map(PathBuf::from)
            .unwrap_or_default();
        let mut rules: Vec<Model> = Vec::new();
        for (written, at) in written {
            match written.load(&directory) {
                Ok(rule) => rules.push(rule),
                Err(fault) => {
                    let field = format!("{MODELS}.{}", fault.field);
                    let at = at.of(fault.field);
                    (self.problems).add(Some(at), &field, fault.what, fault.cure);
                }
            }
        }
        Models::new(rules)
    }
}
