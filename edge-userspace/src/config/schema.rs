//! Every field that a configuration can have: its name, what it takes, its default.
//!
//! The loader and the reference in `docs/operations.md` both come from this list.

use super::listed;
use std::time::Duration;

/// A field of the configuration.
#[derive(Debug)]
pub struct Field {
    /// Sections and name, joined by points: `listen.backlog`.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// What holds when it is not written.
    pub default: Otherwise,
    /// What it is for.
    pub about: &'static str,
}

/// What values a field takes.
#[derive(Debug)]
pub enum Kind {
    /// A whole number within bounds, both included.
    Integer(u64, u64),
    /// A duration within bounds, both included.
    Duration(Duration, Duration),
    /// `true` or `false`.
    Boolean,
    /// Any text but none.
    Text,
    /// A list of texts.
    Texts,
    /// A file; a relative path starts at the configuration's directory.
    Path,
    /// An address and port.
    Address,
    /// A list of addresses and ports, at least one.
    Addresses,
    /// A list of networks, at least one.
    Networks,
    /// Tables of rules by fingerprint.
    Rules,
    /// Tables of rules by model.
    Models,
    /// Tables of upstreams.
    Upstreams,
    /// Tables of texts: the fields of each, and whether it must be written.
    Tables(&'static [(&'static str, bool)]),
    /// One of these.
    Choice(&'static [&'static str]),
}

/// What holds when a field is not written.
#[derive(Debug)]
pub enum Otherwise {
    /// It must be written.
    Required,
    /// This value, in TOML.
    Value(&'static str),
    /// Found out at start, as the text says.
    Computed(&'static str),
}

const fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

const fn s(number: u64) -> Duration {
    Duration::from_secs(number)
}

macro_rules! fields {
    ($($name:literal: $kind:expr, $default:expr, $about:literal;)*) => {
        /// Every field there is, section by section.
        pub static FIELDS: &[Field] = &[$(
            Field { name: $name, kind: $kind, default: $default, about: $about },
        )*];
    };
}

use Kind::{
    Address, Addresses, Boolean, Choice, Integer, Models, Networks, Path, Rules, Tables, Text,
    Texts, Upstreams,
};
use Otherwise::{Computed, Required, Value};

fields! {
    "listen.addresses": Addresses, Required,
        "Where clients connect. The kernel program watches these ports. Port 0 takes a free one.";
    "listen.threads": Integer(1, 1024), Computed("one a core"),
        "Serving threads, each with its own runtime and listening socket.";
    "listen.backlog": Integer(1, 65_535), Value("4096"),
        "listen(2) backlog of each socket.";
    "listen.handshake_timeout": Kind::Duration(ms(100), s(600)), Value("\"5s\""),
        "From accept to the end of the TLS handshake.";
    "listen.max_hello_bytes": Integer(4096, 1_048_576), Value("65536"),
        "Longest ClientHello, records taken off; a longer one ends the connection.";
    "listen.max_unread_hellos": Integer(16, 1_048_576), Value("4096"),
        "Connections at a time, of each serving thread, whose ClientHello has not come whole; of more, the one that has waited longest is closed.";
    "listen.max_connections": Integer(1, 16_777_216), Value("65536"),
        "Connections at a time, all threads together; more are closed at accept.";
    "listen.max_streams": Integer(1, 65_535), Value("256"),
        "Streams at a time on one HTTP/2 connection.";
    "listen.unread_timeout": Kind::Duration(ms(0), s(86_400)), Value("\"180s\""),
        "How long a response goes on of which the client takes nothing more, by HTTP/2's window or TCP's. 0s: as long as the connection, over HTTP/1.1 180s.";
    "listen.drain_timeout": Kind::Duration(ms(0), s(86_400)), Value("\"30s\""),
        "How long running streams may go on after a stop signal.";
    "listen.proxy_protocol.addresses": Addresses, Computed("none"),
        "Which of `listen.addresses` expect the PROXY protocol (version 1 or 2) before the hello.";
    "listen.proxy_protocol.trusted": Networks, Computed("nobody"),
        "Where the header may come from: the balancers' networks. Anyone else is closed at accept on those addresses.";
    "tls.certificate": Path, Required,
        "PEM certificate chain, leaf first. Read again when it changes.";
    "tls.private_key": Path, Required,
        "PEM private key of the leaf (PKCS#8, PKCS#1 or SEC1).";
    "tls.ticket_rotation": Kind::Duration(s(60), s(7 * 86_400)), Value("\"6h\""),
        "How often the session-ticket key changes.";
    "keys.store": Path, Required,
        "The key store, made by `edge keys new`, mode 0600. Watched for changes.";
    "keys.audience": Text, Required,
        "This edge's audience. MAC keys of other audiences are not loaded, and a key that has none for this one is refused, in a header too.";
    "keys.capacity": Integer(1, 16_777_216), Value("100000"),
        "Most keys. The rest of a longer store is refused, and that is said.";
    "keys.window_back": Kind::Duration(s(1), s(3600)), Value("\"30s\""),
        "How old a token may be, in whole seconds. Changes while the daemon runs.";
    "keys.window_ahead": Kind::Duration(s(0), s(600)), Value("\"5s\""),
        "How far ahead of our clock a token may be, in whole seconds. Changes while the daemon runs.";
    "keys.connections_per_second": Integer(0, 1_000_000), Value("0"),
        "Connections a second that one key may open, and as many at once; beyond them a connection is served, and each of its requests gets a 429. 0: no limit. A key may have its own. Changes while the daemon runs.";
    "keys.connections_per_second_hard": Integer(0, 1_000_000), Value("1000"),
        "Connections a second that one key may open, and as many at once, before more are refused in their hello. 0: no limit. A key may have its own. Changes while the daemon runs.";
    "keys.replay_capacity": Integer(1024, 67_108_864), Value("1048576"),
        "Used tokens that are remembered at a time. When more are live, the holders of the latest are asked for their key in a header.";
    "kernel.attach": Choice(&["auto", "driver", "generic", "off"]), Value("\"auto\""),
        "How the XDP program is attached: `auto` tries driver mode, then generic mode, then goes on without; `driver` and `generic` demand that mode; `off` decides everything in userspace.";
    "kernel.interfaces": Texts, Value("[]"),
        "Interfaces to attach to. Empty: every one that carries a listening address.";
    "kernel.answer": Choice(&["alert", "rst", "drop"]), Value("\"alert\""),
        "How the kernel answers a refused hello: a TLS alert, a TCP reset, or nothing.";
    "kernel.heartbeat_max_age": Kind::Duration(ms(500), s(60)), Value("\"3s\""),
        "When the daemon's last heartbeat is older, the kernel passes everything.";
    "kernel.events_per_second": Integer(0, 1_000_000), Value("100"),
        "Most sampled verdicts a second and CPU.";
    "kernel.flows": Integer(64, 16_777_216), Value("32768"),
        "Connections that the kernel follows at a time, rounded up to a power of two; of more, those seen longest ago go. Each takes 272 bytes.";
    "kernel.answers_per_second": Integer(0, 1_000_000), Value("1000"),
        "Refused clients that are answered at once, a second and CPU. Of more, the server's side is freed first, and the client is answered when it sends again. 0: always so.";
    "kernel.connection_check": Boolean, Value("true"),
        "Whether a hello without a TCP connection here is dropped, without an answer and without being counted, and one to an address where the edge does not listen passes.";
    "legacy.deny": Boolean, Value("false"),
        "Whether clients without a token are refused in their hello. Changes while the daemon runs.";
    "legacy.connections_per_second": Integer(0, 1_000_000), Value("500"),
        "Connections a second without a token from one source prefix (IPv4 /24, IPv6 /64) before more are refused in their hello. 0: no limit. Changes while the daemon runs.";
    "legacy.burst": Integer(1, 1_000_000), Value("1000"),
        "As many as a prefix may open at once. Changes while the daemon runs.";
    "legacy.connections_per_second_total": Integer(0, 10_000_000), Computed("1000 for each of `listen.threads`"),
        "Connections a second without a token from all source prefixes together before more are refused in their hello, and half as many at once. Once half of these are used, a prefix that has had a connection of late comes after those that have not. A full handshake takes a thread some 0.2 ms; those that came at once are made at twice the rate, and at 500 a second and thread at least. 0: no limit. Changes while the daemon runs.";
    "legacy.waiting": Integer(1, 65_536), Value("1024"),
        "Connections without a token of each serving thread that wait for their handshake at a time, while clients with a token and requests go first; more are refused.";
    "legacy.prefix_capacity": Integer(256, 16_777_216), Value("65536"),
        "Source prefixes that are followed at a time; of more, the least used begin anew.";
    "clients.rules": Rules, Computed("none"),
        "Rules by JA4 fingerprint, first match wins, at most 256: `ja4` is a fingerprint whose parts may each end in `*`, `action` is `allow`, `deny` (refused in the hello) or `legacy` (no zero lane, whatever the token).";
    "upstreams": Upstreams, Computed("the one of `[upstream]`"),
        "Several upstreams, at most 64: see [Several upstreams](#several-upstreams). What `[upstream]` says holds for each that does not say otherwise.";
    "regions": Tables(listed::REGION_FIELDS), Computed("none"),
        "The other nodes that `/v1/regions` names to clients, at most 1000: see [Nodes and models](#nodes-and-models).";
    "upstream.url": Text, Computed("must be written unless there are `[[upstreams]]`"),
        "Where requests go: `http://` or `https://`, host, and port if it is not the scheme's own. Requests keep their path.";
    "upstream.ca_file": Path, Computed("the system's roots"),
        "PEM bundle that replaces the system's roots.";
    "upstream.credential.header": Choice(&["x-api-key", "authorization"]), Computed("the client's credential is passed on"),
        "The header in which the upstream gets the edge's own credential (`authorization` is written as `Bearer …`). The client's is then taken out.";
    "upstream.credential.file": Path, Computed("none"),
        "File that holds the upstream's credential and nothing else.";
    "upstream.credential.environment": Text, Computed("none"),
        "Environment variable that holds the upstream's credential.";
    "upstream.connect_timeout": Kind::Duration(ms(10), s(60)), Value("\"2s\""),
        "For the connection to the upstream, TLS included.";
    "upstream.first_byte_timeout": Kind::Duration(ms(100), s(86_400)), Value("\"10m\""),
        "From the request's end to the head of the response.";
    "upstream.idle_timeout": Kind::Duration(ms(100), s(86_400)), Value("\"10m\""),
        "Longest silence within a response.";
    "upstream.max_connections": Integer(1, 1_000_000), Value("4096"),
        "Connections that each thread may have to one upstream at a time, idle ones included; a request beyond them goes to another upstream, or is a 529.";
    "upstream.max_idle": Integer(0, 65_536), Value("4096"),
        "Idle connections that each thread keeps to one upstream, for `keep_idle`: by default all that there may be.";
    "upstream.keep_idle": Kind::Duration(s(1), s(3600)), Value("\"60s\""),
        "How long an idle upstream connection is kept.";
    "upstream.prefill_tokens_per_second": Integer(1, 100_000_000), Value("10000"),
        "How many tokens of prompts an upstream reads in a second: by it the wait at each of several is estimated.";
    "upstream.cache_saving_percent": Integer(0, 100), Value("90"),
        "What a token that an upstream has in its cache saves, per cent of one that it must read.";
    "upstream.cache_patience_percent": Integer(0, 10_000), Value("400"),
        "How long a request waits for the upstream that has its beginning cached, per cent of what that saves. With little patience a busy fleet throws its caches away: see [context.md](context.md#choosing-an-upstream).";
    "upstream.running_percent": Integer(0, 1000), Value("10"),
        "What a token of a prompt whose answer runs costs a new request, per cent of one that waits to be read.";
    "upstream.failure_counts_for": Kind::Duration(ms(0), s(3600)), Value("\"5s\""),
        "How long a request that one of several upstreams failed (a status from 500 on, no answer) or refused (401, 403, 404, 408, 429) counts as if it ran there, less and less: else whoever fails at once would look idle and get ever more.";
    "upstream.eject_after": Integer(1, 1000), Value("3"),
        "Connects in a row that must fail before one of several upstreams gets no requests for a while.";
    "upstream.eject_for": Kind::Duration(ms(100), s(3600)), Value("\"1s\""),
        "How long that is at first; then one request tries, and each time it fails the time doubles.";
    "upstream.eject_at_most": Kind::Duration(ms(100), s(86_400)), Value("\"1m\""),
        "The longest it becomes.";
    "api.versions": Texts, Value("[\"2023-06-01\", \"2026-10-21\"]"),
        "Accepted values of `anthropic-version`.";
    "api.max_body_bytes": Integer(1024, 1_073_741_824), Value("33554432"),
        "Largest request body; a larger one is a 413.";
    "api.ping_after": Kind::Duration(s(0), s(3600)), Value("\"15s\""),
        "After so much silence of the upstream within an event stream, between two events, its client gets a `ping` (a comment with Chat Completions), and another each time it has lasted as long again. 0s: never.";
    "api.node": Text, Computed("the host name"),
        "Name of this node in `x-anthropic-routed-to`.";
    "api.url": Text, Computed("not said"),
        "Where clients reach this node, for `/v1/regions`: `https://`, host, and port if it is not 443.";
    "api.zone": Text, Computed("not said"),
        "Where this node stands, by whatever name, for `/v1/regions`.";
    "api.models": Tables(listed::MODEL_FIELDS), Computed("what the upstreams answer"),
        "The models that `/v1/models` lists, at most 1000: see [Nodes and models](#nodes-and-models).";
    "api.layer_secret.file": Path, Computed("a secret made at start"),
        "File with the secret under which `x-anthropic-layer` is signed.";
    "api.layer_secret.environment": Text, Computed("a secret made at start"),
        "Environment variable with that secret.";
    "prompt.max_tokens": Integer(0, 1_000_000_000), Value("0"),
        "Most tokens of one prompt; a longer one is a 400 that names both numbers. 0: no limit. A key may have its own, which may only be lower. Changes while the daemon runs.";
    "prompt.max_held_bytes": Integer(1_048_576, 1_099_511_627_776), Value("536870912"),
        "Bytes of request bodies that are held at a time, all threads together, until they have been sent on, and of what decoding them takes; a request that finds no room is a 529, one that could never fit a 413.";
    "prompt.models": Models, Computed("those that are built in"),
        "How each model's prompts are counted, first match wins, at most 256 before those that are built in: see [Token counts](#token-counts). Changes while the daemon runs.";
    "prompt.calibration_file": Path, Computed("none: learnt anew with each start"),
        "File in which the daemon keeps what it has learnt of models whose tokenizer is not published.";
    "prompt.calibrated_models": Integer(1, 4096), Value("64"),
        "Models that are learnt apart; for another one, the one that no upstream has answered for longest is forgotten.";
    "quotas.requests_per_minute": Integer(0, 1_000_000_000_000), Value("0"),
        "Requests a minute of one key; beyond them they get a 429. 0: no limit. A key may have its own, of this and of the four below: `edge keys limit`. See [usage.md](usage.md). Changes while the daemon runs.";
    "quotas.input_tokens_per_minute": Integer(0, 1_000_000_000_000), Value("0"),
        "Tokens of prompts a minute of one key. 0: no limit. Changes while the daemon runs.";
    "quotas.output_tokens_per_minute": Integer(0, 1_000_000_000_000), Value("0"),
        "Tokens of answers a minute of one key. 0: no limit. Changes while the daemon runs.";
    "quotas.concurrent_requests": Integer(0, 1_000_000_000_000), Value("0"),
        "Requests of one key that run at a time. 0: no limit. Changes while the daemon runs.";
    "quotas.tokens_per_day": Integer(0, 1_000_000_000_000), Value("0"),
        "Tokens of prompts and answers a UTC day of one key: a hard cap, which ends running streams. 0: no limit. Changes while the daemon runs.";
    "quotas.reserve_output_percent": Integer(0, 100), Value("10"),
        "How much of the most that a request asks for (`max_tokens`) is reserved for its answer before it is sent on, per cent; what an answer makes beyond it is charged as it comes. Changes while the daemon runs.";
    "quotas.default_max_tokens": Integer(0, 1_000_000_000), Value("4096"),
        "What counts as asked for when a request does not say. Changes while the daemon runs.";
    "quotas.reserve_each_choice": Boolean, Value("true"),
        "Whether a request for `n` choices reserves for each of them. Changes while the daemon runs.";
    "quotas.burst_tokens": Integer(0, 1_000_000_000_000), Value("1000000"),
        "Tokens in five minutes beyond which a key's use is a burst, which is said in the log and counted. 0: nothing is one. Changes while the daemon runs.";
    "quotas.usage_file": Path, Computed("none: counted anew with each start"),
        "File in which the daemon keeps what keys have used.";
    "context.enabled": Boolean, Value("true"),
        "Whether conversations are remembered: the next turn goes to the upstream that has its prefix cached, and only its new messages are counted where the model's count is exact. Without it there are no warm-ups and no prefix hints either.";
    "context.table_bytes": Integer(65_536, 1_099_511_627_776), Value("33554432"),
        "Size of the table of contexts, 64 bytes each; of more, the least useful go.";
    "context.huge_pages": Boolean, Value("true"),
        "Whether the table asks the kernel for huge pages. It works without.";
    "context.tenant_share_per_mille": Integer(1, 1000), Value("250"),
        "How much of the table one key's contexts keep when others want room, in thousandths. Where nobody wants it a key may have it all.";
    "context.hints": Boolean, Value("true"),
        "Whether it is learnt how answers begin, for clients that ask with `anthropic-beta: prefix-hint-2024-10-22`.";
    "context.hint_entries": Integer(1024, 16_777_216), Value("32768"),
        "Beginnings of answers that are remembered at a time, about 136 bytes each.";
    "context.preheats_per_minute": Integer(0, 1_000_000), Value("60"),
        "How many `HEAD /v1/health` with `x-anthropic-context-hint` a minute warm something up for each key; 0: none.";
    "admin.address": Address, Value("\"127.0.0.1:9901\""),
        "Where `/metrics`, `/livez`, `/readyz`, `/status` and `/usage` are served, without authentication.";
    "admin.allow_public": Boolean, Value("false"),
        "Whether `admin.address` may be one that strangers can reach.";
    "log.filter": Text, Value("\"info\""),
        "A tracing filter, such as `info,edge_userspace::keys=debug`.";
    "log.json": Boolean, Value("false"),
        "JSON lines instead of text.";
}

impl Kind {
    /// What the field takes, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        use super::values::show_duration as show;
        match self {
            Self::Integer(low, high) => format!("a whole number from {low} to {high}"),
            Self::Duration(low, high) => {
                format!("a duration from \"{}\" to \"{}\"", show(*low), show(*high))
            }
            Self::Boolean => "true or false".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::Texts => "a list of texts".to_owned(),
            Self::Path => "a file's path".to_owned(),
            Self::Address => "an address and port, such as \"127.0.0.1:9901\"".to_owned(),
            Self::Addresses => {
                "a list of addresses and ports, such as [\"0.0.0.0:443\", \"[::]:443\"]".to_owned()
            }
            Self::Networks => {
                "a list of networks, such as [\"10.0.0.0/24\", \"2001:db8::/48\"]".to_owned()
            }
            Self::Rules => "tables, each with `ja4` and `action`".to_owned(),
            Self::Models => "tables, each with `name` and `tokenizer`".to_owned(),
            Self::Upstreams => "tables, each with `name` and `url`".to_owned(),
            Self::Tables(fields) => {
                let names = fields.iter().filter(|(_, required)| *required);
                let names: Vec<_> = names.map(|(name, _)| format!("`{name}`")).collect();
                format!("tables, each with {}", names.join(" and "))
            }
            Self::Choice(names) => {
                let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
                format!("one of {}", names.join(", "))
            }
        }
    }
}

/// The reference of all fields as Markdown tables, as it stands in `docs/operations.md`.
#[must_use]
pub fn reference() -> String {
    let mut out = String::new();
    let mut section = "none";
    for field in FIELDS {
        let (of, name) = field.name.rsplit_once('.').unwrap_or(("", field.name));
        if of != section {
            section = of;
            let gap = if out.is_empty() { "" } else { "\n" };
            let of = match of {
                "" => "Without a section".to_owned(),
                of => format!("`[{of}]`"),
            };
            out += &format!(
                "{gap}#### {of}\n\n| field | takes | default | what for |\n|---|---|---|---|\n"
            );
        }
        let default = match field.default {
            Required => "must be written".to_owned(),
            Value(toml) => format!("`{toml}`"),
            Computed(text) => text.to_owned(),
        };
        let takes = field.kind.describe();
        out += &format!("| `{name}` | {takes} | {default} | {} |\n", field.about);
    }
    out
}
