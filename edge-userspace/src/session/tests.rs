use super::*;
use crate::keys::{Edit, derive};
use edge_common::policy::{KeyPolicy, Reason};
use std::task::Wake;

const NOW_S: u64 = 1_800_000_000;

fn record(key: &[u8], alpn_only: bool) -> KeyRecord {
    let key = ApiKey::new(key.to_vec());
    KeyRecord {
        id: derive::key_id(&key),
        name: "test".into(),
        key_hash: derive::key_hash(&key),
        policy: Some(KeyPolicy {
            mac_key: derive::mac_key(&key, "demo").words(),
            not_before_s: 0,
            not_after_s: NOW_S + 100,
            flags: 0,
            ..KeyPolicy::UNLIMITED
        }),
        not_before_s: 0,
        not_after_s: NOW_S + 100,
        alpn_only,
        rates: Default::default(),
        max_prompt_tokens: None,
        allowance: None,
        revoked: false,
    }
}

struct World {
    keyring: Arc<Keyring>,
    sessions: Arc<Sessions>,
    keeper: Rc<Keeper>,
}

impl World {
    fn new(records: impl IntoIterator<Item = KeyRecord>) -> Self {
        let keyring = Arc::new(Keyring::new(100));
        keyring.apply(records.into_iter().map(Edit::Put));
        let sessions = Arc::new(Sessions::new());
        let observer: Arc<Sessions> = Arc::clone(&sessions);
        keyring.observe(observer);
        let limits = Limits {
            idle: Duration::from_secs(300),
            idle_unbound: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            unread: None,
        };
        let keeper = Keeper::new(
            Arc::clone(&keyring),
            Arc::clone(&sessions),
            Arc::default(),
            limits,
        );
        Self {
            keyring,
            sessions,
            keeper,
        }
    }

    fn connection(&self, token_key: Option<&[u8]>) -> Kept {
        let key = token_key.map(|key| {
            let id = derive::key_id(&ApiKey::new(key.to_vec()));
            self.keyring.find(id).unwrap()
        });
        self.keeper.open(identity(key))
    }
}

fn identity(key: Option<Arc<KeyRecord>>) -> Identity {
    Identity {
        over_rate: false,
        lane: if key.is_some() {
            Lane::Zero
        } else {
            Lane::Legacy
        },
        key,
        reason: Reason::NoToken,
        peer: ([127, 0, 0, 1], 1).into(),
        socket_peer: ([127, 0, 0, 1], 1).into(),
        ja4: None,
    }
}

/// Runs the keeper until it has nothing more to do at this moment.
async fn kept(world: &World, stop: &Stop) {
    let watch = world.keeper.watch(stop);
    let moment = Duration::from_millis(1);
    assert!(tokio::time::timeout(moment, watch).await.is_err());
}

#[test]
fn a_tokens_key_binds_and_another_key_poisons() {
    let world = World::new([record(b"a", false), record(b"b", false)]);
    let session = world.connection(Some(b"a"));
    assert_eq!(
        session.authenticate(Presented::Key(b"a"), NOW_S).map(drop),
        Ok(())
    );
    assert_eq!(
        session.authenticate(Presented::Nothing, NOW_S).map(drop),
        Err(Refusal::Missing)
    );
    assert_eq!(
        session.state(),
        State::Open,
        "a missing key poisons nothing"
    );
    assert_eq!(
        session.authenticate(Presented::Key(b"b"), NOW_S).map(drop),
        Err(Refusal::Invalid)
    );
    assert_eq!(session.state(), State::Poisoned);
    assert_eq!(
        session.authenticate(Presented::Key(b"a"), NOW_S).map(drop),
        Err(Refusal::Poisoned),
        "not even its own key serves a poisoned connection"
    );
    assert_eq!(Refusal::Invalid.to_string(), "Invalid Key");
}

#[test]
fn without_a_token_the_first_good_key_binds() {
    let world = World::new([record(b"a", false), record(b"b", false)]);
    let session = world.connection(None);
    assert_eq!(
        session
            .authenticate(Presented::Key(b"unknown"), NOW_S)
            .map(drop),
        Err(Refusal::Invalid)
    );
    assert_eq!(
        session
            .authenticate(Presented::Conflicting, NOW_S)
            .map(drop),
        Err(Refusal::Conflicting)
    );
    assert!(!session.is_bound() && session.state() == State::Open);
    assert_eq!(
        session.authenticate(Presented::Key(b"b"), NOW_S).map(drop),
        Ok(())
    );
    assert_eq!(
        session.authenticate(Presented::Key(b"a"), NOW_S).map(drop),
        Err(Refusal::Invalid),
        "a good key, but not this connection's"
    );
    assert_eq!(session.state(), State::Poisoned);
}

#[test]
fn a_key_of_other_audiences_serves_nothing_and_binds_nothing() {
    let mut elsewhere = record(b"a", false);
    elsewhere.policy = None;
    let world = World::new([elsewhere.clone(), record(b"b", false)]);
    let session = world.connection(None);
    let refused = Err(Refusal::Refused(Refused::NotForAudience));
    assert_eq!(
        session.authenticate(Presented::Key(b"a"), NOW_S).map(drop),
        refused
    );
    assert!(!session.is_bound() && session.state() == State::Open);
    assert_eq!(
        session.authenticate(Presented::Key(b"b"), NOW_S).map(drop),
        Ok(())
    );
    // One that loses the audience while it is bound loses it here too.
    let bound = World::new([record(b"a", false)]);
    let session = bound.connection(Some(b"a"));
    assert_eq!(
        session.authenticate(Presented::Key(b"a"), NOW_S).map(drop),
        Ok(())
    );
    bound.keyring.apply([Edit::Put(elsewhere)]);
    assert_eq!(
        session.authenticate(Presented::Key(b"a"), NOW_S).map(drop),
        refused
    );
}

#[test]
fn alpn_only_needs_no_header_and_only_on_the_zero_lane() {
    let world = World::new([record(b"a", true), record(b"b", false)]);
    let session = world.connection(Some(b"a"));
    assert_eq!(
        session.authenticate(Presented::Nothing, NOW_S).map(drop),
        Ok(())
    );
    assert_eq!(
        session.authenticate(Presented::Key(b"b"), NOW_S).map(drop),
        Err(Refusal::Invalid)
    );
    let legacy = world.connection(None);
    assert_eq!(
        legacy.authenticate(Presented::Key(b"a"), NOW_S).map(drop),
        Ok(())
    );
    assert_eq!(
        legacy.authenticate(Presented::Nothing, NOW_S).map(drop),
        Err(Refusal::Missing)
    );
}

#[test]
fn conflicting_keys_on_a_bound_connection_poison_it() {
    let world = World::new([record(b"a", true)]);
    let session = world.connection(Some(b"a"));
    assert_eq!(
        session
            .authenticate(Presented::Conflicting, NOW_S)
            .map(drop),
        Err(Refusal::Conflicting)
    );
    assert_eq!(session.state(), State::Poisoned);
}

#[test]
fn a_key_that_expires_while_connected_is_refused_then() {
    let world = World::new([record(b"a", false)]);
    let session = world.connection(Some(b"a"));
    assert_eq!(
        session
            .authenticate(Presented::Key(b"a"), NOW_S + 101)
            .map(drop),
        Err(Refusal::Refused(Refused::Expired))
    );
    assert_eq!(session.state(), State::Open);
}

#[tokio::test(start_paused = true)]
async fn revoking_or_removing_a_key_ends_its_connections_and_no_others() {
    let [a, b, c] = [b"a", b"b", b"c"].map(|key| record(key, false));
    let world = World::new([a.clone(), b.clone(), c]);
    let of_a = world.connection(Some(b"a"));
    let of_b = world.connection(None);
    of_b.authenticate(Presented::Key(b"b"), NOW_S).unwrap();
    let of_c = world.connection(Some(b"c"));
    assert_eq!(world.sessions.len(), 3);
    let running = Stop::new();
    world.keyring.apply([Edit::Revoke(a.id)]);
    kept(&world, &running).await;
    assert_eq!(of_a.state(), State::Ended(End::Key));
    assert_eq!(of_b.state(), State::Open);
    assert_eq!(
        of_a.authenticate(Presented::Key(b"a"), NOW_S).map(drop),
        Err(Refusal::Ended)
    );
    world.keyring.apply([Edit::Remove(b.id)]);
    kept(&world, &running).await;
    assert_eq!(of_b.state(), State::Ended(End::Key));
    assert_eq!(of_c.state(), State::Open);
    drop((of_a, of_b, of_c));
    assert!(world.sessions.is_empty());
}

/// The watcher may revoke between the judgement of the hello and the registration.
#[test]
fn a_key_revoked_before_its_connection_is_registered_ends_it_all_the_same() {
    let key = record(b"a", false);
    let world = World::new([key.clone()]);
    let found_before = world.keyring.find(key.id);
    world.keyring.apply([Edit::Revoke(key.id)]);
    let session = world.keeper.open(identity(found_before));
    assert_eq!(session.state(), State::Ended(End::Key));
}

/// Likewise between the check of a first request's key and the registration.
#[test]
fn a_key_revoked_before_its_first_request_binds_is_refused() {
    let key = record(b"a", false);
    let world = World::new([key.clone()]);
    let session = world.connection(None);
    let checked = world
        .keyring
        .authenticate(&ApiKey::new(b"a".to_vec()), NOW_S);
    world.keyring.apply([Edit::Revoke(key.id)]);
    assert_eq!(session.bind(checked.unwrap()), Err(Refusal::Ended));
    assert_eq!(session.state(), State::Ended(End::Key));
}

#[tokio::test]
async fn a_stream_that_is_to_end_does_nothing_more() {
    let world = World::new([record(b"a", false)]);
    let session = world.connection(Some(b"a"));
    let stream = session.begin();
    assert_eq!(stream.run(async { 7 }).await, Ok(7));
    session.end(End::Key);
    let work = async { panic!("polled after the end") };
    assert_eq!(stream.run(work).await, Err::<(), _>(End::Key));
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_closed_sooner_without_a_key() {
    let world = World::new([record(b"a", false)]);
    let bound = world.connection(Some(b"a"));
    let unbound = world.connection(None);
    let busy = world.connection(None);
    let _stream = busy.begin();
    let running = Stop::new();
    // The sessions' clock is the system's, which cannot be paused: move it back.
    let ago = |s| {
        clock::monotonic()
            .checked_sub(Duration::from_secs(s))
            .unwrap()
    };
    for session in [&bound, &unbound, &busy] {
        session.last_request.set(ago(31));
    }
    kept(&world, &running).await;
    let states = [&bound, &unbound, &busy].map(|session| session.state());
    assert_eq!(states, [State::Open, State::Closing, State::Open]);
    bound.last_request.set(ago(301));
    kept(&world, &running).await;
    assert_eq!(bound.state(), State::Closing);
}

#[test]
fn a_refused_request_closes_its_connection_when_nothing_else_runs() {
    let world = World::new([record(b"a", false)]);
    let session = world.connection(Some(b"a"));
    let refused = session.begin();
    assert!(session.close_at_rest());
    assert_eq!(session.state(), State::Closing, "with its answer");
    assert!(!session.close_at_rest());
    drop(refused);

    let session = world.connection(Some(b"a"));
    let (one, other) = (session.begin(), session.begin());
    for is_news in [true, false] {
        let refused = session.begin();
        assert_eq!(session.close_at_rest(), is_news);
        drop(refused);
        assert_eq!(session.state(), State::Open);
    }
    drop(one);
    assert_eq!(session.state(), State::Open);
    drop(other);
    assert_eq!(session.state(), State::Closing);
}

#[tokio::test(start_paused = true)]
async fn after_the_stop_signal_streams_may_finish_until_the_drain_timeout() {
    let world = World::new([record(b"a", false)]);
    let session = world.connection(Some(b"a"));
    let stop = Stop::new();
    stop.drain();
    let watch = world.keeper.watch(&stop);
    let mut watch = std::pin::pin!(watch);
    let wait = |s| Duration::from_secs(s);
    let _ = tokio::time::timeout(wait(29), watch.as_mut()).await;
    assert_eq!(session.state(), State::Closing);
    assert_eq!(
        session.authenticate(Presented::Key(b"a"), NOW_S).map(drop),
        Ok(())
    );
    assert_eq!(world.connection(Some(b"a")).state(), State::Closing);
    let _ = tokio::time::timeout(wait(2), watch.as_mut()).await;
    assert_eq!(session.state(), State::Ended(End::Draining));
}

#[tokio::test(start_paused = true)]
async fn what_is_cut_ends_at_once() {
    let world = World::new([record(b"a", false)]);
    let session = world.connection(Some(b"a"));
    let stop = Stop::new();
    stop.drain();
    let mut watch = std::pin::pin!(world.keeper.watch(&stop));
    let moment = Duration::from_millis(1);
    let _ = tokio::time::timeout(moment, watch.as_mut()).await;
    assert_eq!(session.state(), State::Closing);
    stop.cut();
    let _ = tokio::time::timeout(moment, watch.as_mut()).await;
    assert_eq!(session.state(), State::Ended(End::Draining));
    // Also where one hears of both together.
    let late = world.connection(Some(b"a"));
    assert!(
        tokio::time::timeout(moment, world.keeper.watch(&stop))
            .await
            .is_err()
    );
    assert_eq!(late.state(), State::Ended(End::Draining));
}

struct Woken(std::sync::atomic::AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn the_end_wakes_every_running_stream_once_and_frees_their_places() {
    let world = World::new([record(b"a", false)]);
    let session = world.connection(Some(b"a"));
    let woken = Arc::new(Woken(0.into()));
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let streams = [session.begin(), session.begin()];
    assert_eq!(session.running(), 2);
    assert_eq!(session.idle(), Duration::ZERO);
    for stream in &streams {
        assert!(stream.poll_end(&mut cx).is_pending());
        assert!(stream.poll_end(&mut cx).is_pending());
    }
    session.end(End::Key);
    session.end(End::Draining);
    assert_eq!(woken.0.load(std::sync::atomic::Ordering::Relaxed), 2);
    assert_eq!(streams[0].poll_end(&mut cx), Poll::Ready(End::Key));
    drop(streams);
    assert_eq!(session.running(), 0);
}
