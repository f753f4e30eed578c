//! What a request's head must be, whatever it asks for.
//!
//! Not here: what its headers say ([`super::seen`]).

use super::error::ApiError;
use super::seen::Seen;
use super::{Api, Route, headers};
use crate::message::{Head, Response};
use crate::session::{Session, State};
use crate::telemetry::{ConnectionEnd, Requests};
use bytes::Bytes;
use http::uri::Authority;
use http::{StatusCode, Version};

/// Largest size of all headers of a request, with 32 bytes more for each (RFC 9113 section
/// 6.5.2). Prompts are in the body; long cookies and traces are here.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Most headers of a request, each line or field one. Of those over HTTP/1.1 that have more nothing
/// is read.
pub const MAX_HEADERS: usize = 256;
/// Longest path and query.
const MAX_PATH_BYTES: usize = 8 * 1024;

/// Whether it is one that can go on.
pub(super) fn check(head: &Head, seen: &Seen<'_>) -> Result<(), ApiError> {
    authority(head, seen)?;
    if seen.has_blanks {
        return Err(ApiError::invalid_request(
            "a header's value begins or ends with a blank",
        ));
    }
    if seen.head_bytes > MAX_HEAD_BYTES || head.fields.len() > MAX_HEADERS {
        return Err(too_large());
    }
    if head.path_and_query().len() > MAX_PATH_BYTES {
        return Err(path_too_long());
    }
    Ok(())
}

impl Api {
    /// Whether an HTTP/1 request says which host it is for as it must (RFC 9112 section 3.2). One
    /// that does not is no HTTP/1.1, so its connection ends with the answer as that of any other
    /// such one does.
    pub(super) fn check_host(
        &self,
        session: &Session,
        head: &Head,
        seen: &Seen<'_>,
    ) -> Result<(), ApiError> {
        if head.version >= Version::HTTP_2 {
            // See `check`: its requests end by themselves.
            return Ok(());
        }
        let checked = hosts(head, seen);
        if checked.is_err() && session.state() == State::Open {
            session.close();
            self.metrics.connection_ends.one(ConnectionEnd::Protocol);
        }
        checked
    }

    /// What a client is told whose request could not be read, so that no more is known of it
    /// than what is wrong; counts it.
    pub fn unreadable(&self, session: &Session, status: StatusCode) -> Response<Bytes> {
        let id = self.ids.next();
        let error = match status {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => too_large(),
            StatusCode::URI_TOO_LONG => path_too_long(),
            _ => ApiError::invalid_request(
                "The request is not HTTP/1.1 as RFC 9112 has it: its head or the framing of its body is malformed",
            ),
        };
        let mut response = error.response(&id.text().value());
        let lane = session.identity().lane;
        headers::dress(&mut response.fields, &self.settings, lane, &id);
        let counted = Requests::new(Route::None, error.status());
        self.metrics.requests.one(counted);
        response
    }
}

/// Whether there is one `host` at most, over HTTP/1.1 no less, and none is malformed. An empty one
/// leaves it to the server (RFC 9112 section 3.3).
fn hosts(head: &Head, seen: &Seen<'_>) -> Result<(), ApiError> {
    let wants_host = head.version == Version::HTTP_11;
    if seen.host_malformed || seen.hosts > 1 || (wants_host && seen.hosts == 0) {
        return Err(ApiError::invalid_request(
            "host must be there once and be a host, with a port if need be",
        ));
    }
    Ok(())
}

/// Whether an HTTP/2 request names one host (RFC 9113 section 8.3.1).
fn authority(head: &Head, seen: &Seen<'_>) -> Result<(), ApiError> {
    if head.version < Version::HTTP_2 {
        return Ok(());
    }
    hosts(head, seen)?;
    let authority = head.uri.authority().map(Authority::as_str);
    let Some(authority) = authority else {
        return Ok(());
    };
    if authority.contains('@') {
        return Err(ApiError::invalid_request(
            ":authority must be a host, without a user",
        ));
    }
    match seen.host {
        Some(host) if !host.as_bytes().eq_ignore_ascii_case(authority.as_bytes()) => Err(
            ApiError::invalid_request("host and :authority name different hosts"),
        ),
        _ => Ok(()),
    }
}

fn too_large() -> ApiError {
    ApiError::head_too_large(format!(
        "The request has more than {MAX_HEADERS} headers, or they are larger than {MAX_HEAD_BYTES} bytes"
    ))
}

fn path_too_long() -> ApiError {
    ApiError::uri_too_long(format!(
        "The path and query are longer than {MAX_PATH_BYTES} bytes"
    ))
}
