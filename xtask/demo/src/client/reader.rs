//! Reads an answer's body as it comes.

use bytes::Bytes;
use edge_demo::Answer;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

/// Most bytes of an answer that are kept: the demo's are small.
const MOST_BYTES: usize = 1 << 20;

/// An answer that is being read.
pub(super) struct Reader {
    status: u16,
    body: Incoming,
    text: Vec<u8>,
    failure: Option<String>,
    ended: bool,
}

impl Reader {
    /// Begins with an answer's head.
    pub(super) fn new(response: http::Response<Incoming>) -> Self {
        Self {
            status: response.status().as_u16(),
            body: response.into_body(),
            text: Vec::new(),
            failure: None,
            ended: false,
        }
    }

    /// Reads until `count` events have begun, or the end.
    pub(super) async fn read_events(&mut self, count: usize) {
        while !self.ended && self.events_so_far() < count {
            self.read_frame().await;
        }
    }

    /// Reads to the end.
    pub(super) async fn read_to_end(&mut self) {
        while !self.ended {
            self.read_frame().await;
        }
    }

    /// What has come so far.
    pub(super) fn answer(&self) -> Answer {
        Answer {
            failure: self.failure.clone(),
            ended_unix_ns: edge_demo::unix_ns(),
            ..Answer::from_parts(Some(self.status), &String::from_utf8_lossy(&self.text))
        }
    }

    fn events_so_far(&self) -> usize {
        let text = String::from_utf8_lossy(&self.text);
        text.lines()
            .filter(|line| line.starts_with("event:"))
            .count()
    }

    async fn read_frame(&mut self) {
        match self.body.frame().await {
            None => self.ended = true,
            Some(Err(error)) => {
                self.failure = Some(with_sources(&error));
                self.ended = true;
            }
            Some(Ok(frame)) => {
                let data: Bytes = frame.into_data().unwrap_or_default();
                if self.text.len() + data.len() > MOST_BYTES {
                    self.failure = Some(format!("more than {MOST_BYTES} bytes"));
                    self.ended = true;
                    return;
                }
                self.text.extend_from_slice(&data);
            }
        }
    }
}

/// An error and what caused it, in the libraries' words.
pub(super) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}
