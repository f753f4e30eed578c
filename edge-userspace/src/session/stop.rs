//! How the daemon tells its threads that it stops: first that streams may still end, then that
//! they may not.

use tokio_util::sync::CancellationToken;

/// Shared by who says it and all who are to know.
#[derive(Clone, Default)]
pub struct Stop {
    draining: CancellationToken,
    cut: CancellationToken,
}

impl Stop {
    /// Nothing has been said.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// No new connections; running streams may end within the drain timeout.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Running streams end now, as when the drain timeout is over.
    pub fn cut(&self) {
        self.draining.cancel();
        self.cut.cancel();
    }

    /// Waits until the first is said.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Waits until the second is said.
    pub(super) async fn is_cut(&self) {
        self.cut.cancelled().await;
    }
}
