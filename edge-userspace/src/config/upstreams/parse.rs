//! Reads `[[upstreams]]`; the files that it names have not been opened.

use super::{Credential, MAX_UPSTREAMS, SecretSource, UPSTREAMS, URL, Upstream};
use crate::config::check::parse_url;
use crate::config::models::Name;
use crate::config::problem::Problems;
use crate::config::read::{Span, kind_of};
use http::HeaderName;
use http::header::AUTHORIZATION;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// What an upstream may say.
const FIELDS: [&str; 6] = [
    "name",
    "url",
    "models",
    "ca_file",
    "credential",
    "prefill_tokens_per_second",
];
/// What its credential may say.
const CREDENTIAL: [&str; 3] = ["header", "file", "environment"];
const HEADERS: [&str; 2] = ["x-api-key", "authorization"];
/// Longest name: it stands in metrics.
const MAX_NAME_BYTES: usize = 64;
/// Fastest reading that can be said, tokens a second.
const MAX_PREFILL: u64 = 100_000_000;

/// An upstream as it is written.
#[derive(Clone, Debug)]
pub(in crate::config) struct Written {
    name: String,
    models: Vec<Name>,
    tls: bool,
    host: String,
    port: u16,
    ca_file: Option<(PathBuf, At)>,
    credential: Option<(HeaderName, SecretSource, At)>,
    prefill_tokens_per_second: Option<u32>,
}

/// A place in the file; two upstreams that stand elsewhere are not different for it.
#[derive(Clone)]
struct At(Span);

impl fmt::Debug for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

/// What an upstream names of its own and must be there.
pub(super) struct Files {
    pub(super) roots: Option<(PathBuf, Span)>,
    pub(super) secret: Option<(SecretSource, Span)>,
}

impl Written {
    /// The upstream, with what `common` says where it says nothing; relative paths begin at
    /// `directory`.
    pub(super) fn like(self, common: &Upstream, directory: &Path) -> (Upstream, Files) {
        let roots = (self.ca_file).map(|(path, at)| (directory.join(path), at.0));
        let credential = self.credential.map(|(header, source, at)| {
            let source = match source {
                SecretSource::File(path) => SecretSource::File(directory.join(path)),
                environment => environment,
            };
            (header, source, at.0)
        });
        let files = Files {
            roots: roots.clone(),
            secret: (credential.clone()).map(|(_, source, at)| (source, at)),
        };
        let upstream = Upstream {
            name: self.name,
            models: self.models,
            tls: self.tls,
            host: self.host,
            port: self.port,
            ca_file: roots.map(|(path, _)| path).or(common.ca_file.clone()),
            credential: match credential {
                Some((header, from, _)) => Credential::Replace { header, from },
                None => common.credential.clone(),
            },
            prefill_tokens_per_second: (self.prefill_tokens_per_second)
                .unwrap_or(common.prefill_tokens_per_second),
            ..common.clone()
        };
        (upstream, files)
    }
}

/// Each table is an upstream.
pub(in crate::config) fn parse(
    items: &DeArray<'_>,
    at: Span,
    problems: &mut Problems<'_>,
) -> Vec<(Written, Span)> {
    if let Some(item) = items.get(MAX_UPSTREAMS) {
        problems.add(
            Some(item.span()),
            UPSTREAMS,
            format!("{} upstreams are too many", items.len()),
            format!("keep {MAX_UPSTREAMS}; one may be a balancer before several"),
        );
    }
    let mut upstreams: Vec<(Written, Span)> = Vec::new();
    for item in items.iter().take(MAX_UPSTREAMS) {
        let Some(upstream) = upstream(item, problems) else {
            continue;
        };
        if (upstreams.iter()).any(|(before, _)| before.name == upstream.name) {
            problems.add(
                Some(item.span()),
                "upstreams.name",
                format!("{:?} is the name of two", upstream.name),
                "give each a name of its own",
            );
        }
        upstreams.push((upstream, item.span()));
    }
    if items.is_empty() {
        problems.add(
            Some(at),
            UPSTREAMS,
            "is empty, so that no request could go anywhere",
            "write one [[upstreams]] with name and url, or url in [upstream]",
        );
    }
    upstreams
}

fn upstream(item: &Spanned<DeValue<'_>>, problems: &mut Problems<'_>) -> Option<Written> {
    let DeValue::Table(table) = item.get_ref() else {
        problems.add(
            Some(item.span()),
            UPSTREAMS,
            format!("{} stands in the list", kind_of(item)),
            "write each upstream as [[upstreams]] with name and url below",
        );
        return None;
    };
    let mut fields = Fields {
        section: UPSTREAMS,
        table,
        at: item.span(),
        problems,
        good: true,
    };
    fields.only(&FIELDS);
    let name = fields.name();
    let url = fields.url();
    let models = fields.models();
    let ca_file = (fields.text("ca_file")).map(|(path, at)| (PathBuf::from(path), At(at)));
    let credential = fields.credential();
    let prefill_tokens_per_second = fields.prefill();
    let good = fields.good;
    let (tls, host, port) = url?;
    Some(Written {
        name: name?,
        models,
        tls,
        host,
        port,
        ca_file,
        credential,
        prefill_tokens_per_second,
    })
    .filter(|_| good)
}

struct Fields<'t, 'p, 'a, 'i> {
    section: &'static str,
    table: &'t DeTable<'i>,
    at: Span,
    problems: &'p mut Problems<'a>,
    good: bool,
}

impl Fields<'_, '_, '_, '_> {
    fn wrong(&mut self, name: &str, what: impl Into<String>, cure: impl Into<String>) {
        let at = self.table.get(name).map_or(self.at.clone(), Spanned::span);
        let field = format!("{}.{name}", self.section);
        self.problems.add(Some(at), &field, what, cure);
        self.good = false;
    }

    fn only(&mut self, names: &[&str]) {
        for key in self.table.keys() {
            if names.contains(&&**key.get_ref()) {
                continue;
            }
            let field = format!("{}.{}", self.section, key.get_ref());
            let cure = format!("take it out; there are {}", names.join(", "));
            (self.problems).add(Some(key.span()), &field, "there is no such field", cure);
            self.good = false;
        }
    }

    /// A text that is not empty; none when it is not written, or wrong.
    fn text(&mut self, name: &str) -> Option<(String, Span)> {
        let value = self.table.get(name)?;
        match value.get_ref() {
            DeValue::String(text) if !text.is_empty() => {
                Some((text.clone().into_owned(), value.span()))
            }
            DeValue::String(_) => {
                self.wrong(name, "is empty", "write a text");
                None
            }
            _ => {
                let what = format!("{} stands there", kind_of(value));
                self.wrong(name, what, "write a text");
                None
            }
        }
    }

    /// The same for one that must be there.
    fn required(&mut self, name: &str) -> Option<(String, Span)> {
        if !self.table.contains_key(name) {
            let place = match self.section {
                UPSTREAMS => "[[upstreams]]",
                _ => "[upstreams.credential]",
            };
            let cure = format!("write {name} = … in {place}");
            self.wrong(name, "is missing", cure);
        }
        self.text(name)
    }

    fn name(&mut self) -> Option<String> {
        let (name, _) = self.required("name")?;
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.len() > MAX_NAME_BYTES || !name.chars().all(good) {
            self.wrong(
                "name",
                format!("{name:?} is no name"),
                format!(
                    "write letters, digits, points, hyphens and underlines, at most {MAX_NAME_BYTES}"
                ),
            );
            return None;
        }
        Some(name)
    }

    fn url(&mut self) -> Option<(bool, String, u16)> {
        let (url, _) = self.required("url")?;
        (parse_url(&url))
            .map_err(|what| self.wrong("url", what, URL))
            .ok()
    }

    fn models(&mut self) -> Vec<Name> {
        const CURE: &str = "write a list of models' names, or their beginnings and *; without it every model is served";
        let Some(value) = self.table.get("models") else {
            return Vec::new();
        };
        let DeValue::Array(items) = value.get_ref() else {
            let what = format!("{} stands there", kind_of(value));
            self.wrong("models", what, CURE);
            return Vec::new();
        };
        if items.is_empty() {
            self.wrong("models", "is empty, so that it would get no request", CURE);
        }
        let mut models = Vec::new();
        for item in items.iter() {
            let name = match item.get_ref() {
                DeValue::String(text) => Name::parse(text),
                _ => None,
            };
            match name {
                Some(name) => models.push(name),
                None => self.wrong("models", "holds what is no name of models", CURE),
            }
        }
        models
    }

    fn prefill(&mut self) -> Option<u32> {
        const NAME: &str = "prefill_tokens_per_second";
        let value = self.table.get(NAME)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => {
                u64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
            }
            _ => None,
        };
        let number = number.filter(|number| (1..=MAX_PREFILL).contains(number));
        if number.is_none() {
            let cure = format!("write a whole number from 1 to {MAX_PREFILL}");
            self.wrong(NAME, "is no good number of tokens", cure);
        }
        number.and_then(|number| u32::try_from(number).ok())
    }

    fn credential(&mut self) -> Option<(HeaderName, SecretSource, At)> {
        let value = self.table.get("credential")?;
        let DeValue::Table(table) = value.get_ref() else {
            let what = format!("{} stands there", kind_of(value));
            let cure = "write [upstreams.credential] with header, and file or environment, below";
            self.wrong("credential", what, cure);
            return None;
        };
        let mut fields = Fields {
            section: "upstreams.credential",
            table,
            at: value.span(),
            problems: &mut *self.problems,
            good: true,
        };
        fields.only(&CREDENTIAL);
        let credential = fields.source();
        self.good &= fields.good;
        credential
    }

    /// Of a credential: its header and where the secret is.
    fn source(&mut self) -> Option<(HeaderName, SecretSource, At)> {
        let header = match self.required("header") {
            Some((header, _)) if HEADERS.contains(&&*header) => {
                HeaderName::from_bytes(header.as_bytes()).unwrap_or(AUTHORIZATION)
            }
            header => {
                if let Some((header, _)) = header {
                    let what = format!("{header:?} is none of its values");
                    self.wrong("header", what, "write \"x-api-key\" or \"authorization\"");
                }
                return None;
            }
        };
        let (source, at) = match (self.text("file"), self.text("environment")) {
            (Some((path, at)), None) => (SecretSource::File(path.into()), at),
            (None, Some((name, at))) => (SecretSource::Environment(name), at),
            (Some(_), Some(_)) => {
                self.wrong(
                    "file",
                    "and environment both say where the secret is",
                    "take one out",
                );
                return None;
            }
            (None, None) => {
                if self.good {
                    self.wrong(
                        "header",
                        "names a header, and nothing says what to put into it",
                        "write file = … or environment = … beside it",
                    );
                }
                return None;
            }
        };
        Some((header, source, At(at)))
    }
}
