//! The `[api]` section and `[[regions]]` made ready. Shared by all threads.

use super::layer::LayerKey;
use super::regions::Regions;
use crate::config::{Config, ListedModel};
use crate::secret::{self, Secret};
use http::HeaderValue;
use std::time::Duration;

/// Bytes of a layer secret that is made at start.
const LAYER_SECRET_BYTES: usize = 32;

/// What the API asks of requests and puts on responses.
pub struct Settings {
    pub(super) versions: Vec<String>,
    pub(super) max_body_bytes: u64,
    /// None: clients of silent streams hear nothing.
    pub(super) ping_after: Option<Duration>,
    pub(super) node: HeaderValue,
    pub(super) layer: LayerKey,
    /// Empty: an upstream is asked.
    pub(super) models: Vec<ListedModel>,
    pub(super) regions: Regions,
}

/// Why `[api]` cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The node's name cannot stand in a header.
    #[error("[api] node {0:?}: cannot stand in a header; use letters, digits and hyphens")]
    Node(String),
    /// The secret cannot be read, or none can be made.
    #[error("[api] layer_secret: {0}")]
    LayerSecret(#[from] secret::Error),
}

impl Settings {
    /// Reads what the configuration names.
    ///
    /// # Errors
    /// When the secret is not there or the node's name cannot be sent.
    pub fn new(config: &Config) -> Result<Self, SettingsError> {
        let regions = Regions::new(config);
        let config = &config.api;
        let secret = match &config.layer_secret {
            Some(from) => from.read()?,
            None => Secret::random(LAYER_SECRET_BYTES)?,
        };
        let node = HeaderValue::try_from(&config.node)
            .map_err(|_| SettingsError::Node(config.node.clone()))?;
        Ok(Self {
            versions: config.versions.clone(),
            max_body_bytes: config.max_body_bytes,
            ping_after: Some(config.ping_after).filter(|after| !after.is_zero()),
            node,
            layer: LayerKey::new(&secret),
            models: config.models.clone(),
            regions,
        })
    }
}
