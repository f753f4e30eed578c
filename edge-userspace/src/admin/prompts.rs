//! What `/status` says of prompts: how many were counted and how, what was refused, the room,
//! and by which tokenizer each model is counted.

use super::View;
use crate::config::{Model, Tokenizer};
use crate::prompt::Kind;
use crate::telemetry::{PromptRefusal, Series as _};
use serde::Serialize;

/// What there is to say of prompts.
#[derive(Debug, Serialize)]
pub struct Prompts {
    /// Those whose count is the model's tokenizer's own.
    pub exact: Counted,
    /// Those whose count is an estimate.
    pub estimate: Counted,
    /// `[reason, count]` of requests that were refused for what their bodies hold: `key_limit`,
    /// `node_limit` and `context` say whose limit a prompt was over.
    pub refused: Vec<(&'static str, u64)>,
    /// Most tokens of a prompt on this node; none: no limit.
    pub max_tokens: Option<u64>,
    /// Bytes of bodies that are held now, and of what decoding them takes.
    pub held_bytes: u64,
    /// Most of them.
    pub held_bytes_capacity: u64,
    /// How models are counted, the first that matches.
    pub models: Vec<Rule>,
    /// Models that are learnt apart at most.
    pub calibrated_models: u64,
    /// Models that were forgotten for others that came.
    pub calibration_evicted: u64,
}

/// Prompts of one kind.
#[derive(Debug, Serialize)]
pub struct Counted {
    /// How many.
    pub prompts: u64,
    /// Their tokens.
    pub tokens: u64,
}

/// How models of some name are counted.
#[derive(Debug, Serialize)]
pub struct Rule {
    /// The name, or its beginning and `*`.
    pub model: String,
    /// The vocabulary by which texts are counted; of an estimate the one for which it is
    /// weighted.
    pub vocabulary: String,
    /// Whether texts are estimated.
    pub estimate: bool,
    /// Whether what is around texts is published, so that a count can be exact.
    pub published_framing: bool,
    /// The longest prompt that the model takes, tokens.
    pub context_tokens: Option<u64>,
}

impl Prompts {
    pub(super) fn of(view: &View) -> Self {
        let (prompts, metrics) = (&view.prompts, &view.metrics);
        let counted = |kind| Counted {
            prompts: metrics.prompts.get(kind),
            tokens: metrics.prompt_tokens.get(kind),
        };
        let refused = PromptRefusal::all()
            .map(|reason| (reason.name(), metrics.prompt_refusals.get(reason)))
            .filter(|(_, count)| *count > 0);
        let calibration = prompts.calibration();
        Self {
            exact: counted(Kind::Exact),
            estimate: counted(Kind::Estimate),
            refused: refused.collect(),
            max_tokens: prompts.limits(None).node,
            held_bytes: prompts.room().bytes(),
            held_bytes_capacity: prompts.room().most_bytes(),
            models: prompts.models().iter().map(Rule::of).collect(),
            calibrated_models: calibration.most_models() as u64,
            calibration_evicted: calibration.evicted(),
        }
    }
}

impl Rule {
    fn of(model: &Model) -> Self {
        let (vocabulary, estimate) = match &model.tokenizer {
            Tokenizer::Vocabulary(vocabulary) => (vocabulary.name().to_owned(), false),
            Tokenizer::Estimate(like) => ((*like).to_owned(), true),
        };
        Self {
            model: model.name.to_string(),
            vocabulary,
            estimate,
            published_framing: model.framing.is_published,
            context_tokens: model.context_tokens,
        }
    }
}
