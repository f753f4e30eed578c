//! `/v1/models` and `/v1/models/{id}`: what a key may ask for, page by page.
//!
//! The list is the configuration's; without one an upstream is asked, and what the key may
//! not use is taken out of its answer. Not here: whether a request may use its model
//! ([`super::Api`]); what it is told when it may not is.

use super::error::{ApiError, shown};
use super::route::unescape;
use crate::config::ListedModel;
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

/// Models on a page when the request does not say, and at most; as the API has them.
const PAGE: usize = 20;
const LARGEST_PAGE: usize = 1000;
/// Largest list of an upstream that is looked through.
pub(super) const MAX_LIST_BYTES: usize = 4 << 20;

/// A model as the API describes it. What the edge does not know is null.
#[derive(Serialize)]
struct Info<'a> {
    r#type: &'static str,
    id: &'a str,
    display_name: &'a str,
    created_at: &'a str,
    lifecycle: &'a str,
    max_input_tokens: Option<u64>,
    max_tokens: Option<u64>,
    capabilities: Option<()>,
}

#[derive(Serialize)]
struct List<'a> {
    data: Vec<Info<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

impl<'a> Info<'a> {
    fn of(model: &'a ListedModel) -> Self {
        Self {
            r#type: "model",
            id: &model.id,
            display_name: &model.display_name,
            created_at: &model.created_at,
            lifecycle: &model.lifecycle,
            max_input_tokens: None,
            max_tokens: None,
            capabilities: None,
        }
    }
}

/// Which models a request asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    limit: usize,
    after: Option<String>,
    before: Option<String>,
    lifecycle: Option<String>,
}

impl Page {
    /// Parameters that are not known are nothing to us.
    fn of(query: Option<&str>) -> Result<Self, ApiError> {
        let mut page = Self {
            limit: PAGE,
            ..Self::default()
        };
        let pairs = query.unwrap_or_default().split('&');
        for (name, value) in pairs.filter_map(|pair| pair.split_once('=')) {
            let text = unescape(&value.replace('+', " "));
            let text =
                text.ok_or_else(|| ApiError::invalid_request(format!("{name}: is no UTF-8 text")));
            match name {
                "limit" => {
                    let limit = value.parse().ok();
                    page.limit = limit
                        .filter(|limit| (1..=LARGEST_PAGE).contains(limit))
                        .ok_or_else(|| {
                            ApiError::invalid_request(format!(
                                "limit: must be a whole number from 1 to {LARGEST_PAGE}"
                            ))
                        })?;
                }
                "after_id" => page.after = Some(text?).filter(|id| !id.is_empty()),
                "before_id" => page.before = Some(text?).filter(|id| !id.is_empty()),
                "lifecycle" => page.lifecycle = Some(text?).filter(|name| !name.is_empty()),
                _ => {}
            }
        }
        if page.after.is_some() && page.before.is_some() {
            return Err(ApiError::invalid_request(
                "after_id and before_id: only one of them can be said",
            ));
        }
        Ok(page)
    }
}

impl Page {
    /// The part of `all` that is asked for, and whether there is more of it.
    fn of_these<'a, T>(
        &self,
        all: &'a [T],
        id: impl Fn(&T) -> &str,
    ) -> Result<(&'a [T], bool), ApiError> {
        let place = |name: &str, wanted: &str| {
            let place = all.iter().position(|model| id(model) == wanted);
            place
                .ok_or_else(|| ApiError::invalid_request(format!("{name}: there is no such model")))
        };
        Ok(match (&self.after, &self.before) {
            (_, Some(wanted)) => {
                let before = &all[..place("before_id", wanted)?];
                let begin = before.len().saturating_sub(self.limit);
                (&before[begin..], begin > 0)
            }
            (Some(wanted), None) => first(&all[place("after_id", wanted)? + 1..], self.limit),
            (None, None) => first(all, self.limit),
        })
    }
}

/// A page of those of `models` that `may` be used.
pub(super) fn list(
    models: &[ListedModel],
    query: Option<&str>,
    may: impl Fn(&str) -> bool,
) -> Result<Bytes, ApiError> {
    let page = Page::of(query)?;
    let models: Vec<_> = (models.iter())
        .filter(|model| may(&model.id))
        .filter(|model| (page.lifecycle.as_ref()).is_none_or(|wanted| *wanted == model.lifecycle))
        .collect();
    let (shown, has_more) = page.of_these(&models, |model| &model.id)?;
    Ok(json(&List {
        data: shown.iter().map(|model| Info::of(model)).collect(),
        has_more,
        first_id: shown.first().map(|model| &*model.id),
        last_id: shown.last().map(|model| &*model.id),
    }))
}

/// The same of models as upstreams describe them, each with an id.
pub(super) fn page_of(models: &[Value], query: Option<&str>) -> Result<Bytes, ApiError> {
    fn id(model: &Value) -> &str {
        model["id"].as_str().unwrap_or_default()
    }
    let page = Page::of(query)?;
    let models: Vec<_> = (models.iter())
        .filter(|model| {
            let wanted = page.lifecycle.as_ref();
            wanted.is_none_or(|wanted| model["lifecycle"] == **wanted)
        })
        .collect();
    let (shown, has_more) = page.of_these(&models, |model| id(model))?;
    Ok(json(&serde_json::json!({
        "data": shown,
        "has_more": has_more,
        "first_id": shown.first().map(|model| id(model)),
        "last_id": shown.last().map(|model| id(model)),
    })))
}

fn first<T>(models: &[T], limit: usize) -> (&[T], bool) {
    (&models[..models.len().min(limit)], models.len() > limit)
}

/// One of `models` that `may` be used.
pub(super) fn one(
    models: &[ListedModel],
    id: &str,
    may: impl Fn(&str) -> bool,
) -> Result<Bytes, ApiError> {
    let model = models.iter().find(|model| model.id == id && may(id));
    let model = model.ok_or_else(not_there)?;
    Ok(json(&Info::of(model)))
}

/// What a model is called that a key does not get to see.
pub(super) fn not_there() -> ApiError {
    ApiError::not_found("There is no such model")
}

/// What a request is told whose key may not use its model.
pub(super) fn not_allowed(model: &[u8]) -> ApiError {
    let asked = match model {
        [] => "the model of a request that names none".to_owned(),
        model => format!("the model {}", shown(&String::from_utf8_lossy(model))),
    };
    ApiError::permission(format!(
        "This key may not use {asked}; GET /v1/models tells which it may"
    ))
}

/// An upstream's list without the models that may not be used. None: it is no list.
pub(super) fn filtered(body: &[u8], may: impl Fn(&str) -> bool) -> Option<Bytes> {
    let mut list: Value = serde_json::from_slice(body).ok()?;
    let data = list.get_mut("data")?.as_array_mut()?;
    data.retain(|model| model["id"].as_str().is_some_and(&may));
    let id = |model: Option<&Value>| model.map_or(Value::Null, |model| model["id"].clone());
    let (first, last) = (id(data.first()), id(data.last()));
    for (name, id) in [("first_id", first), ("last_id", last)] {
        // With a page that became empty, an old id is what the next page begins after.
        if let Some(place) = list.get_mut(name)
            && !id.is_null()
        {
            *place = id;
        }
    }
    serde_json::to_vec(&list).ok().map(Bytes::from)
}

fn json(value: &impl Serialize) -> Bytes {
    // Texts and numbers always serialise.
    Bytes::from(serde_json::to_vec(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn models() -> Vec<ListedModel> {
        (0..5)
            .map(|n| ListedModel {
                id: format!("m{n}"),
                display_name: format!("Model {n}"),
                created_at: "2026-02-05T00:00:00Z".to_owned(),
                lifecycle: if n == 4 { "deprecated" } else { "active" }.to_owned(),
            })
            .collect()
    }

    fn page(query: &str) -> (Vec<String>, bool, Value) {
        let page = list(&models(), Some(query), |_| true).unwrap();
        let page: Value = serde_json::from_slice(&page).unwrap();
        let ids = page["data"].as_array().unwrap().iter();
        let ids = ids.map(|model| model["id"].as_str().unwrap().to_owned());
        let has_more = page["has_more"] == true;
        (ids.collect(), has_more, page)
    }

    #[test]
    fn pages_go_forward_and_back_and_say_whether_there_is_more() {
        for (query, ids, has_more) in [
            ("", &["m0", "m1", "m2", "m3", "m4"][..], false),
            ("limit=2", &["m0", "m1"], true),
            ("limit=2&after_id=m1", &["m2", "m3"], true),
            ("limit=2&after_id=m3", &["m4"], false),
            ("after_id=m4", &[], false),
            ("limit=2&before_id=m4", &["m2", "m3"], true),
            ("limit=2&before_id=m2", &["m0", "m1"], false),
            ("before_id=m0", &[], false),
            (
                "beta=true&limit=1000",
                &["m0", "m1", "m2", "m3", "m4"],
                false,
            ),
            ("lifecycle=deprecated", &["m4"], false),
            ("after_id=%6d3&before_id=", &["m4"], false),
        ] {
            let (found, more, whole) = page(query);
            assert_eq!(found, ids, "{query}");
            assert_eq!(more, has_more, "{query}");
            assert_eq!(whole["first_id"], json!(found.first()), "{query}");
            assert_eq!(whole["last_id"], json!(found.last()), "{query}");
        }
    }

    #[test]
    fn what_no_page_can_be_of_is_told() {
        for query in [
            "limit=0",
            "limit=1001",
            "limit=x",
            "after_id=m9",
            "before_id=%ff",
            "after_id=m1&before_id=m2",
        ] {
            let error = list(&models(), Some(query), |_| true).unwrap_err();
            assert_eq!(error.status(), 400, "{query}");
        }
    }

    #[test]
    fn what_a_key_may_not_use_is_not_there() {
        let may = |id: &str| id == "m2";
        let page = list(&models(), None, may).unwrap();
        let page: Value = serde_json::from_slice(&page).unwrap();
        assert_eq!(page["data"].as_array().unwrap().len(), 1);
        assert_eq!(
            (&page["first_id"], &page["last_id"]),
            (&json!("m2"), &json!("m2"))
        );
        assert_eq!(one(&models(), "m1", may).unwrap_err().status(), 404);
        assert_eq!(one(&models(), "m9", |_| true).unwrap_err().status(), 404);
        let one: Value = serde_json::from_slice(&one(&models(), "m2", may).unwrap()).unwrap();
        assert_eq!(one["display_name"], "Model 2");
        assert_eq!(one["type"], "model");

        let upstreams = json!({
            "data": [{"id": "m1", "x": 1}, {"id": "m2", "x": [null]}, {"no": "id"}],
            "first_id": "m1", "last_id": "m3", "has_more": true, "other": 1
        });
        let left = filtered(upstreams.to_string().as_bytes(), may).unwrap();
        let left: Value = serde_json::from_slice(&left).unwrap();
        let expected = json!({
            "data": [{"id": "m2", "x": [null]}],
            "first_id": "m2", "last_id": "m2", "has_more": true, "other": 1
        });
        assert_eq!(left, expected);
        assert!(filtered(b"{}", may).is_none());
        assert!(filtered(b"no json", may).is_none());
    }
}
