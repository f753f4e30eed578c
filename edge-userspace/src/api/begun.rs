//! A request whose head has been read, before anything of it has to be waited for.
//!
//! Apart from the answer to it, which is a future: what a future is given it holds for as long
//! as it runs, and moves about until then. So what is large lies in boxes, from here to the head
//! of its answer, and does not move.

use super::admit::Announced;
use super::context::ToLearn;
use super::error::ApiError;
use super::seen::Seen;
use super::{Api, Plan, RequestId, Route, headers, whole};
use crate::keys::KeyRecord;
use crate::message::{Head, Request, Response};
use crate::relay::{Incoming, ResponseBody};
use crate::session::{Session, Stream};
use crate::telemetry::Lane;
use crate::usage::Settlement;
use bytes::Bytes;
use http::{Method, Version};
use std::rc::Rc;
use std::sync::Arc;

/// What is known of it, and what is to be done for it; see [`Api::answer`].
pub struct Begun {
    pub(super) facts: Box<Facts>,
    pub(super) work: Work,
}

/// What is known of it.
pub(super) struct Facts {
    pub(super) id: RequestId,
    pub(super) route: Route,
    /// The lane that the answer is marked with.
    pub(super) lane: Lane,
    pub(super) version: Version,
    pub(super) is_head: bool,
    /// The entry of the key that was shown, if one was.
    pub(super) key: Option<Arc<KeyRecord>>,
}

/// What is to be done.
pub(super) enum Work {
    /// Nothing: this is the answer.
    Said(Box<Response<ResponseBody>>),
    /// The upstream answers, or several.
    Pass(Stream, Box<Passing>),
    /// The prompt is read and counted first.
    Count(Stream, Box<Counting>),
}

/// A request that is sent on as it is.
pub(super) struct Passing {
    pub(super) going: Going,
    pub(super) body: Incoming,
}

/// A request that is counted.
pub(super) struct Counting {
    pub(super) going: Going,
    pub(super) body: Incoming,
    pub(super) announced: Announced,
}

/// What it takes along to an upstream.
pub(super) struct Going {
    /// The client's, without what speaks to the edge alone.
    pub(super) head: Head,
    pub(super) learn: ToLearn,
    pub(super) settlement: Settlement,
}

impl Api {
    /// Reads a request's head and decides what is to be done.
    #[must_use]
    pub fn begin(&self, session: &Rc<Session>, request: Request<Incoming>) -> Begun {
        let id = self.ids.next();
        let stream = session.begin();
        let Request { head, body } = request;
        let route = Route::of(head.uri.path());
        let (version, is_head) = (head.version, head.method == Method::HEAD);
        let seen = Seen::read(&head.fields);
        let lane = if seen.debug_legacy {
            Lane::Legacy
        } else {
            session.identity().lane
        };
        let speaks_to_the_edge = seen.speaks_to_the_edge();
        let mut key = None;
        let work = match self.plan(session, &head, route, &seen, &id, &mut key) {
            Err(error) => self.turned_away(session, &head, body, error, &id),
            Ok(Plan::Health) => {
                self.preheat(session, &head.method, &seen, id.at_s());
                let health = Bytes::from_static(br#"{"status":"ok"}"#);
                said(whole(Response::json(health)))
            }
            Ok(Plan::Own(answer)) => said(whole(Response::json(answer))),
            Ok(Plan::Forward(settlement)) => {
                let going = Going::new(head, settlement, speaks_to_the_edge);
                Work::Pass(stream, Box::new(Passing { going, body }))
            }
            Ok(Plan::Count(announced, settlement)) => {
                let counting = Counting {
                    going: Going::new(head, settlement, speaks_to_the_edge),
                    body,
                    announced,
                };
                Work::Count(stream, Box::new(counting))
            }
        };
        let facts = Facts {
            id,
            route,
            lane,
            version,
            is_head,
            key,
        };
        Begun {
            facts: Box::new(facts),
            work,
        }
    }

    fn turned_away(
        &self,
        session: &Session,
        head: &Head,
        body: Incoming,
        error: ApiError,
        id: &RequestId,
    ) -> Work {
        self.read_off(session, body, head);
        said(whole(error.not_begun().response(&id.text().value())))
    }
}

impl Going {
    /// Nothing is to be learnt yet.
    fn new(mut head: Head, settlement: Settlement, speaks_to_the_edge: bool) -> Self {
        if speaks_to_the_edge {
            headers::remove_own(&mut head.fields);
        }
        Self {
            head,
            learn: ToLearn::default(),
            settlement,
        }
    }
}

fn said(response: Response<ResponseBody>) -> Work {
    Work::Said(Box::new(response))
}
