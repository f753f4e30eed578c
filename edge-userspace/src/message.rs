//! Requests and answers on their way through the edge: heads whose fields lie in lists, with bodies.
//!
//! Made of what the client's connection has read ([`crate::listener`]) and of what an upstream's has
//! ([`crate::upstream`]); what is in them is decided between ([`crate::api`]).

pub(crate) mod digits;

use bytes::Bytes;
use edge_http2::Fields;
use http::header::{HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, StatusCode, Uri, Version, header};

/// A request without its body.
#[derive(Clone, Debug)]
pub struct Head {
    /// What it is to do.
    pub method: Method,
    /// To what.
    pub uri: Uri,
    /// As which HTTP it came.
    pub version: Version,
    /// All other fields.
    pub fields: Fields,
}

/// A request.
#[derive(Debug)]
pub struct Request<B> {
    /// All but the body.
    pub head: Head,
    /// What it brings.
    pub body: B,
}

/// An answer.
#[derive(Debug)]
pub struct Response<B> {
    /// How it ended.
    pub status: StatusCode,
    /// All other fields of its head.
    pub fields: Fields,
    /// What it brings.
    pub body: B,
}

impl Head {
    /// The path with the query, `/` where there is none.
    #[must_use]
    pub fn path_and_query(&self) -> &str {
        self.uri.path_and_query().map_or("/", PathAndQuery::as_str)
    }
}

impl From<http::request::Parts> for Head {
    fn from(parts: http::request::Parts) -> Self {
        Self {
            method: parts.method,
            uri: parts.uri,
            version: parts.version,
            fields: parts.headers.into(),
        }
    }
}

impl<A, B: From<A>> From<http::Request<A>> for Request<B> {
    fn from(request: http::Request<A>) -> Self {
        let (head, body) = request.into_parts();
        Self {
            head: head.into(),
            body: body.into(),
        }
    }
}

impl<B> Response<B> {
    /// 200, and not a field yet.
    #[must_use]
    pub const fn new(body: B) -> Self {
        Self {
            status: StatusCode::OK,
            fields: Fields::new(),
            body,
        }
    }

    /// The same with another body.
    pub fn map<T>(self, body: impl FnOnce(B) -> T) -> Response<T> {
        Response {
            status: self.status,
            fields: self.fields,
            body: body(self.body),
        }
    }

    /// As libraries have it.
    pub fn into_http(self) -> http::Response<B> {
        let mut response = http::Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = HeaderMap::from(self.fields);
        response
    }
}

impl Response<Bytes> {
    /// 200 with that JSON.
    #[must_use]
    pub fn json(body: Bytes) -> Self {
        let mut response = Self::new(body);
        let json = HeaderValue::from_static("application/json");
        response.fields.append(header::CONTENT_TYPE, json);
        response
    }
}
