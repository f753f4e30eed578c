//! `[upstream]` and `[[upstreams]]`: where requests go, and how one of several is chosen.
//!
//! `[upstream]` with a `url` is the short form of a list of one. What else it says holds for
//! each upstream of a list that does not say otherwise.

mod parse;

pub(super) use parse::{Written, parse};

use super::check::parse_url;
use super::files;
use super::load::Loader;
use super::models::Name;
use super::read::Span;
use http::HeaderName;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most upstreams: a request looks at all of them.
pub const MAX_UPSTREAMS: usize = 64;
/// The list's field.
const UPSTREAMS: &str = "upstreams";
/// The name of the one that `[upstream]` is.
const ONLY: &str = "default";

/// One place where requests go.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// What it is called in metrics, status and log: letters, digits, points, hyphens and
    /// underlines, at most 64.
    pub name: String,
    /// Whose requests it takes; empty: every model's.
    pub models: Vec<Name>,
    /// `http` or `https`.
    pub tls: bool,
    /// Host name or address (IPv6 without brackets), for the `host` header and for SNI.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// PEM bundle that replaces the system's roots.
    pub ca_file: Option<PathBuf>,
    /// Whose credential the upstream sees.
    pub credential: Credential,
    /// Default 2 s.
    pub connect_timeout: Duration,
    /// From the request's end to the response's head. Default 600 s.
    pub first_byte_timeout: Duration,
    /// Silence within a response. Default 600 s.
    pub idle_timeout: Duration,
    /// Connections at a time, each thread, idle ones included. Default 4096.
    pub max_connections: usize,
    /// Idle connections kept, each thread. Default 256.
    pub max_idle: usize,
    /// How long an idle connection is kept. Default 60 s.
    pub keep_idle: Duration,
    /// Tokens of prompts that it reads in a second, at least 1. Default 10,000.
    pub prefill_tokens_per_second: u32,
}

/// How one of several upstreams is chosen.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// What a cached token saves, per cent of one that must be read. Default 90.
    pub cache_saving_percent: u32,
    /// How long a request waits for its cache, per cent of what that saves. Default 400.
    pub cache_patience_percent: u32,
    /// What a token of a running request costs a new one, per cent of one that waits to be
    /// read. Default 10.
    pub running_percent: u32,
    /// How long a request that an upstream failed counts as if it ran there. Default 5 s.
    pub failure_counts_for: Duration,
    /// Connects in a row that must fail before an upstream is ejected. Default 3.
    pub eject_after: u32,
    /// How long it is ejected at first. Default 1 s.
    pub eject_for: Duration,
    /// The longest that this becomes. Default 1 min.
    pub eject_at_most: Duration,
}

/// Whose credential the upstream sees.
#[derive(Clone, Debug)]
pub enum Credential {
    /// The client's, as it came.
    Pass,
    /// The upstream's own, in this header.
    Replace {
        /// `x-api-key`, or `authorization` (then written as `Bearer …`).
        header: HeaderName,
        /// Where the secret is.
        from: SecretSource,
    },
}

/// Where a secret is read from.
#[derive(Clone, Debug)]
pub enum SecretSource {
    /// A file that holds nothing else; trailing white space is cut.
    File(PathBuf),
    /// An environment variable; trailing white space is cut.
    Environment(String),
}

impl Upstream {
    /// Its scheme, host and port.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        match self.host.contains(':') {
            true => format!("{scheme}://[{}]:{}", self.host, self.port),
            false => format!("{scheme}://{}:{}", self.host, self.port),
        }
    }

    /// Whether it takes that model's requests; without a model, anyone's.
    #[must_use]
    pub fn serves(&self, model: Option<&[u8]>) -> bool {
        let Some(model) = model else { return true };
        self.models.is_empty() || self.models.iter().any(|name| name.matches(model))
    }
}

impl Loader<'_, '_> {
    pub(super) fn upstreams(&mut self) -> Vec<Upstream> {
        let common = self.upstream();
        let listed = self.values.upstreams(UPSTREAMS).map(<[_]>::to_vec);
        let has_url = self.values.written("upstream.url");
        if !self.values.written(UPSTREAMS) {
            if !has_url && !self.values.is_unread() {
                self.wrong(
                    "upstream.url",
                    "is missing",
                    "write url = … in [upstream], or several upstreams as [[upstreams]]",
                );
            }
            return vec![common];
        }
        if has_url {
            self.wrong(
                "upstream.url",
                "and [[upstreams]] both say where requests go",
                "take one out; the url can be that of one more of [[upstreams]]",
            );
        }
        let directory = self.problems.file.parent().map(Path::to_path_buf);
        let directory = directory.unwrap_or_default();
        let listed = listed.unwrap_or_default().into_iter();
        let mut upstreams = Vec::new();
        for (written, _) in listed {
            let (upstream, files) = written.like(&common, &directory);
            if let Some((path, at)) = files.roots {
                self.roots(&path, Some(at), "upstreams.ca_file");
            }
            if let Some((source, at)) = files.secret {
                self.secret(&source, Some(at), "upstreams.credential");
            }
            upstreams.push(upstream);
        }
        upstreams
    }

    pub(super) fn choice(&mut self) -> Choice {
        let choice = Choice {
            cache_saving_percent: self.integer("upstream.cache_saving_percent") as u32,
            cache_patience_percent: self.integer("upstream.cache_patience_percent") as u32,
            running_percent: self.integer("upstream.running_percent") as u32,
            failure_counts_for: self.duration("upstream.failure_counts_for"),
            eject_after: self.integer("upstream.eject_after") as u32,
            eject_for: self.duration("upstream.eject_for"),
            eject_at_most: self.duration("upstream.eject_at_most"),
        };
        if choice.eject_at_most < choice.eject_for {
            self.wrong(
                "upstream.eject_at_most",
                "is shorter than upstream.eject_for",
                "write at least as much",
            );
        }
        choice
    }

    /// What `[upstream]` says.
    fn upstream(&mut self) -> Upstream {
        let url = self.text("upstream.url");
        let (tls, host, port) = match url.as_deref().map(parse_url) {
            Some(Ok(parts)) => parts,
            Some(Err(what)) => {
                self.wrong("upstream.url", what, URL);
                Default::default()
            }
            None => Default::default(),
        };
        let ca_file = self.path("upstream.ca_file");
        if let Some(path) = &ca_file {
            let at = self.values.span("upstream.ca_file");
            self.roots(path, at, "upstream.ca_file");
        }
        Upstream {
            name: ONLY.to_owned(),
            models: Vec::new(),
            tls,
            host,
            port,
            ca_file,
            credential: self.credential(),
            connect_timeout: self.duration("upstream.connect_timeout"),
            first_byte_timeout: self.duration("upstream.first_byte_timeout"),
            idle_timeout: self.duration("upstream.idle_timeout"),
            max_connections: self.integer("upstream.max_connections") as usize,
            max_idle: self.integer("upstream.max_idle") as usize,
            keep_idle: self.duration("upstream.keep_idle"),
            prefill_tokens_per_second: self.integer("upstream.prefill_tokens_per_second") as u32,
        }
    }

    fn roots(&mut self, path: &Path, at: Option<Span>, field: &str) {
        if let Err(what) = files::certificates(path) {
            self.problems.add(
                at,
                field,
                format!("{}: {what}", path.display()),
                "name a PEM file with the upstream's certificate authority",
            );
        }
    }

    fn credential(&mut self) -> Credential {
        let source = self.secret_source("upstream.credential");
        let header = self.text("upstream.credential.header");
        match (header, source) {
            (Some(header), Some(from)) => Credential::Replace {
                header: HeaderName::from_bytes(header.as_bytes())
                    .unwrap_or(http::header::AUTHORIZATION),
                from,
            },
            (Some(_), None) => {
                if !self.values.written("upstream.credential.file")
                    && !self.values.written("upstream.credential.environment")
                {
                    self.wrong(
                        "upstream.credential.header",
                        "names a header, and nothing says what to put into it",
                        "write file = … or environment = … beside it",
                    );
                }
                Credential::Pass
            }
            (None, Some(_)) => {
                if !self.values.written("upstream.credential.header") {
                    self.wrong(
                        "upstream.credential.header",
                        "is missing, so the credential would go nowhere",
                        "write header = \"x-api-key\" or header = \"authorization\"",
                    );
                }
                Credential::Pass
            }
            (None, None) => Credential::Pass,
        }
    }

    /// `file` or `environment` of a section; the secret is read once to see that it is there.
    pub(super) fn secret_source(&mut self, section: &str) -> Option<SecretSource> {
        let (file, environment) = (format!("{section}.file"), format!("{section}.environment"));
        let (source, field) = match (self.path(&file), self.text(&environment)) {
            (Some(_), Some(_)) => {
                self.wrong(
                    &environment,
                    format!("and {file} both say where the secret is"),
                    "take one out",
                );
                return None;
            }
            (Some(path), None) => (SecretSource::File(path), file),
            (None, Some(name)) => (SecretSource::Environment(name), environment),
            (None, None) => return None,
        };
        let at = self.values.span(&field);
        self.secret(&source, at, section);
        Some(source)
    }

    fn secret(&mut self, source: &SecretSource, at: Option<Span>, section: &str) {
        let Err(error) = source.read() else { return };
        let (field, cure) = match source {
            SecretSource::File(_) => ("file", "name a file that holds the secret"),
            SecretSource::Environment(_) => ("environment", "set it where the daemon starts"),
        };
        let field = format!("{section}.{field}");
        self.problems.add(at, &field, error.to_string(), cure);
    }
}

/// What a URL must be.
const URL: &str = "write http:// or https://, a host, and :PORT if it is not the scheme's own";
