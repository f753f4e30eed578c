//! The environment variables that lead SDKs to the sidecar.

use crate::cli::output::{Failure, Outcome, print_json, print_line};
use std::net::SocketAddr;

/// Stands where SDKs want a key; the sidecar puts the real one in.
const NO_KEY: &str = "edge-connect";

/// Prints them.
pub(super) fn print(listen: SocketAddr, json: bool) -> Outcome {
    if listen.port() == 0 {
        return Err(Failure::Usage(
            "--print-env: with port 0 the port is not known before it listens; name one, as 127.0.0.1:8788".to_owned(),
        ));
    }
    let variables = variables(listen);
    if json {
        let object: serde_json::Map<_, _> = (variables.into_iter())
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        return print_json(&object);
    }
    for (name, value) in variables {
        print_line(format!("export {name}={value}"))?;
    }
    Ok(())
}

/// Of both families of SDKs. OpenAI's take the version into the base URL, Anthropic's put it into
/// their paths.
fn variables(listen: SocketAddr) -> [(&'static str, String); 4] {
    [
        ("ANTHROPIC_BASE_URL", format!("http://{listen}")),
        ("ANTHROPIC_API_KEY", NO_KEY.to_owned()),
        ("OPENAI_BASE_URL", format!("http://{listen}/v1")),
        ("OPENAI_API_KEY", NO_KEY.to_owned()),
    ]
}
