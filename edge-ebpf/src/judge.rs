//! The verdict on a hello that was seen whole, or given up, and what is remembered of it.
//!
//! The stateless part is `edge-common`'s. The rest are looks into tables that userspace
//! writes when it has accepted a connection: who used the token, how much of a rate is
//! used. The kernel charges nothing, but for the words that keep it from letting through
//! more than a rate that is nearly used up already.

use aya_ebpf::programs::XdpContext;
use edge_common::flow::state;
use edge_common::policy::{
    Answer, Counter, KeyPolicy, Keys as _, Reason, Settings, Verdict, Window, judge_found,
};
use edge_common::rate::{Level, Rate};
use edge_common::token::{KeyId, Token};
use edge_common::{prefix, replay, total};

use crate::checksum::{self, Checksum};
use crate::events;
use crate::flows;
use crate::maps::{self, PolicyMap};
use crate::packet;
use crate::scratch::{Errand, Outcome, RateBy, Scratch};

/// How often a shed word is tried; when others are always quicker, nothing is charged.
const CHARGE_TURNS: u32 = 4;

/// Judges, records, counts. Whether the packet is to be answered.
#[inline(always)]
pub(crate) fn hello(ctx: &XdpContext, scratch: &mut Scratch, settings: &Settings) -> bool {
    scratch.monotonic_ns = maps::monotonic_ns(scratch);
    scratch.record.key_id = KeyId(0);
    // By way of memory: the verifier would walk the rest once for each reason.
    scratch.record.reason = decide(scratch, settings) as u32;
    packet::forget(scratch);
    if Reason::rejects(scratch.record.reason)
        && settings.has_unanswered != 0
        && maps::is_unanswered(ctx.ingress_ifindex() as u32)
    {
        scratch.record.reason = Reason::TagStripped as u32;
    }
    packet::forget(scratch);
    if Reason::rejects(scratch.record.reason) {
        match checksum::look(ctx, scratch) {
            Checksum::Right => {}
            Checksum::Wrong => {
                // Nothing is remembered of it: its true copy is judged.
                scratch.count(Reason::ChecksumWrong as u32);
                return false;
            }
            Checksum::TooLong => scratch.record.reason = Reason::HelloOversize as u32,
            Checksum::NotLinear => scratch.record.reason = Reason::NotLinear as u32,
        }
    }
    packet::forget(scratch);
    conclude(scratch, settings)
}

/// Records and counts a verdict. Whether the packet is to be answered.
#[inline(always)]
fn conclude(scratch: &mut Scratch, settings: &Settings) -> bool {
    let end = scratch.sequence.wrapping_add(scratch.payload_bytes);
    if scratch.record.segments == 1 {
        scratch.record.began_ns = scratch.monotonic_ns;
    }
    let record = &mut scratch.record;
    let refused = Reason::rejects(record.reason);
    record.judged_ns = scratch.monotonic_ns;
    record.end = end;
    record.acknowledged = scratch.acknowledged;
    record.state = state::JUDGED;
    record.hello_bytes = end.wrapping_sub(record.first);
    if refused {
        record.state = state::REJECTED;
        scratch.errand = Errand::Refuse as u32;
        if settings.answer == Answer::Drop as u32 || !events::may_answer(scratch, settings) {
            scratch.record.state = state::CLOSED;
            scratch.errand = Errand::ResetServer as u32;
        }
    } else {
        record.next = end;
    }
    packet::forget(scratch);
    // Without a place the verdict stands and is forgotten: a retransmission is judged
    // again. A refused connection that cannot be remembered is ended at the server at
    // once, for nobody would come back to it.
    match flows::put::<false>(scratch) {
        Ok(()) => {}
        Err(flows::Unplaced::NoRoom) => scratch.errand = Errand::ResetServer as u32,
        Err(flows::Unplaced::Overtaken) => return again(scratch),
    }
    packet::forget(scratch);
    scratch.count_any(scratch.record.reason);
    scratch.count(Counter::Hellos as u32);
    if scratch.record.segments > 1 {
        scratch.count(Counter::HellosResumed as u32);
    }
    packet::forget(scratch);
    events::sample(scratch, settings);
    Reason::rejects(scratch.record.reason)
}

/// The same segment has had its verdict on another CPU meanwhile.
#[inline(always)]
fn again(scratch: &mut Scratch) -> bool {
    if !Reason::rejects(scratch.record.reason) {
        scratch.count(Reason::Retransmitted as u32);
        return false;
    }
    scratch.count(Reason::RejectedAgain as u32);
    scratch.errand = Errand::RefuseAgain as u32;
    true
}

#[inline(always)]
fn decide(scratch: &mut Scratch, settings: &Settings) -> Reason {
    const ABSENT: u32 = Outcome::Absent as u32;
    const FOUND: u32 = Outcome::Found as u32;
    const NOT_TLS: u32 = Outcome::NotTls as u32;
    let outcome = scratch.outcome;
    if outcome == NOT_TLS {
        return match maps::clock(settings, scratch.monotonic_ns) {
            Some(_) => Reason::NotTls,
            None => Reason::HeartbeatStale,
        };
    }
    if outcome != FOUND && outcome != ABSENT {
        return undecided(outcome);
    }
    if outcome == FOUND {
        return found(scratch, settings);
    }
    if maps::clock(settings, scratch.monotonic_ns).is_none() {
        // Without a clock nothing that was seen can be held against anyone.
        return Reason::HeartbeatStale;
    }
    let reason = if scratch.record.hello.offers_acme() {
        Reason::AcmeChallenge
    } else {
        Reason::NoToken
    };
    if settings.deny_legacy != 0 && reason.verdict() == Verdict::Legacy {
        return Reason::LegacyDenied;
    }
    if reason != Reason::NoToken || scratch.rate_by == RateBy::Nobody as u32 {
        return reason;
    }
    let (is_exceeded, waited_ns) = prefix_rate(scratch, settings);
    if is_exceeded {
        return Reason::LegacyRateExceeded;
    }
    if total_exceeded(scratch, settings, waited_ns) {
        return Reason::LegacyTotalExceeded;
    }
    reason
}

#[inline(always)]
fn found(scratch: &mut Scratch, settings: &Settings) -> Reason {
    let clock = maps::clock(settings, scratch.monotonic_ns);
    let count = scratch.record.hello.token_count();
    let keys = PolicyMap { settings };
    let window = Window {
        back_s: settings.window_back_s,
        ahead_s: settings.window_ahead_s,
    };
    // Told apart early: further down the compiler would look at parts of a token before it
    // asks whether there is one, and the verifier allows no look at what was never written.
    let Some(token) = scratch.record.hello.token() else {
        return match clock {
            Some(_) => judge_found(count, None, &keys, 0, window),
            None => Reason::HeartbeatStale,
        };
    };
    scratch.record.key_id = token.key_id;
    let Some(clock) = clock else {
        return Reason::HeartbeatStale;
    };
    let now_s = maps::unix_s(clock, scratch.monotonic_ns);
    let mut reason = Reason::TagWrong;
    // The entry may have been replaced under our eyes (see `PolicyMap::policy`): two looks
    // must agree before anyone is refused for a wrong tag.
    let mut look = 0;
    while look < 2 && reason == Reason::TagWrong {
        look += 1;
        reason = judge_found(count, Some(token), &keys, now_s, window);
    }
    if reason == Reason::Accepted {
        reason = charged(scratch, settings, &token, &keys);
    }
    reason
}

/// A hello that was not seen whole.
#[inline(always)]
fn undecided(outcome: u32) -> Reason {
    const FRAGMENTED: u32 = Outcome::RecordFragmented as u32;
    const MALFORMED: u32 = Outcome::Malformed as u32;
    const OVERSIZE: u32 = Outcome::Oversize as u32;
    const OUT_OF_ORDER: u32 = Outcome::OutOfOrder as u32;
    const NOT_LINEAR: u32 = Outcome::NotLinear as u32;
    const PROXY_HEADER: u32 = Outcome::ProxyHeader as u32;
    const NOT_KEPT: u32 = Outcome::NotKept as u32;
    match outcome {
        FRAGMENTED => Reason::RecordFragmented,
        MALFORMED => Reason::HelloMalformed,
        OVERSIZE => Reason::HelloOversize,
        OUT_OF_ORDER => Reason::OutOfOrder,
        NOT_LINEAR => Reason::NotLinear,
        NOT_KEPT => Reason::Contended,
        PROXY_HEADER => Reason::ProxyHeader,
        _ => Reason::HelloTooLong,
    }
}

/// What a good token comes to.
#[inline(always)]
fn charged(scratch: &Scratch, settings: &Settings, token: &Token, keys: &PolicyMap<'_>) -> Reason {
    if is_replay(scratch, settings, token) {
        return Reason::Replayed;
    }
    let Some(policy) = keys.policy(token.key_id) else {
        return Reason::Accepted;
    };
    if key_exceeded(scratch, policy) {
        return Reason::KeyRateExceeded;
    }
    Reason::Accepted
}

#[inline(always)]
fn is_replay(scratch: &Scratch, settings: &Settings, token: &Token) -> bool {
    let id = replay::id(token);
    let [first, second] = replay::places(id, settings.secret, settings.replay_sets_mask);
    used_elsewhere(scratch, settings, first, id) || used_elsewhere(scratch, settings, second, id)
}

#[inline(always)]
fn used_elsewhere(scratch: &Scratch, settings: &Settings, set: u32, id: u64) -> bool {
    let Some(set) = maps::replay_set(set) else {
        return false;
    };
    let look = || replay::holder_by(|word| maps::word_of(set, word), id);
    let Some(holder) = look() else {
        return false;
    };
    if holder.is(replay::mark(&scratch.record.flow, settings.secret)) {
        return false;
    }
    // The entry may have become another's between its two words: both looks must agree.
    // The mark was long to compute, and userspace writes an entry in well less.
    look() == Some(holder)
}

#[inline(always)]
fn key_exceeded(scratch: &Scratch, policy: &KeyPolicy) -> bool {
    if policy.hard_rate.interval_ns == 0 {
        return false;
    }
    match maps::key_bucket(policy.bucket) {
        // Its words: hard, shed, soft.
        Some(bucket) => exceeded(policy.hard_rate, bucket, scratch.monotonic_ns),
        None => false,
    }
}

/// Whether the prefix's rate is exceeded, and else how long ago it had its last connection.
#[inline(always)]
fn prefix_rate(scratch: &Scratch, settings: &Settings) -> (bool, u64) {
    const NOT_KNOWN: (bool, u64) = (false, u64::MAX);
    let rate = settings.legacy_rate;
    if rate.interval_ns == 0 {
        return NOT_KNOWN;
    }
    let is_told = scratch.rate_by == RateBy::Told as u32;
    let prefix = if is_told {
        scratch.prefix
    } else {
        prefix::of(&scratch.record.flow.client)
    };
    let place = prefix::place(prefix, settings.secret, settings.prefix_sets_mask);
    let Some(set) = maps::prefix_set(place) else {
        return NOT_KNOWN;
    };
    let Some(at) = prefix::bucket_by(|word| maps::word_of(set, word), prefix) else {
        return NOT_KNOWN;
    };
    let bucket = maps::words_from(set, at);
    let (accepted, now_ns) = (maps::word_of(bucket, 0), scratch.monotonic_ns);
    let is_exceeded = if is_told {
        // Only looked at: whoever tells need not be believed.
        rate.level(accepted, now_ns) == Level::Exhausted
    } else {
        exceeded(rate, bucket, now_ns)
    };
    (is_exceeded, total::waited_ns(rate, accepted, now_ns))
}

/// Whether there is nothing left for this one of what all without a token may open together.
///
/// By what userspace accepted and, unless that is hardly anything, by what was let through here
/// too: hellos that are on their way to userspace still, whose prefixes it has not charged yet.
#[inline(always)]
fn total_exceeded(scratch: &Scratch, settings: &Settings, waited_ns: u64) -> bool {
    let (rate, now_ns) = (settings.legacy_total, scratch.monotonic_ns);
    if rate.interval_ns == 0 {
        return false;
    }
    let Some(bucket) = maps::legacy_total() else {
        return false;
    };
    let accepted = maps::word_of(bucket, 0);
    if total::is_quiet(rate, accepted, now_ns) {
        return false;
    }
    let shed = maps::words_from(bucket, 1);
    let mut turn = 0;
    while turn < CHARGE_TURNS {
        turn += 1;
        let seen = maps::word_of(shed, 0);
        let fuller = if seen > accepted { seen } else { accepted };
        match total::wait_ns(rate, fuller, now_ns) {
            Some(wait_ns) if wait_ns <= waited_ns => {}
            _ => return true,
        }
        // Who is only told of need not be believed, and uses up nothing here.
        if scratch.rate_by != RateBy::Sender as u32 {
            return false;
        }
        let Some(new) = rate.charge(fuller, now_ns) else {
            return true;
        };
        if flows::compare_exchange(shed, seen, new) == seen {
            return false;
        }
    }
    false
}

/// Whether a bucket has no room: by what userspace accepted, its first word, or, once that
/// is more than half of it, by what was let through here, its second.
#[inline(always)]
fn exceeded(rate: Rate, bucket: *mut u64, now_ns: u64) -> bool {
    match rate.level(maps::word_of(bucket, 0), now_ns) {
        Level::Free => false,
        Level::Exhausted => true,
        Level::Pressed => exceeded_by_shed(rate, maps::words_from(bucket, 1), now_ns),
    }
}

/// Charges the word of what was let through here; whether it has no room.
#[inline(always)]
fn exceeded_by_shed(rate: Rate, shed: *mut u64, now_ns: u64) -> bool {
    let mut turn = 0;
    while turn < CHARGE_TURNS {
        turn += 1;
        let seen = maps::word_of(shed, 0);
        let Some(new) = rate.charge(seen, now_ns) else {
            return true;
        };
        if flows::compare_exchange(shed, seen, new) == seen {
            return false;
        }
    }
    false
}
