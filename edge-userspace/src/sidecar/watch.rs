//! How the edges are: health round trips, and what they say of their capacity.
//!
//! Every edge is asked every few seconds over the connection that requests take, so the way is
//! kept open too; one that was slow or could not be reached is asked sooner.

use super::choose::SLOW;
use super::nodes::{Node, Nodes, random};
use super::regions;
use edge_client::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Between two rounds, when all is well.
const EVERY: Duration = Duration::from_secs(5);
/// And when an edge was slow or did not answer.
const SOONER: Duration = Duration::from_secs(1);
/// A health check that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(2);
/// Making a connection may take longer: TLS, and a look at what was refused.
const CONNECT_PATIENCE: Duration = Duration::from_secs(12);
/// Regions are asked for every so many rounds.
const REGIONS_EVERY: u64 = 3;

/// What came of one check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    Well,
    Late,
    /// The token was refused; that does not change from one second to the next.
    Refused,
}

/// Checks all edges, round after round. Never ends.
pub(super) async fn watch(nodes: Arc<Nodes>, discover: bool) {
    loop {
        let with_regions = nodes.rounds().is_multiple_of(REGIONS_EVERY);
        let came = check_all(&nodes, discover, with_regions).await;
        nodes.reviewed();
        sleep(if came == Came::Well { EVERY } else { SOONER }).await;
    }
}

/// One round, all edges at once.
async fn check_all(nodes: &Arc<Nodes>, discover: bool, with_regions: bool) -> Came {
    let mut checks = JoinSet::new();
    for node in nodes.all() {
        let nodes = Arc::clone(nodes);
        checks.spawn(async move {
            let came = check(&nodes, &node).await;
            if with_regions && came == Came::Well {
                ask_regions(&nodes, &node, discover).await;
            }
            came
        });
    }
    let came = checks.join_all().await;
    match came.contains(&Came::Late) {
        true => Came::Late,
        false => Came::Well,
    }
}

/// Asks one edge how it is, and tells the choice.
async fn check(nodes: &Nodes, node: &Node) -> Came {
    let number = node.number;
    let opened = timeout(CONNECT_PATIENCE, node.client.open_ahead()).await;
    let failed = match opened {
        Ok(Ok(())) => match timeout(PATIENCE, node.client.health(None)).await {
            Ok(Ok(health)) if health.status.is_success() => {
                node.check_went_well();
                nodes.note(|chooser, now| chooser.checked(number, health.round_trip, now));
                return match health.round_trip > SLOW {
                    true => Came::Late,
                    false => Came::Well,
                };
            }
            Ok(Ok(health)) => {
                node.check_failed(&format_args!("it answers {}", health.status));
                None
            }
            Ok(Err(error)) => Some(error),
            Err(_) => {
                node.check_failed(&format_args!("no answer within {PATIENCE:?}"));
                None
            }
        },
        Ok(Err(error)) => Some(error),
        Err(_) => {
            node.check_failed(&format_args!("no connection within {CONNECT_PATIENCE:?}"));
            None
        }
    };
    if let Some(Error::Connect(error)) = &failed
        && error.is_refusal()
    {
        node.refuses(error);
    }
    if let Some(error) = &failed {
        node.check_failed(error);
    }
    let is_refusal = matches!(&failed, Some(Error::Connect(error)) if error.is_refusal());
    nodes.note(|chooser, now| match failed {
        _ if is_refusal => chooser.refused_token(number, random(), now),
        // All places are taken: it serves.
        Some(Error::Full { .. }) => None,
        _ => chooser.failed(number, random(), now),
    });
    match is_refusal {
        true => Came::Refused,
        false => Came::Late,
    }
}

/// Reads what the edge says of itself, and of others.
async fn ask_regions(nodes: &Nodes, node: &Node, discover: bool) {
    let asked = node.client.get("/v1/regions", regions::MAX_BYTES);
    let Ok(Ok(answer)) = timeout(PATIENCE, asked).await else {
        return;
    };
    if !answer.status.is_success() {
        // An edge that has none is chosen by its round trips.
        return;
    }
    for region in regions::read(&answer.body).unwrap_or_default() {
        if region.is_self {
            nodes.note(|chooser, _| {
                chooser.uses(node.number, region.capacity_percent);
                None
            });
        } else if let (true, Some(endpoint)) = (discover, region.endpoint) {
            let name = endpoint.to_string();
            // The key has been in a header before.
            if let Ok(Some(_)) = nodes.add(endpoint, region.audience.as_deref()) {
                tracing::info!(edge = name, told_by = %node.client.endpoint(), "another edge is known");
            }
        }
    }
}
