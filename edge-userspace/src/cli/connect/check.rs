//! `edge connect --check`: each edge once.

use crate::cli::output::{Failure, Outcome, print_json, print_line};
use crate::sidecar::{self, nodes::Nodes, regions};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// For one edge, all of it.
const PATIENCE: Duration = Duration::from_secs(20);

/// What one edge showed.
#[derive(serde::Serialize)]
struct Shown {
    url: String,
    /// `direct` is the zero lane.
    lane: Option<String>,
    connect_ms: Option<f64>,
    round_trip_ms: Option<f64>,
    capacity_percent: Option<f64>,
    clock_ahead_ms: i64,
    error: Option<String>,
}

/// Asks them all; fails when none serves.
pub(super) async fn check(options: sidecar::Options, json: bool) -> Outcome {
    let nodes = Nodes::new(options.key, options.audience, options.tls, options.limits);
    for endpoint in options.edges {
        nodes.add(endpoint, None)?;
    }
    let mut all = Vec::new();
    for node in nodes.all() {
        let client = &node.client;
        let mut shown = Shown {
            url: client.endpoint().to_string(),
            lane: None,
            connect_ms: None,
            round_trip_ms: None,
            capacity_percent: None,
            clock_ahead_ms: 0,
            error: None,
        };
        match timeout(PATIENCE, look(client, &mut shown)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => shown.error = Some(error.to_string()),
            Err(_) => shown.error = Some(format!("no answer within {PATIENCE:?}")),
        }
        shown.clock_ahead_ms = client.tokens().clock().ahead_ms();
        all.push(shown);
    }
    let serves = all.iter().any(|shown| shown.error.is_none());
    match json {
        true => print_json(&all)?,
        false => all.iter().try_for_each(|shown| print_line(line(shown)))?,
    }
    if serves { Ok(()) } else { Err(Failure::Told) }
}

async fn look(client: &edge_client::Client, shown: &mut Shown) -> Result<(), edge_client::Error> {
    let begun = Instant::now();
    client.open_ahead().await?;
    shown.connect_ms = Some(ms(begun.elapsed()));
    let health = client.health(None).await?;
    shown.round_trip_ms = Some(ms(health.round_trip));
    if !health.status.is_success() {
        shown.error = Some(format!("it answers {} to /v1/health", health.status));
    }
    let answer = client.get("/v1/regions", regions::MAX_BYTES).await?;
    let lane = answer.headers.get("x-claude-route");
    shown.lane = lane.and_then(|lane| Some(lane.to_str().ok()?.to_owned()));
    let regions = regions::read(&answer.body).unwrap_or_default();
    shown.capacity_percent = (regions.iter())
        .find(|region| region.is_self)
        .and_then(|region| region.capacity_percent);
    Ok(())
}

fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

fn line(shown: &Shown) -> String {
    if let Some(error) = &shown.error {
        // Most errors name the edge themselves.
        return match error.contains(&shown.url) {
            true => error.clone(),
            false => format!("{}: {error}", shown.url),
        };
    }
    let lane = match shown.lane.as_deref() {
        Some("direct") => "zero lane",
        Some("fallback") => "legacy lane: the token did not arrive, so TLS ends on the way",
        _ => "lane not told",
    };
    let mut text = format!(
        "{}: {lane}, connected in {:.1} ms, round trip {:.1} ms",
        shown.url,
        shown.connect_ms.unwrap_or_default(),
        shown.round_trip_ms.unwrap_or_default(),
    );
    if let Some(percent) = shown.capacity_percent {
        text += &format!(", {percent:.0} % used");
    }
    if shown.clock_ahead_ms != 0 {
        text += &format!(
            ", its clock is {:.1} s ahead of this machine's",
            shown.clock_ahead_ms as f64 / 1000.0
        );
    }
    text
}
