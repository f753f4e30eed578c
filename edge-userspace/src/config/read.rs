//! From TOML to typed values, by the schema: syntax, unknown fields, types, ranges.
//!
//! Everything that is wrong is collected, so that one look shows all of it. Not here: what
//! the values mean together and whether files exist (`load`).

use super::live::Said;
use super::models::{self, Places, Written};
use super::problem::Problems;
use super::schema::{FIELDS, Field, Kind, Otherwise};
use super::tables::{self, Table};
use super::values::{parse_duration, show_duration};
use super::{Rule, clients, proxy_protocol, upstreams};
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Bytes of the text.
pub(super) type Span = Range<usize>;

/// A value of the right type, in range.
#[derive(Debug)]
enum Value {
    Integer(u64),
    Duration(Duration),
    Boolean(bool),
    Text(String),
    Texts(Vec<(String, Span)>),
    Path(PathBuf),
    Addresses(Vec<(SocketAddr, Span)>),
    Networks(Vec<(IpNet, Span)>),
    Rules(Vec<(Rule, Span)>),
    Models(Vec<(Written, Places)>),
    Upstreams(Vec<(upstreams::Written, Span)>),
    Tables(Vec<Table>),
}

impl Value {
    /// The value without where it stands.
    fn said(&self) -> String {
        fn all<T: std::fmt::Debug, S>(values: &[(T, S)]) -> String {
            let values: Vec<_> = values.iter().map(|(value, _)| value).collect();
            format!("{values:?}")
        }
        match self {
            Self::Texts(values) => all(values),
            Self::Addresses(values) => all(values),
            Self::Networks(values) => all(values),
            Self::Rules(values) => all(values),
            Self::Models(values) => all(values),
            Self::Upstreams(values) => all(values),
            Self::Tables(tables) => format!("{tables:?}"),
            single => format!("{single:?}"),
        }
    }
}

/// What the file says, by name of field.
pub(super) struct Values {
    found: HashMap<&'static str, (Value, Span)>,
    sections: HashMap<String, Span>,
}

impl Values {
    /// Reads the text. Defaults are filled in; what is required and absent is a problem.
    pub(super) fn read(text: &str, problems: &mut Problems<'_>) -> Self {
        let mut values = Self {
            found: HashMap::new(),
            sections: HashMap::new(),
        };
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let message = error.message().replace('\n', ", ");
            let field = error.span().map_or("", |at| key_on_line(text, at.start));
            problems.add(error.span(), field, message, "mend the TOML there");
        }
        // What a recovering parser made of broken text would only mislead.
        if !errors.is_empty() {
            return values;
        }
        values.walk("", document.get_ref(), problems);
        values.fill(problems);
        values
    }

    fn walk(&mut self, section: &str, table: &DeTable<'_>, problems: &mut Problems<'_>) {
        for (key, value) in table {
            let name = join(section, key.get_ref());
            let at = key.span();
            if let Some(field) = FIELDS.iter().find(|field| field.name == name) {
                let parsed = parse(field, value, problems);
                // A broken value is present all the same: it must not be missed as absent.
                (self.sections).insert(format!("{name}!"), at);
                if let Some(parsed) = parsed {
                    self.found.insert(field.name, (parsed, value.span()));
                }
            } else if !is_section(&name) {
                let (what, cure) = unknown(section, key.get_ref());
                problems.add(Some(at), &name, what, cure);
            } else if let DeValue::Table(inner) = value.get_ref() {
                self.sections.insert(name.clone(), at);
                self.walk(&name, inner, problems);
            } else {
                problems.add(
                    Some(at),
                    &name,
                    format!("is a section, and {} stands there", kind_of(value)),
                    format!("write [{name}] on a line of its own and its fields below"),
                );
            }
        }
    }

    fn fill(&mut self, problems: &mut Problems<'_>) {
        for field in FIELDS {
            if self.written(field.name) {
                continue;
            }
            match field.default {
                Otherwise::Value(toml) => {
                    let value = DeValue::parse(toml).expect("defaults are TOML");
                    let value = parse(field, &value, problems).expect("defaults are in range");
                    self.found.insert(field.name, (value, 0..0));
                }
                Otherwise::Computed(_) => {}
                Otherwise::Required => {
                    let (section, name) = field.name.rsplit_once('.').unwrap_or_default();
                    let at = self.sections.get(section).cloned();
                    let cure =
                        format!("write {name} = … in [{section}]: {}", field.kind.describe());
                    problems.add(at, field.name, "is missing", cure);
                }
            }
        }
    }

    /// What the file says, wherever it stands there.
    pub(super) fn said(&self) -> Said {
        let values = self.found.iter();
        Said(
            values
                .map(|(name, (value, _))| (*name, value.said()))
                .collect(),
        )
    }

    /// Whether nothing of the file could be read.
    pub(super) fn is_unread(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether the file has the field, right or wrong.
    pub(super) fn written(&self, name: &str) -> bool {
        self.sections.contains_key(&format!("{name}!"))
    }

    /// Where the field's value is; its section when it is not written.
    pub(super) fn span(&self, name: &str) -> Option<Span> {
        match self.found.get(name) {
            Some((_, span)) if self.written(name) => Some(span.clone()),
            _ => {
                let (section, _) = name.rsplit_once('.')?;
                self.sections.get(section).cloned()
            }
        }
    }

    pub(super) fn integer(&self, name: &str) -> Option<u64> {
        match self.of(name)? {
            Value::Integer(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn duration(&self, name: &str) -> Option<Duration> {
        match self.of(name)? {
            Value::Duration(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn boolean(&self, name: &str) -> Option<bool> {
        match self.of(name)? {
            Value::Boolean(value) => Some(*value),
            _ => None,
        }
    }

    /// Texts and choices.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.of(name)? {
            Value::Text(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn texts(&self, name: &str) -> Option<&[(String, Span)]> {
        match self.of(name)? {
            Value::Texts(value) => Some(value),
            _ => None,
        }
    }

    /// The path with the configuration's directory before it when it is relative.
    pub(super) fn path(&self, name: &str, file: &std::path::Path) -> Option<PathBuf> {
        match self.of(name)? {
            Value::Path(value) => Some(
                file.parent()
                    .map_or_else(|| value.clone(), |dir| dir.join(value)),
            ),
            _ => None,
        }
    }

    pub(super) fn addresses(&self, name: &str) -> Option<&[(SocketAddr, Span)]> {
        match self.of(name)? {
            Value::Addresses(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn networks(&self, name: &str) -> Option<&[(IpNet, Span)]> {
        match self.of(name)? {
            Value::Networks(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn rules(&self, name: &str) -> Option<&[(Rule, Span)]> {
        match self.of(name)? {
            Value::Rules(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn models(&self, name: &str) -> Option<&[(Written, Places)]> {
        match self.of(name)? {
            Value::Models(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn upstreams(&self, name: &str) -> Option<&[(upstreams::Written, Span)]> {
        match self.of(name)? {
            Value::Upstreams(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn tables(&self, name: &str) -> Option<&[Table]> {
        match self.of(name)? {
            Value::Tables(value) => Some(value),
            _ => None,
        }
    }

    fn of(&self, name: &str) -> Option<&Value> {
        debug_assert!(
            FIELDS.iter().any(|field| field.name == name),
            "no field {name}"
        );
        self.found.get(name).map(|(value, _)| value)
    }
}

/// The bare key of a line that is no TOML, to name the field all the same.
fn key_on_line(text: &str, offset: usize) -> &str {
    let before = text.get(..offset).unwrap_or_default();
    let line = &text[before.rfind('\n').map_or(0, |at| at + 1)..];
    let key = line.split(['=', '\n']).next().unwrap_or_default().trim();
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if key.chars().all(bare) { key } else { "" }
}

fn join(section: &str, name: &str) -> String {
    if section.is_empty() {
        name.to_owned()
    } else {
        format!("{section}.{name}")
    }
}

fn is_section(name: &str) -> bool {
    (FIELDS.iter()).any(|field| {
        field
            .name
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('.'))
    })
}

/// What to say of a name that is none: the nearest one in its section, or the same name
/// elsewhere.
fn unknown(section: &str, key: &str) -> (String, String) {
    let inside = |field: &'static Field| -> Option<&'static str> {
        let rest = if section.is_empty() {
            field.name
        } else {
            field.name.strip_prefix(section)?.strip_prefix('.')?
        };
        rest.split('.').next()
    };
    let mut names: Vec<&str> = FIELDS.iter().filter_map(inside).collect();
    names.dedup();
    let what = if section.is_empty() {
        "is no section".to_owned()
    } else {
        format!("[{section}] has no such field")
    };
    let near = (names.iter())
        .map(|name| (strsim::jaro_winkler(name, key), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    let elsewhere = (FIELDS.iter()).find(|field| field.name.rsplit('.').next() == Some(key));
    let cure = if let Some((_, name)) = near {
        format!("write {name} if that is meant, or take it out")
    } else if let Some(field) = elsewhere {
        format!("{} is the field of that name", field.name)
    } else {
        format!("take it out, or use one of: {}", names.join(", "))
    };
    (what, cure)
}

pub(super) fn kind_of(value: &Spanned<DeValue<'_>>) -> &'static str {
    match value.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}

fn parse(
    field: &Field,
    value: &Spanned<DeValue<'_>>,
    problems: &mut Problems<'_>,
) -> Option<Value> {
    if let (Kind::Rules, DeValue::Array(items)) = (&field.kind, value.get_ref()) {
        return Some(Value::Rules(clients::parse(items, problems)));
    }
    if let (Kind::Models, DeValue::Array(items)) = (&field.kind, value.get_ref()) {
        return Some(Value::Models(models::parse(items, problems)));
    }
    if let (Kind::Upstreams, DeValue::Array(items)) = (&field.kind, value.get_ref()) {
        return Some(Value::Upstreams(upstreams::parse(
            items,
            value.span(),
            problems,
        )));
    }
    if let (Kind::Tables(fields), DeValue::Array(items)) = (&field.kind, value.get_ref()) {
        let tables = tables::parse(field.name, fields, items, problems);
        return Some(Value::Tables(tables));
    }
    let mut wrong = |span: Span, what: String| {
        problems.add(
            Some(span),
            field.name,
            what,
            format!("write {}", field.kind.describe()),
        );
    };
    let parsed = match (&field.kind, value.get_ref()) {
        (Kind::Integer(low, high), DeValue::Integer(number)) => {
            let parsed = u64::from_str_radix(&number.as_str().replace('_', ""), number.radix());
            match parsed {
                Ok(number) if (*low..=*high).contains(&number) => Some(Value::Integer(number)),
                _ => {
                    wrong(value.span(), format!("{number} is out of range"));
                    return None;
                }
            }
        }
        (Kind::Duration(low, high), DeValue::String(text)) => match parse_duration(text) {
            Some(duration) if (*low..=*high).contains(&duration) => Some(Value::Duration(duration)),
            Some(duration) => {
                wrong(
                    value.span(),
                    format!("{} is out of range", show_duration(duration)),
                );
                return None;
            }
            None => {
                wrong(
                    value.span(),
                    format!("{text:?} is no duration (a whole number and ms, s, m, h or d)"),
                );
                return None;
            }
        },
        (Kind::Boolean, DeValue::Boolean(value)) => Some(Value::Boolean(*value)),
        (Kind::Text | Kind::Path, DeValue::String(text)) if text.is_empty() => {
            wrong(value.span(), "is empty".to_owned());
            return None;
        }
        (Kind::Text, DeValue::String(text)) => Some(Value::Text(text.clone().into_owned())),
        (Kind::Path, DeValue::String(text)) => Some(Value::Path(PathBuf::from(&**text))),
        (Kind::Choice(names), DeValue::String(text)) => {
            let Some(name) = names.iter().find(|name| *name == text) else {
                wrong(value.span(), format!("{text:?} is none of its values"));
                return None;
            };
            Some(Value::Text((*name).to_owned()))
        }
        (Kind::Texts, DeValue::Array(items)) => {
            let mut texts = Vec::new();
            for item in items.iter() {
                let DeValue::String(text) = item.get_ref() else {
                    wrong(item.span(), format!("{} stands in the list", kind_of(item)));
                    return None;
                };
                texts.push((text.clone().into_owned(), item.span()));
            }
            Some(Value::Texts(texts))
        }
        (Kind::Address, DeValue::String(text)) => {
            let address = address(text)
                .map_err(|what| wrong(value.span(), what))
                .ok()?;
            Some(Value::Addresses(vec![(address, value.span())]))
        }
        (Kind::Addresses, DeValue::Array(items)) => {
            let mut addresses = Vec::new();
            for item in items.iter() {
                let parsed = match item.get_ref() {
                    DeValue::String(text) => address(text),
                    _ => Err(format!("{} stands in the list", kind_of(item))),
                };
                match parsed {
                    Ok(address) => addresses.push((address, item.span())),
                    Err(what) => wrong(item.span(), what),
                }
            }
            if items.is_empty() {
                wrong(value.span(), "is empty".to_owned());
            }
            Some(Value::Addresses(addresses))
        }
        (Kind::Networks, DeValue::Array(items)) => {
            let mut networks = Vec::new();
            for item in items.iter() {
                let parsed = match item.get_ref() {
                    DeValue::String(text) => proxy_protocol::network(text),
                    _ => Err(format!("{} stands in the list", kind_of(item))),
                };
                match parsed {
                    Ok(network) => networks.push((network, item.span())),
                    Err(what) => wrong(item.span(), what),
                }
            }
            if items.is_empty() {
                wrong(value.span(), "is empty".to_owned());
            }
            Some(Value::Networks(networks))
        }
        _ => None,
    };
    if parsed.is_none() {
        wrong(value.span(), format!("{} stands there", kind_of(value)));
    }
    parsed
}

/// An address and port; the error says which of the two is wrong.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let host_is_good = host.parse::<std::net::Ipv4Addr>().is_ok()
        || (host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']')))
        .is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
    Err(if text.parse::<std::net::IpAddr>().is_ok() {
        format!("{text:?} has no port")
    } else if host_is_good {
        format!("{port:?} in {text:?} is no port (0 to 65535)")
    } else {
        format!("{text:?} is no address and port (a host name is not looked up)")
    })
}
