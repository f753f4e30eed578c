//! The kernel half's loader: attach, fill, beat, read, detach.

use crate::config;
use crate::keys::{KeyRecord, Observer};
use serde::Serialize;
use std::sync::Arc;

/// The attached kernel half. Dropping it detaches the program.
pub struct KernelHalf {}

/// What `edge status` and `/metrics` show of the kernel half.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// `driver`, `generic` or `none`.
    pub mode: &'static str,
    /// Why the mode is not the one first tried; empty when it is.
    pub notes: Vec<String>,
    /// Interfaces with the program attached.
    pub interfaces: Vec<String>,
    /// Ports watched.
    pub ports: Vec<u16>,
    /// Keys in the policy map.
    pub keys: u64,
    /// Whether the policy map is marked complete.
    pub policy_complete: bool,
    /// `[name, value]`: every reason and counter, summed over CPUs.
    pub counters: Vec<(&'static str, u64)>,
}

/// Why the kernel half could not be attached. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Placeholder until the loader lands.
    #[error("the kernel half is not built yet")]
    Absent,
}

impl KernelHalf {
    /// Loads the program, fills the maps with `keys`, marks the policy complete when
    /// `complete`, attaches. `Ok(Err(status))`: attached nowhere, by configuration or for
    /// want of privileges, and the status's notes say why.
    ///
    /// # Errors
    /// When the configuration demands a mode that cannot be had, or names a missing interface.
    pub fn attach(
        _config: &config::Config,
        _keys: &[Arc<KeyRecord>],
        _complete: bool,
    ) -> Result<Result<Self, Status>, Error> {
        Err(Error::Absent)
    }

    /// Applies key changes to the policy map.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn Observer> {
        unimplemented!()
    }

    /// A fresh look at the maps.
    #[must_use]
    pub fn status(&self) -> Status {
        unimplemented!()
    }
}
