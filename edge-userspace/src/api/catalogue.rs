//! What there is: models and nodes.
//!
//! Answered here where the configuration lists it; else an upstream is asked, or all of them,
//! and what the key may not use is left out. Not here: the lists' pages ([`super::models`])
//! and this node's load ([`super::regions`]).

use super::begun::{Facts, Passing};
use super::error::ApiError;
use super::forward::Ready;
use super::route::{self, Route};
use super::{Api, Plan, RequestId, ended, headers, models, whole};
use crate::keys::KeyRecord;
use crate::message::{Head, Response};
use crate::relay::{RequestBody, ResponseBody};
use crate::session::{Session, Stream};
use crate::upstream::{Picked, Sender};
use bytes::Bytes;
use edge_http2::Fields;
use http::header;
use http::{Method, StatusCode, Uri, Version};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// How long an upstream may take to tell its models when several are asked.
const LIST_TIME: Duration = Duration::from_secs(5);
/// As many models of one upstream as a page may have.
const WHOLE_LIST: &str = "/v1/models?limit=1000";

impl Api {
    /// What the edge answers without an upstream.
    pub(super) fn own(
        &self,
        uri: &Uri,
        route: Route,
        key: Option<&KeyRecord>,
    ) -> Option<Result<Plan, ApiError>> {
        let models = &self.settings.models;
        let may = |id: &str| self.may_use(key, id);
        let answer = match route {
            Route::Health => return Some(Ok(Plan::Health)),
            Route::Regions => {
                let (regions, upstreams) = (&self.settings.regions, self.sender.upstreams());
                Ok(regions.json(&self.metrics, &self.prompts, upstreams))
            }
            Route::Models if !models.is_empty() => models::list(models, uri.query(), may),
            Route::Model if !models.is_empty() => {
                let id = route::model_id(uri.path()).unwrap_or_default();
                models::one(models, &id, may)
            }
            Route::Model => {
                let id = route::model_id(uri.path()).unwrap_or_default();
                if may(&id) {
                    return None;
                }
                Err(models::not_there())
            }
            _ => return None,
        };
        Some(answer.map(Plan::Own))
    }

    /// Whether a model's requests go anywhere, and that key may make them.
    fn may_use(&self, key: Option<&KeyRecord>, id: &str) -> bool {
        let allowed = key.is_none_or(|key| key.allows_model(id.as_bytes()));
        allowed && self.sender.upstreams().serves(id.as_bytes())
    }

    /// What upstreams answer of models.
    pub(super) async fn pass(
        &self,
        stream: Stream,
        passing: Box<Passing>,
        facts: &Facts,
    ) -> Result<Response<ResponseBody>, ApiError> {
        let Passing { mut going, body } = *passing;
        let Facts { id, route, .. } = facts;
        let session = Rc::clone(stream.session());
        if *route == Route::Models && self.sender.upstreams().count() > 1 {
            // It takes no tokens, however it ends; one that is left was a request all the same.
            let list = stream.run(self.of_all(&session, &going.head, id)).await;
            return list.map_err(ended)?.map(|list| whole(Response::json(list)));
        }
        // Any upstream that serves the model may answer; of the list there is but one.
        let model = route::model_id(going.head.uri.path());
        let model = model.as_deref().map(str::as_bytes);
        let picked = self.sender.pick(model, None, 0, 0);
        let is_list = *route == Route::Models && going.head.method == Method::GET;
        let (body, upload) = RequestBody::new(body, self.settings.max_body_bytes);
        let ready = Ready {
            body,
            upload,
            picked,
        };
        let answer = self.forward(stream, &mut going, ready, id);
        match answer.await {
            Ok(list) if is_list => self.of_one(&session, list, id).await,
            answer => answer,
        }
    }

    /// An upstream's list of models without those that the key may not use and those that the
    /// edge sends nowhere.
    async fn of_one(
        &self,
        session: &Session,
        list: Response<ResponseBody>,
        id: &RequestId,
    ) -> Result<Response<ResponseBody>, ApiError> {
        let key = session.key();
        let all_allowed = (key.as_ref()).is_none_or(|key| key.allows_all_models());
        let all = all_allowed && self.sender.upstreams().serve_all();
        if all || list.status != StatusCode::OK {
            return Ok(list);
        }
        let Response {
            status,
            mut fields,
            body,
        } = list;
        let begun = Instant::now();
        let read = Limited::new(body, models::MAX_LIST_BYTES).collect().await;
        id.wait(begun.elapsed());
        let may = |id: &str| self.may_use(key.as_deref(), id);
        let left = (read.ok()).and_then(|body| models::filtered(&body.to_bytes(), may));
        let left =
            left.ok_or_else(|| ApiError::api("The upstream's list of models could not be read"))?;
        fields.remove(header::CONTENT_LENGTH);
        Ok(Response {
            status,
            fields,
            body: ResponseBody::Whole(Some(left)),
        })
    }

    /// The lists of all upstreams that tell one in time, put together: of each the models that
    /// it serves and the key may use, the first to name one first.
    async fn of_all(
        &self,
        session: &Session,
        head: &Head,
        id: &RequestId,
    ) -> Result<Bytes, ApiError> {
        let upstreams = self.sender.upstreams();
        let mut lists = vec![None; usize::from(upstreams.count())];
        let mut asking = JoinSet::new();
        for (number, picked) in upstreams.pick_each() {
            let (sender, fields) = (Rc::clone(&self.sender), head.fields.clone());
            asking.spawn_local(async move {
                let list = timeout(LIST_TIME, list_of(&sender, picked, fields)).await;
                (number, list.ok().flatten())
            });
        }
        let begun = Instant::now();
        while let Some(told) = asking.join_next().await {
            // A panic has been logged where it happened.
            if let Ok((number, list)) = told {
                lists[number] = list;
            }
        }
        id.wait(begun.elapsed());
        if lists.iter().all(Option::is_none) {
            return Err(ApiError::api("No upstream told its models"));
        }
        let key = session.key();
        let mut models: Vec<Value> = Vec::new();
        for (number, list) in lists.into_iter().enumerate() {
            for model in list.into_iter().flatten() {
                let Some(name) = model["id"].as_str() else {
                    continue;
                };
                let known = models.iter().any(|other| other["id"] == name);
                let serves = upstreams.one_serves(number, name.as_bytes());
                if !known && serves && self.may_use(key.as_deref(), name) {
                    models.push(model);
                }
            }
        }
        models::page_of(&models, head.uri.query())
    }
}

/// One upstream's list; none when it tells none.
async fn list_of(
    sender: &Sender<RequestBody>,
    picked: Picked,
    mut fields: Fields,
) -> Option<Vec<Value>> {
    headers::remove_own(&mut fields);
    fields.remove(header::CONTENT_LENGTH);
    let head = Head {
        method: Method::GET,
        uri: Uri::from_static(WHOLE_LIST),
        version: Version::HTTP_11,
        fields,
    };
    let body = RequestBody::default();
    let answer = sender.send(picked, &head, body, None, Instant::now());
    let answer = answer.await.ok()?;
    if answer.status != StatusCode::OK {
        return None;
    }
    let body = Limited::new(answer.body, models::MAX_LIST_BYTES);
    let body = body.collect().await.ok()?.to_bytes();
    let mut list: Value = serde_json::from_slice(&body).ok()?;
    match list["data"].take() {
        Value::Array(models) => Some(models),
        _ => None,
    }
}
