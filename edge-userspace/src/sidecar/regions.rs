//! What an edge says of itself and its neighbours: the answer of `GET /v1/regions`.
//!
//! Only what the choice goes by is read; the shape is in docs/protocol.md.

use edge_client::Endpoint;
use serde::Deserialize;

/// Longest answer that is read, bytes.
pub const MAX_BYTES: usize = 256 * 1024;

/// One region, as an edge tells of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Its name.
    pub id: String,
    /// It is the edge that was asked.
    pub is_self: bool,
    /// Where it is, when the edge says so.
    pub endpoint: Option<Endpoint>,
    /// Its audience, when it has one of its own.
    pub audience: Option<String>,
    /// How much of itself it uses.
    pub capacity_percent: Option<f64>,
}

#[derive(Deserialize)]
struct Document {
    regions: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(default)]
    is_self: bool,
    url: Option<String>,
    audience: Option<String>,
    capacity_percent: Option<f64>,
}

/// The regions of such an answer. None when it is something else. A region whose URL cannot be
/// used is one without.
#[must_use]
pub fn read(body: &[u8]) -> Option<Vec<Region>> {
    let document: Document = serde_json::from_slice(body).ok()?;
    let regions = document.regions.into_iter().map(|entry| Region {
        id: entry.id,
        is_self: entry.is_self,
        endpoint: entry.url.and_then(|url| Endpoint::parse(&url).ok()),
        audience: entry.audience,
        capacity_percent: entry.capacity_percent,
    });
    Some(regions.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_left_out_and_not_an_error() {
        let regions = read(
            br#"{"regions":[
                {"id":"a","is_self":true,"capacity_percent":42.5,"connections":17,"zone":"z"},
                {"id":"b","url":"https://b.example:8443","audience":"b","capacity_percent":null},
                {"id":"c","url":"http://c.example"}
            ],"more":1}"#,
        )
        .unwrap();
        assert_eq!(regions.len(), 3);
        assert!(regions[0].is_self && regions[0].endpoint.is_none());
        assert_eq!(regions[0].capacity_percent, Some(42.5));
        let b = regions[1].endpoint.as_ref().unwrap();
        assert_eq!(b.to_string(), "https://b.example:8443");
        assert_eq!(regions[1].audience.as_deref(), Some("b"));
        assert_eq!(regions[2].endpoint, None, "never without TLS");
        assert_eq!(read(b"[]"), None);
        assert_eq!(read(br#"{"type":"error"}"#), None);
    }
}
