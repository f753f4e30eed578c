//! What all threads share of counting: the rules, the limit, what is learnt, the room.

use super::calibration::Calibration;
use super::guard::Limits;
use super::room::Room;
use crate::config::{self, Models};
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The `[prompt]` section made ready.
pub struct Prompts {
    models: ArcSwap<Models>,
    /// 0: no limit.
    max_tokens: AtomicU64,
    calibration: Arc<Calibration>,
    room: Arc<Room>,
    decoding: Arc<Room>,
}

impl Prompts {
    /// With what has been learnt before.
    #[must_use]
    pub fn new(config: &config::Prompt) -> Self {
        let file = config.calibration_file.clone();
        Self {
            models: ArcSwap::from_pointee(config.models.clone()),
            max_tokens: AtomicU64::new(config.max_tokens),
            calibration: Arc::new(Calibration::new(config.calibrated_models, file)),
            room: Room::new(config.max_held_bytes),
            decoding: Room::new(config.max_held_bytes / 2),
        }
    }

    /// Goes by other rules and another limit from now on; the rest needs a restart.
    pub fn follow(&self, config: &config::Prompt) {
        self.models.store(Arc::new(config.models.clone()));
        self.max_tokens.store(config.max_tokens, Ordering::Relaxed);
    }

    /// By which tokenizers models are counted now.
    #[must_use]
    pub fn models(&self) -> Arc<Models> {
        self.models.load_full()
    }

    /// Whether these are they.
    #[must_use]
    pub fn are_models(&self, models: &Arc<Models>) -> bool {
        Arc::ptr_eq(&self.models.load(), models)
    }

    /// The limits of a request, given its key's.
    #[must_use]
    pub fn limits(&self, key: Option<u64>) -> Limits {
        let limit = |tokens| (tokens > 0).then_some(tokens);
        Limits {
            key: key.and_then(limit),
            node: limit(self.max_tokens.load(Ordering::Relaxed)),
            context: true,
        }
    }

    /// What is learnt of models.
    #[must_use]
    pub fn calibration(&self) -> &Arc<Calibration> {
        &self.calibration
    }

    /// Room for bodies, and for what decoding them takes.
    #[must_use]
    pub fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// The part of it that decoding may take, half: a few bytes of a zstd body ask for megabytes,
    /// and bodies that are not encoded must not want for it.
    #[must_use]
    pub fn decoding(&self) -> &Arc<Room> {
        &self.decoding
    }
}
