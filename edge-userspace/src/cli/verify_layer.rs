//! `edge verify-layer`.

use super::moment;
use super::output::{Failure, Outcome, print_json, print_line};
use crate::api::layer::LayerKey;
use crate::config;
use crate::secret::Secret;
use http::HeaderValue;
use std::path::PathBuf;

/// Check an x-anthropic-layer header against the secret that should have signed it.
///
/// The header and the request-id header of the same response go together. Good: exit code 0
/// and the time of signing.
#[derive(clap::Args)]
#[command(
    group(clap::ArgGroup::new("secret").required(true).args(["secret_file", "config"])),
    after_help = "Examples:
  edge verify-layer --secret-file layer.key --request-id req_01… 'zero-latency-v2;t=…;kid=…;sig=…'
  edge verify-layer --config edge.toml --request-id req_01… 'zero-latency-v2;t=…;kid=…;sig=…' --json"
)]
pub(super) struct VerifyLayer {
    /// The header's value.
    value: String,
    /// The request-id of the same response.
    #[arg(long)]
    request_id: HeaderValue,
    /// File that holds the secret of api.layer_secret and nothing else.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// A configuration that says where the secret is.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl VerifyLayer {
    pub(super) fn run(self) -> Outcome {
        let secret = match (&self.secret_file, &self.config) {
            (Some(path), _) => Secret::read(path)?,
            (None, Some(file)) => (config::load(file)?.api.layer_secret)
                .ok_or_else(|| {
                    Failure::because(format!(
                        "{}: has no [api.layer_secret]: the daemon made a secret at its start, and nobody else knows it",
                        file.display(),
                    ))
                })?
                .read()?,
            (None, None) => return Err(Failure::because("name --secret-file or --config")),
        };
        match LayerKey::new(&secret).verify(&self.value, &self.request_id) {
            Ok(at_s) if self.json => {
                print_json(&serde_json::json!({ "good": true, "signed_at_s": at_s }))
            }
            Ok(at_s) => print_line(format_args!("good: signed {}", moment::show(at_s))),
            Err(error) if self.json => {
                print_json(&serde_json::json!({ "good": false, "why": error.to_string() }))?;
                Err(Failure::Told)
            }
            Err(error) => Err(Failure::because(format!("not to be believed: {error}"))),
        }
    }
}
