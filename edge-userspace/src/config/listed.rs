//! What the edge says of itself and of others: `[[api.models]]` and `[[regions]]`.

use super::check::{is_header_text, parse_url};
use super::load::Loader;
use super::tables::{Field, Table};

/// A model that `/v1/models` lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedModel {
    /// As requests name it.
    pub id: String,
    /// For people. Default: the id.
    pub display_name: String,
    /// When it came out, RFC 3339. Default: the epoch, which the API has for "unknown".
    pub created_at: String,
    /// `active` by default.
    pub lifecycle: String,
}

/// Another node, as `/v1/regions` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its name.
    pub id: String,
    /// Where clients reach it: `https://`, host, and port if it is not 443.
    pub url: String,
    /// The audience of its tokens, if it is not this node's.
    pub audience: Option<String>,
    /// Where it stands, by whatever name.
    pub zone: Option<String>,
}

/// Most of each: an answer holds all of them.
const MAX_LISTED: usize = 1000;

pub(super) const MODELS: &str = "api.models";
pub(super) const MODEL_FIELDS: &[Field] = &[
    ("id", true),
    ("display_name", false),
    ("created_at", false),
    ("lifecycle", false),
];
pub(super) const REGIONS: &str = "regions";
pub(super) const REGION_FIELDS: &[Field] = &[
    ("id", true),
    ("url", true),
    ("audience", false),
    ("zone", false),
];

impl Loader<'_, '_> {
    pub(super) fn listed_models(&mut self) -> Vec<ListedModel> {
        let tables = self.listed(MODELS);
        let text = |table: &Table, number| table.text(number).map(str::to_owned);
        let models = tables.iter().map(|table| {
            let id = text(table, 0).unwrap_or_default();
            ListedModel {
                display_name: text(table, 1).unwrap_or_else(|| id.clone()),
                created_at: text(table, 2).unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned()),
                lifecycle: text(table, 3).unwrap_or_else(|| "active".to_owned()),
                id,
            }
        });
        let models: Vec<_> = models.collect();
        for (model, table) in models.iter().zip(&tables) {
            let created = &model.created_at;
            if humantime::parse_rfc3339(created).is_err() {
                self.problems.add(
                    Some(table.at.clone()),
                    &format!("{MODELS}.created_at"),
                    format!("{created:?} is no time"),
                    "write one as RFC 3339 has it, in UTC, such as \"2026-02-05T00:00:00Z\"",
                );
            }
        }
        models
    }

    pub(super) fn regions(&mut self) -> Vec<Region> {
        let tables = self.listed(REGIONS);
        let text = |table: &Table, number| table.text(number).map(str::to_owned);
        let regions = tables.iter().map(|table| Region {
            id: text(table, 0).unwrap_or_default(),
            url: text(table, 1).unwrap_or_default(),
            audience: text(table, 2),
            zone: text(table, 3),
        });
        let regions: Vec<_> = regions.collect();
        for (region, table) in regions.iter().zip(&tables) {
            if let Some(what) = not_a_nodes_url(&region.url) {
                let field = format!("{REGIONS}.url");
                (self.problems).add(Some(table.at.clone()), &field, what, NODES_URL);
            }
        }
        regions
    }

    /// `api.url`
    pub(super) fn own_url(&mut self) -> Option<String> {
        let url = self.text("api.url")?;
        if let Some(what) = not_a_nodes_url(&url) {
            self.wrong("api.url", what, NODES_URL);
        }
        Some(url)
    }

    /// The tables of a list, each with an id of its own in the first field.
    fn listed(&mut self, list: &'static str) -> Vec<Table> {
        let tables = self.values.tables(list).unwrap_or(&[]).to_vec();
        if let Some(table) = tables.get(MAX_LISTED) {
            self.problems.add(
                Some(table.at.clone()),
                list,
                format!("{} of them are too many", tables.len()),
                format!("keep {MAX_LISTED}"),
            );
        }
        for (number, table) in tables.iter().enumerate().take(MAX_LISTED) {
            let id = table.text(0).unwrap_or_default();
            let mut wrong = |what: String, cure: &str| {
                let field = format!("{list}.id");
                (self.problems).add(Some(table.at.clone()), &field, what, cure);
            };
            if !is_header_text(id) {
                wrong(
                    format!("{id:?} is no name"),
                    "write visible ASCII without blanks",
                );
            }
            if tables[..number]
                .iter()
                .any(|before| before.text(0) == Some(id))
            {
                wrong(format!("{id:?} stands there twice"), "take one out");
            }
        }
        tables
    }
}

const NODES_URL: &str = "write https://, a host, and :PORT if it is not 443";

/// What is wrong with it as the address of a node.
fn not_a_nodes_url(url: &str) -> Option<String> {
    match parse_url(url) {
        Ok((true, ..)) => None,
        Ok(_) => Some("is not https://, which is all that an edge serves".to_owned()),
        Err(what) => Some(what),
    }
}
