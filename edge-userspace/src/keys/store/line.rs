//! One line of the journal, as text and as a record.
//!
//! Errors tell which field is wrong and never what stands in it: it could be a MAC key in
//! the wrong place.

mod names;

pub use names::{
    MAX_AUDIENCE_BYTES, MAX_MODEL_BYTES, MAX_MODELS, MAX_NAME_BYTES, check_audience, check_name,
    check_new_audience, parse_models,
};

use crate::keys::{Allowance, KeyRecord, Quotas, Rates};
use crate::secret::{KeyHash, MacKey};
use edge_common::policy::KeyPolicy;
use edge_common::token::KeyId;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use zeroize::{Zeroize as _, Zeroizing};

/// Longest line, newline left off.
pub const MAX_BYTES: usize = 65_536;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A key is new, or replaces what was there.
    Put(StoredKey),
    /// A key is revoked.
    Revoke {
        /// Which.
        id: KeyId,
        /// When, Unix time.
        at_s: u64,
    },
    /// A key is forgotten.
    Remove(KeyId),
}

/// A key as the store holds it, with its MAC keys at all audiences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    /// Public name.
    pub id: KeyId,
    /// Label given by its maker.
    pub name: Box<str>,
    /// SHA-256 of the API key.
    pub key_hash: KeyHash,
    /// By audience.
    pub mac_keys: Vec<(Box<str>, MacKey)>,
    /// First good second, Unix time.
    pub not_before_s: u64,
    /// Last good second, Unix time; `u64::MAX`: no end.
    pub not_after_s: u64,
    /// The token alone is enough.
    pub alpn_only: bool,
    /// Its own rates.
    pub rates: Rates,
    /// Most tokens of one prompt; 0: no limit of its own.
    pub max_prompt_tokens: Option<u64>,
    /// How much it may use, and of what.
    pub allowance: Option<Box<Allowance>>,
    /// When it was made, Unix time.
    pub created_at_s: u64,
    /// When it was revoked, Unix time.
    pub revoked_at_s: Option<u64>,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// There is no line, or not yet its end.
    #[error("is no key store: the first line should be {{\"edge-key-store\":1}}")]
    NoHeader,
    /// A version that this program does not know.
    #[error("is a key store of version {0}, and this program knows version 1")]
    Version(u64),
    /// Longer than [`MAX_BYTES`].
    #[error("the line is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// The JSON is broken.
    #[error("the line is no JSON object (column {0})")]
    Syntax(usize),
    /// A field is not what it should be.
    #[error("{0}")]
    Field(String),
}

/// The line with its fields, by their names. What may be absent depends on the kind.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    put: Option<&'a str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    revoke: Option<&'a str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    remove: Option<&'a str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    key_hash: Option<&'a str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    mac_keys: Option<MacKeys<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before_s: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after_s: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alpn_only: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    connections_per_second: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    connections_per_second_hard: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_prompt_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requests_per_minute: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input_tokens_per_minute: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_tokens_per_minute: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    concurrent_requests: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens_per_day: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    models: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at_s: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_at_s: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_s: Option<u64>,
}

/// Names and types of [`Line`]'s fields, to tell what is wrong.
const FIELDS: [(&str, &str); 21] = [
    ("put", "a text"),
    ("revoke", "a text"),
    ("remove", "a text"),
    ("name", "a text"),
    ("key_hash", "a text"),
    ("mac_keys", "an object of texts"),
    ("not_before_s", "a whole number"),
    ("not_after_s", "a whole number"),
    ("alpn_only", "true or false"),
    ("connections_per_second", RATE),
    ("connections_per_second_hard", RATE),
    ("max_prompt_tokens", "a whole number"),
    ("requests_per_minute", QUOTA),
    ("input_tokens_per_minute", QUOTA),
    ("output_tokens_per_minute", QUOTA),
    ("concurrent_requests", QUOTA),
    ("tokens_per_day", QUOTA),
    ("models", MODELS),
    ("created_at_s", "a whole number"),
    ("revoked_at_s", "a whole number"),
    ("at_s", "a whole number"),
];

/// What a rate should be.
const RATE: &str = "a whole number up to 1000000";
/// The largest one.
pub const MAX_RATE: u32 = 1_000_000;
/// What a quota should be.
const QUOTA: &str = "a whole number up to 1000000000000";
const MODELS: &str = "a list of texts";

#[derive(Default)]
struct MacKeys<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'de: 'a, 'a> Deserialize<'de> for MacKeys<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = MacKeys<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::with_capacity(1);
                while let Some(pair) = map.next_entry::<BorrowedCow<'de>, &str>()? {
                    pairs.push((pair.0.0, pair.1));
                }
                Ok(MacKeys(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// `Cow` as a map's key borrows only with serde's attribute, which needs a field.
#[derive(Deserialize)]
#[serde(transparent)]
struct BorrowedCow<'a>(#[serde(borrow)] Cow<'a, str>);

impl Serialize for MacKeys<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(audience, key)| (audience, key)))
    }
}

impl Record {
    /// Reads a line, newline left off.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Self, BadLine> {
        let line: Line<'_> = serde_json::from_slice(text).map_err(|error| explain(text, &error))?;
        let (kind, id) = match (line.put, line.revoke, line.remove) {
            (Some(id), None, None) => ("put", id),
            (None, Some(id), None) => ("revoke", id),
            (None, None, Some(id)) => ("remove", id),
            _ => {
                return Err(field(
                    "put, revoke or remove",
                    "one of them should be there",
                ));
            }
        };
        let id = KeyId::from_hex(id).ok_or_else(|| field(kind, "is no key id of 16 hex digits"))?;
        if kind == "put" {
            if line.at_s.is_some() {
                return Err(field("at_s", "does not belong into a put line"));
            }
            return Ok(Self::Put(StoredKey::from_line(id, line)?));
        }
        let put_fields = line.name.is_some()
            || line.key_hash.is_some()
            || line.mac_keys.is_some()
            || line.not_before_s.is_some()
            || line.not_after_s.is_some()
            || line.alpn_only.is_some()
            || line.connections_per_second.is_some()
            || line.connections_per_second_hard.is_some()
            || line.max_prompt_tokens.is_some()
            || line.quotas() != Quotas::default()
            || line.models.is_some()
            || line.created_at_s.is_some()
            || line.revoked_at_s.is_some();
        if put_fields || (kind == "remove" && line.at_s.is_some()) {
            return Err(field(
                kind,
                "a field stands there that belongs into a put line",
            ));
        }
        Ok(match kind {
            "revoke" => Self::Revoke {
                id,
                at_s: line.at_s.unwrap_or(0),
            },
            _ => Self::Remove(id),
        })
    }

    /// Which key it is about.
    #[must_use]
    pub fn id(&self) -> KeyId {
        match self {
            Self::Put(key) => key.id,
            Self::Revoke { id, .. } | Self::Remove(id) => *id,
        }
    }

    /// Appends the line, newline included.
    pub fn write(&self, out: &mut Zeroizing<Vec<u8>>) {
        let id = self.id().to_string();
        let hash;
        let keys: Vec<Zeroizing<String>>;
        let allowance;
        let line = match self {
            Self::Put(key) => {
                allowance = Allowance::of(&key.allowance);
                hash = Zeroizing::new(hex::encode(key.key_hash.expose()));
                keys = (key.mac_keys.iter())
                    .map(|(_, mac_key)| Zeroizing::new(hex::encode(mac_key.expose())))
                    .collect();
                let names = key.mac_keys.iter().map(|(name, _)| Cow::Borrowed(&**name));
                let pairs = names.zip(keys.iter().map(|key| key.as_str())).collect();
                Line {
                    put: Some(&id),
                    name: Some(Cow::Borrowed(&key.name)),
                    key_hash: Some(hash.as_str()),
                    mac_keys: Some(MacKeys(pairs)),
                    not_before_s: (key.not_before_s != 0).then_some(key.not_before_s),
                    not_after_s: (key.not_after_s != u64::MAX).then_some(key.not_after_s),
                    alpn_only: key.alpn_only.then_some(true),
                    connections_per_second: key.rates.connections_per_second,
                    connections_per_second_hard: key.rates.connections_per_second_hard,
                    max_prompt_tokens: key.max_prompt_tokens,
                    requests_per_minute: allowance.quotas.requests_per_minute,
                    input_tokens_per_minute: allowance.quotas.input_tokens_per_minute,
                    output_tokens_per_minute: allowance.quotas.output_tokens_per_minute,
                    concurrent_requests: allowance.quotas.concurrent_requests,
                    tokens_per_day: allowance.quotas.tokens_per_day,
                    models: (!allowance.models.is_empty())
                        .then(|| allowance.models.iter().map(ToString::to_string).collect()),
                    created_at_s: Some(key.created_at_s),
                    revoked_at_s: key.revoked_at_s,
                    ..Line::default()
                }
            }
            Self::Revoke { at_s, .. } => Line {
                revoke: Some(&id),
                at_s: Some(*at_s),
                ..Line::default()
            },
            Self::Remove(_) => Line {
                remove: Some(&id),
                ..Line::default()
            },
        };
        // Room first: a vector that grows leaves copies behind.
        grow(out, MAX_BYTES);
        serde_json::to_writer(&mut **out, &line).expect("texts and numbers are JSON");
        out.push(b'\n');
    }
}

/// Makes room for `more` bytes, wiping what the vector leaves behind.
fn grow(out: &mut Zeroizing<Vec<u8>>, more: usize) {
    if out.capacity() - out.len() < more {
        let mut larger = Vec::with_capacity((out.len() + more) * 2);
        larger.extend_from_slice(out);
        out.zeroize();
        **out = larger;
    }
}

impl StoredKey {
    /// What an edge of that audience knows of the key.
    #[must_use]
    pub fn at(&self, audience: &str) -> KeyRecord {
        let revoked = self.revoked_at_s.is_some();
        let mac_key = (self.mac_keys.iter()).find(|(name, _)| **name == *audience);
        KeyRecord {
            id: self.id,
            name: self.name.clone(),
            key_hash: self.key_hash.clone(),
            policy: mac_key.map(|(_, mac_key)| KeyPolicy {
                mac_key: mac_key.words(),
                not_before_s: self.not_before_s,
                not_after_s: self.not_after_s,
                flags: if revoked { KeyPolicy::REVOKED } else { 0 },
                ..KeyPolicy::UNLIMITED
            }),
            not_before_s: self.not_before_s,
            not_after_s: self.not_after_s,
            alpn_only: self.alpn_only,
            rates: self.rates,
            max_prompt_tokens: self.max_prompt_tokens,
            allowance: self.allowance.clone(),
            revoked,
        }
    }

    fn from_line(id: KeyId, line: Line<'_>) -> Result<Self, BadLine> {
        let quotas = line.quotas();
        let name = line.name.ok_or_else(|| field("name", "is missing"))?;
        check_name(&name).map_err(|what| field("name", what))?;
        let hash = line
            .key_hash
            .ok_or_else(|| field("key_hash", "is missing"))?;
        let hash = unhex(hash).ok_or_else(|| field("key_hash", "is not 64 hex digits"))?;
        let mut mac_keys: Vec<(Box<str>, MacKey)> = Vec::with_capacity(1);
        for (audience, key) in line.mac_keys.unwrap_or_default().0 {
            check_audience(&audience).map_err(|what| field("mac_keys", what))?;
            if mac_keys.iter().any(|(other, _)| **other == *audience) {
                return Err(field("mac_keys", "an audience stands there twice"));
            }
            let key = unhex(key).ok_or_else(|| field("mac_keys", "one is not 32 hex digits"))?;
            mac_keys.push((audience.into(), MacKey::new(*key)));
        }
        let not_before_s = line.not_before_s.unwrap_or(0);
        let not_after_s = line.not_after_s.unwrap_or(u64::MAX);
        if not_before_s > not_after_s {
            return Err(field("not_after_s", "is before not_before_s"));
        }
        let rates = Rates {
            connections_per_second: line.connections_per_second,
            connections_per_second_hard: line.connections_per_second_hard,
        };
        for (name, rate) in [
            ("connections_per_second", rates.connections_per_second),
            (
                "connections_per_second_hard",
                rates.connections_per_second_hard,
            ),
        ] {
            if rate.is_some_and(|rate| rate > MAX_RATE) {
                return Err(field(name, &format!("should be {RATE}")));
            }
        }
        for (name, quota) in Quotas::NAMES.into_iter().zip(quotas.values()) {
            if quota.is_some_and(|quota| quota > Quotas::MOST) {
                return Err(field(name, &format!("should be {QUOTA}")));
            }
        }
        let models = parse_models(line.models.as_deref().unwrap_or_default())
            .map_err(|what| field("models", what))?;
        Ok(Self {
            id,
            name: name.into(),
            key_hash: KeyHash::new(*hash),
            mac_keys,
            not_before_s,
            not_after_s,
            alpn_only: line.alpn_only.unwrap_or(false),
            rates,
            max_prompt_tokens: line.max_prompt_tokens,
            allowance: Allowance { quotas, models }.boxed(),
            created_at_s: line.created_at_s.unwrap_or(0),
            revoked_at_s: line.revoked_at_s,
        })
    }
}

impl Line<'_> {
    fn quotas(&self) -> Quotas {
        Quotas {
            requests_per_minute: self.requests_per_minute,
            input_tokens_per_minute: self.input_tokens_per_minute,
            output_tokens_per_minute: self.output_tokens_per_minute,
            concurrent_requests: self.concurrent_requests,
            tokens_per_day: self.tokens_per_day,
        }
    }
}

fn unhex<const N: usize>(text: &str) -> Option<Zeroizing<[u8; N]>> {
    let mut bytes = Zeroizing::new([0; N]);
    hex::decode_to_slice(text, bytes.as_mut()).ok()?;
    Some(bytes)
}

fn field(name: &str, what: &str) -> BadLine {
    BadLine::Field(format!("{name}: {what}"))
}

/// serde's own text would show values, so what is wrong is looked up again.
fn explain(text: &[u8], error: &serde_json::Error) -> BadLine {
    use serde_json::Value;
    let Ok(Value::Object(object)) = serde_json::from_slice::<Value>(text) else {
        return BadLine::Syntax(error.column());
    };
    for (name, value) in &object {
        let Some((name, kind)) = FIELDS.iter().find(|(field, _)| field == name) else {
            let shown =
                name.len() <= 24 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            let shown = if shown { name } else { "a field" };
            return field(shown, "is none of a line's fields");
        };
        let fits = match *kind {
            "a text" => value.is_string(),
            "a whole number" => value.is_u64(),
            "true or false" => value.is_boolean(),
            RATE => value.as_u64().is_some_and(|rate| rate <= MAX_RATE.into()),
            QUOTA => value.as_u64().is_some_and(|quota| quota <= Quotas::MOST),
            MODELS => (value.as_array()).is_some_and(|names| names.iter().all(Value::is_string)),
            _ => (value.as_object()).is_some_and(|keys| keys.values().all(Value::is_string)),
        };
        if !fits {
            return field(name, &format!("should be {kind}"));
        }
    }
    BadLine::Field("a field stands there twice, or an escape in a hex text".to_owned())
}

#[cfg(test)]
mod tests;
