//! Teaches the calibration what an upstream counted of a prompt that was estimated here.

use super::calibration::Calibration;
use std::sync::Arc;

/// Compares what an upstream counted with the estimate.
#[derive(Clone)]
pub struct Learn {
    calibration: Arc<Calibration>,
    model: Box<[u8]>,
    /// The texts, not calibrated.
    estimated: u64,
    /// What is around them.
    framing: u64,
}

impl Learn {
    pub(super) fn new(
        calibration: Arc<Calibration>,
        model: Box<[u8]>,
        estimated: u64,
        framing: u64,
    ) -> Self {
        Self {
            calibration,
            model,
            estimated,
            framing,
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests(calibration: Arc<Calibration>, model: &[u8], estimated: u64) -> Self {
        Self::new(calibration, model.into(), estimated, 0)
    }

    /// The upstream counted so many tokens.
    pub fn observe(&self, actual: u64) {
        let texts = actual.saturating_sub(self.framing);
        (self.calibration).observe(&self.model, self.estimated, texts);
    }
}

impl std::fmt::Debug for Learn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Learn({} + {})", self.estimated, self.framing)
    }
}
