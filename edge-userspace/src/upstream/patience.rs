//! How long an upstream is waited for until it begins to answer.
//!
//! One timer a connection, for one request after the other: it is set once, and when it goes off
//! before its time it is set to that. So a request that is answered soon sets none and ends none,
//! and what the runtime has of timers is not touched.

use super::{Error, Upload};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// One connection's.
#[derive(Default)]
pub(super) struct Patience(Option<Pin<Box<Sleep>>>);

/// For one request.
#[derive(Clone, Copy)]
pub(super) struct Limit<'a> {
    /// Since when it is sent.
    pub(super) begun: Instant,
    /// From its end to the response's head.
    pub(super) limit: Duration,
    /// How its body comes on. While that still comes in, each piece of it begins the limit anew.
    pub(super) upload: Option<&'a Upload>,
}

impl Patience {
    /// Ready when the request has waited for too long: why.
    pub(super) fn poll(&mut self, limit: Limit<'_>, cx: &mut Context<'_>) -> Poll<Error> {
        let Limit {
            begun,
            limit,
            upload,
        } = limit;
        let (since, limit, fault) = match upload {
            Some(upload) => upload.waiting(begun, limit),
            None => (begun, limit, None),
        };
        let due = since + limit;
        let timer = (self.0).get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() > due {
            timer.as_mut().reset(due);
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= due {
                return Poll::Ready(fault.map_or(Error::FirstByte(limit), Error::Body));
            }
            timer.as_mut().reset(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::{CLIENT_SILENCE, Fault};
    use std::future::poll_fn;

    const S: Duration = Duration::from_secs(1);

    /// Why a request that begins now is given up, and after how many seconds.
    async fn given_up(patience: &mut Patience, limit: Duration, upload: &Upload) -> (Error, u64) {
        let begun = Instant::now();
        let limit = Limit {
            begun,
            limit,
            upload: Some(upload),
        };
        let error = poll_fn(|cx| patience.poll(limit, cx)).await;
        (error, begun.elapsed().as_secs())
    }

    /// One that is answered after so long.
    async fn answered(patience: &mut Patience, limit: Duration, after: Duration) {
        let upload = Upload::default();
        let waited = given_up(patience, limit, &upload);
        assert!(tokio::time::timeout(after, waited).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn each_request_has_the_whole_limit_whatever_came_before_it() {
        let (mut patience, limit) = (Patience::default(), 10 * S);
        for after in [1, 1, 9, 3, 9, 9] {
            answered(&mut patience, limit, after * S).await;
        }
        tokio::time::advance(100 * S).await;
        for after in [9, 1] {
            answered(&mut patience, limit, after * S).await;
        }
        for _ in 0..2 {
            let (error, after) = given_up(&mut patience, limit, &Upload::default()).await;
            assert!(
                matches!(error, Error::FirstByte(told) if told == limit),
                "{error}"
            );
            assert_eq!(after, 10);
        }
        let shorter = given_up(&mut patience, 2 * S, &Upload::default()).await;
        assert_eq!(shorter.1, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_waited_for_as_long_as_clients_are() {
        let (mut patience, upload) = (Patience::default(), Upload::default());
        upload.waits_for_client();
        let (error, after) = given_up(&mut patience, 10 * S, &upload).await;
        assert!(matches!(error, Error::Body(Fault::ClientSilent)), "{error}");
        assert_eq!(after, CLIENT_SILENCE.as_secs());
        // Its piece came then, and it is the upstream's turn.
        upload.passed();
        tokio::time::advance(4 * S).await;
        upload.passed();
        let (error, after) = given_up(&mut patience, 10 * S, &upload).await;
        assert!(matches!(error, Error::FirstByte(_)), "{error}");
        assert_eq!(after, 10);
    }
}
