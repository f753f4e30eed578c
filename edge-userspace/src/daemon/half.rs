//! The kernel half as the daemon has it: attached or not, and why.

use super::Error;
use crate::charges::{Charges, Limits};
use crate::config::Config;
use crate::kernel::agreement::Agreement;
use crate::kernel::{self, KernelHalf, Loaded};
use crate::keys::{self, Keyring};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kernel half, or why there is none.
pub(super) struct Kernel {
    half: Mutex<Option<KernelHalf>>,
    without: kernel::Status,
}

impl Kernel {
    pub(super) fn attach(
        loaded: Result<Loaded, kernel::Status>,
        config: &Config,
        keyring: &Keyring,
        charges: &Arc<Charges>,
    ) -> Result<Self, Error> {
        let snapshot = keyring.snapshot();
        let attached = match loaded {
            Ok(loaded) => {
                let complete = snapshot.complete();
                loaded.attach(config, snapshot.iter(), complete, Arc::clone(charges))?
            }
            Err(status) => Err(status),
        };
        let (half, without) = match attached {
            Ok(half) => (Some(half), kernel::Status::none("detached".to_owned())),
            Err(status) => (None, status),
        };
        Ok(Self {
            half: Mutex::new(half),
            without,
        })
    }

    /// The daemon's first line: whether the kernel decides.
    pub(super) fn announce(&self) {
        let status = self.status();
        let notes = status.notes.join("; ");
        if status.mode == "none" {
            tracing::warn!("kernel half: none, userspace decides everything: {notes}");
            return;
        }
        let interfaces: Vec<_> = (status.interfaces.iter())
            .map(|interface| format!("{} ({})", interface.name, interface.mode))
            .collect();
        tracing::info!(
            keys = status.keys,
            complete = status.policy_complete,
            ports = ?status.ports,
            "kernel half: {} on {}{}{notes}",
            status.mode,
            interfaces.join(", "),
            if notes.is_empty() { "" } else { ": " },
        );
    }

    pub(super) fn observer(&self) -> Option<Arc<dyn keys::Observer>> {
        self.half().as_ref().map(KernelHalf::observer)
    }

    pub(super) fn agreement(&self) -> Option<Arc<Agreement>> {
        self.half().as_ref().map(KernelHalf::agreement)
    }

    /// Goes by other limits from now on.
    pub(super) fn follow_limits(
        &self,
        before: &Limits,
        limits: &Limits,
        keyring: &Keyring,
    ) -> Result<(), kernel::ProgramError> {
        let observer = {
            let half = self.half();
            let Some(half) = half.as_ref() else {
                return Ok(());
            };
            half.follow_limits()?;
            half.observer()
        };
        // With very many keys it takes seconds, in which others look at the kernel half.
        if before.key_per_second_hard != limits.key_per_second_hard {
            keyring.tell(&*observer);
        }
        Ok(())
    }

    pub(super) fn status(&self) -> kernel::Status {
        (self.half().as_ref()).map_or_else(|| self.without.clone(), KernelHalf::status)
    }

    pub(super) fn detach(&self) {
        if self.half().take().is_some() {
            tracing::info!("kernel half: detached");
        }
    }

    fn half(&self) -> MutexGuard<'_, Option<KernelHalf>> {
        self.half.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
