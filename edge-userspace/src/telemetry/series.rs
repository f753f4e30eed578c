//! Counters with a fixed set of label values.

use crate::api::Route;
use crate::prompt;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A label's values: known ahead, each with its place.
pub trait Series: Copy + Send + Sync + fmt::Debug + 'static {
    /// Every value, in order of [`Series::index`].
    fn all() -> impl Iterator<Item = Self>;
    /// This value's place, counted from 0.
    fn index(self) -> usize;
    /// Label names and values.
    fn labels(self) -> Vec<(&'static str, &'static str)>;
}

/// No label at all: one counter.
impl Series for () {
    fn all() -> impl Iterator<Item = Self> {
        [()].into_iter()
    }

    fn index(self) -> usize {
        0
    }

    fn labels(self) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }
}

/// One counter for each value of a label. Clones count together.
#[derive(Clone, Debug)]
pub struct Counters<S> {
    values: Arc<[AtomicU64]>,
    series: PhantomData<S>,
}

impl<S: Series> Default for Counters<S> {
    fn default() -> Self {
        Self {
            values: S::all().map(|_| AtomicU64::new(0)).collect(),
            series: PhantomData,
        }
    }
}

impl<S: Series> Counters<S> {
    /// Counts `n` more.
    #[inline]
    pub fn add(&self, series: S, n: u64) {
        // Many add nothing most of the time, and a locked addition is not free.
        if n > 0 {
            self.values[series.index()].fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Counts one more.
    #[inline]
    pub fn one(&self, series: S) {
        self.add(series, 1);
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self, series: S) -> u64 {
        self.values[series.index()].load(Ordering::Relaxed)
    }

    /// All series together.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.values
            .iter()
            .map(|value| value.load(Ordering::Relaxed))
            .sum()
    }
}

impl<S: Series> EncodeMetric for Counters<S> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for series in S::all() {
            let (labels, value) = (series.labels(), self.get(series));
            if labels.is_empty() {
                encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
            } else {
                let mut encoder = encoder.encode_family(&labels)?;
                encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

macro_rules! label {
    ($(#[$doc:meta])* $kind:ident $label:literal { $($(#[$value_doc:meta])* $name:ident $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind { $($(#[$value_doc])* $name,)* }

        impl $kind {
            /// How many values there are.
            pub const COUNT: usize = [$(Self::$name,)*].len();

            /// The value as the label has it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }

        impl Series for $kind {
            fn all() -> impl Iterator<Item = Self> {
                [$(Self::$name,)*].into_iter()
            }

            #[inline]
            fn index(self) -> usize {
                self as usize
            }

            fn labels(self) -> Vec<(&'static str, &'static str)> {
                vec![($label, self.name())]
            }
        }
    };
}

label! {
    /// How a TLS handshake ended.
    Handshake "outcome" {
        /// TLS is up.
        Completed "completed",
        /// One side did not like what the other said.
        Failed "failed",
        /// Not done within the handshake timeout.
        TimedOut "timed_out",
        /// Not begun: too many without a token waited, or its turn did not come in time.
        Crowded "crowded",
    }
}

label! {
    /// On which lane a connection runs.
    Lane "lane" {
        /// Authenticated by its token.
        Zero "zero",
        /// To be authenticated by each request's header.
        Legacy "legacy",
    }
}

label! {
    /// Why the edge closed a connection or did not take it.
    ConnectionEnd "reason" {
        /// More than the configured number at a time.
        Limit "limit",
        /// accept(2) failed: no descriptors, no memory.
        AcceptFailed "accept_failed",
        /// Its hello was not whole, and of too many such it had waited longest.
        HelloPushedOut "hello_pushed_out",
        /// Another key came on a bound connection.
        Poisoned "poisoned",
        /// Its key was revoked or removed.
        KeyEnded "key_ended",
        /// Its key was over its soft rate.
        KeyRate "key_rate",
        /// Its key was over a quota, and another node may have room.
        KeyQuota "key_quota",
        /// Its client did not speak HTTP as the standards have it, or flooded.
        Protocol "protocol",
        /// Nothing was asked for too long.
        Idle "idle",
        /// The daemon stops.
        Draining "draining",
    }
}

label! {
    /// How a relayed response ended.
    StreamEnd "how" {
        /// With its last byte.
        Complete "complete",
        /// The client left or cancelled before the response's head.
        ClientLeftBeforeHead "client_left_before_head",
        /// The client left or cancelled within the response.
        ClientLeft "client_left",
        /// The client took nothing of the response for too long.
        ClientStalled "client_stalled",
        /// The upstream said within an event stream that it failed.
        UpstreamError "upstream_error",
        /// The upstream's response was no HTTP any more.
        UpstreamBroke "upstream_broke",
        /// The upstream reset its connection within the response.
        UpstreamReset "upstream_reset",
        /// The upstream's response ended before it was whole.
        UpstreamTruncated "upstream_truncated",
        /// The upstream fell silent within the response.
        UpstreamSilent "upstream_silent",
        /// The connection's key was revoked or removed.
        KeyEnded "key_ended",
        /// The daemon stopped and the drain timeout was over.
        Draining "draining",
        /// Its key passed a hard cap.
        Capped "capped",
    }
}

label! {
    /// Which limit of its key a request was over.
    QuotaLimit "limit" {
        /// Requests a minute.
        Requests "requests",
        /// Tokens of prompts a minute.
        Input "input_tokens",
        /// Tokens of answers a minute.
        Output "output_tokens",
        /// Requests that run at a time.
        Concurrent "concurrent_requests",
        /// Tokens a day: a hard cap.
        Day "tokens_per_day",
    }
}

label! {
    /// Why an answer of an upstream could not be read along.
    UnreadAnswer "reason" {
        /// It is compressed, in spite of `accept-encoding: identity`.
        Encoded "encoded",
        /// It says to be neither JSON nor an event stream.
        ContentType "content_type",
        /// Objects and arrays nested too deep.
        Depth "too_deep",
        /// Not UTF-8.
        Utf8 "not_utf8",
        /// An event of more than 1 MiB.
        Length "too_long",
        /// Not JSON, or not all of one.
        Json "not_json",
    }
}

label! {
    /// What kind of tokens a request used.
    UsedTokens "kind" {
        /// Of its prompt, not from a cache.
        Input "input",
        /// Of its prompt, read from the upstream's cache.
        CacheRead "cache_read",
        /// Of its prompt, written to the upstream's cache.
        CacheWritten "cache_written",
        /// Of its answer.
        Output "output",
    }
}

label! {
    /// What became of a connection to a listener that expects a PROXY header.
    ProxyHeader "outcome" {
        /// The header names the client.
        Proxied "proxied",
        /// The header says that the address is the connection's own.
        Own "own",
        /// The source is not trusted: closed unread.
        Untrusted "untrusted",
        /// Something else came: closed.
        Missing "missing",
        /// The header contradicts the protocol: closed.
        Malformed "malformed",
        /// The header is longer than the edge reads: closed.
        TooLong "too_long",
        /// The other side left, or was too slow, before the header was whole.
        Incomplete "incomplete",
    }
}

label! {
    /// What happened to an upstream connection.
    UpstreamConnection "what" {
        /// A new one was made.
        Opened "opened",
        /// An idle one was used again.
        Reused "reused",
        /// None could be made.
        Failed "failed",
        /// None was made: the thread has as many as it may have.
        Full "full",
        /// An idle one turned out to be dead before it was used.
        Stale "stale",
        /// A request was sent again because its reused connection had died unused.
        Retried "retried",
    }
}

label! {
    /// How reading changed certificate files went.
    CertificateReload "outcome" {
        /// The new ones are in use.
        Loaded "loaded",
        /// They were no good; the old ones stay in use.
        Refused "refused",
    }
}

label! {
    /// Why a request was refused for what its body holds.
    PromptRefusal "reason" {
        /// Its prompt is over its key's limit.
        KeyLimit "key_limit",
        /// Its prompt is over the node's limit.
        NodeLimit "node_limit",
        /// Its prompt is over the model's context window.
        Context "context",
        /// It is no JSON, or names something twice.
        Json "json",
        /// There was no room to hold it.
        NoRoom "no_room",
        /// It is not the one that its fingerprint is of.
        Fingerprint "fingerprint",
    }
}

label! {
    /// What became of a prefix hint, or of a prediction that nobody was told.
    HintOutcome "what" {
        /// Sent: the client asked for one, and it is sure.
        Told "told",
        /// Asked for, and nothing is sure.
        Unsure "unsure",
        /// Asked for, and this tenant's predictions of late were not right often enough.
        Withheld "withheld",
        /// A hint that was sent, and the answer began so.
        Right "right",
        /// A hint that was sent, and the answer began otherwise.
        Wrong "wrong",
        /// A prediction that was not sent, and the answer began so.
        QuietlyRight "quietly_right",
        /// A prediction that was not sent, and the answer began otherwise.
        QuietlyWrong "quietly_wrong",
        /// A hint that was sent, and the answer broke off before it could be compared.
        Unseen "unseen",
    }
}

label! {
    /// What was known of a request's beginning.
    ContextOutcome "outcome" {
        /// A prefix with messages in it: the conversation goes on.
        Hit "hit",
        /// Its tools and system prompt alone.
        Beginning "beginning",
        /// Nothing.
        Miss "miss",
        /// It has no canonical form, so nothing can be.
        Unnamed "unnamed",
    }
}

label! {
    /// What a warm-up did.
    Preheat "outcome" {
        /// A slot was brought near, and a connection to its upstream.
        Warmed "warmed",
        /// Nothing is known under that name.
        Unknown "unknown",
        /// The key has used up its warm-ups.
        UsedUp "used_up",
    }
}

impl Series for prompt::Kind {
    fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    #[inline]
    fn index(self) -> usize {
        self as usize
    }

    fn labels(self) -> Vec<(&'static str, &'static str)> {
        vec![("kind", self.name())]
    }
}

/// A request's route and status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    route: Route,
    status: usize,
}

impl Requests {
    const STATUSES: [(u16, &'static str); 15] = [
        (200, "200"),
        (400, "400"),
        (401, "401"),
        (403, "403"),
        (404, "404"),
        (405, "405"),
        (408, "408"),
        (413, "413"),
        (415, "415"),
        (429, "429"),
        (500, "500"),
        (502, "502"),
        (503, "503"),
        (504, "504"),
        (529, "529"),
    ];
    const OTHERS: [&'static str; 4] = ["2xx", "3xx", "4xx", "5xx"];
    const PER_ROUTE: usize = Self::STATUSES.len() + Self::OTHERS.len();

    /// A response of that status. Statuses that are not listed count by their class.
    #[must_use]
    pub fn new(route: Route, status: http::StatusCode) -> Self {
        let code = status.as_u16();
        let known = Self::STATUSES.iter().position(|(known, _)| *known == code);
        let class = || Self::STATUSES.len() + usize::from((code / 100).clamp(2, 5) - 2);
        Self {
            route,
            status: known.unwrap_or_else(class),
        }
    }

    fn status(self) -> &'static str {
        match Self::STATUSES.get(self.status) {
            Some((_, text)) => text,
            None => Self::OTHERS[self.status - Self::STATUSES.len()],
        }
    }
}

impl Series for Requests {
    fn all() -> impl Iterator<Item = Self> {
        Route::all()
            .flat_map(|route| (0..Self::PER_ROUTE).map(move |status| Self { route, status }))
    }

    fn index(self) -> usize {
        self.route.index() * Self::PER_ROUTE + self.status
    }

    fn labels(self) -> Vec<(&'static str, &'static str)> {
        let mut labels = self.route.labels();
        labels.push(("status", self.status()));
        labels
    }
}
