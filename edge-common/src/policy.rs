//! Key policy, verdicts, reasons and counters: what is decided about a ClientHello, and
//! how each decision is named.
//!
//! [`judge`] is the only place where a hello becomes a verdict; the kernel and userspace
//! both call it. The kernel adds reasons for what it could not see (they pass).

use crate::client_hello::{ClientHello, Scanned};
use crate::siphash;
use crate::token::{KeyId, Token};

/// What happens to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The token is good: zero lane.
    Accept,
    /// Provably bad: answered and refused.
    Reject,
    /// No token: the legacy lane authenticates by header.
    Legacy,
    /// The kernel cannot tell; it passes and userspace decides.
    Undecided,
    /// Not a ClientHello at all; nothing to decide.
    Pass,
}

macro_rules! reasons {
    ($($verdict:ident { $($(#[$doc:meta])* $name:ident = $number:literal $text:literal,)* })*) => {
        /// Why a packet or a hello got its verdict. Each has a counter of the same number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Reason { $($($(#[$doc])* $name = $number,)*)* }

        impl Reason {
            /// Every reason, in order of number.
            pub const ALL: &[Self] = &[$($(Self::$name,)*)*];

            /// The reason's name in metrics, logs and errors.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$name => $text,)*)* }
            }

            /// What the reason leads to.
            #[inline(always)]
            #[must_use]
            pub const fn verdict(self) -> Verdict {
                match self { $($(Self::$name => Verdict::$verdict,)*)* }
            }
        }
    };
}

reasons! {
    Accept {
        /// A valid token.
        Accepted = 0 "accepted",
    }
    Legacy {
        /// The hello offers no token.
        NoToken = 1 "no_token",
        /// The hello is an ACME TLS-ALPN-01 challenge (RFC 8737).
        AcmeChallenge = 2 "acme_challenge",
    }
    Reject {
        /// The first `ezl1-` name is not 56 lower-case hex digits long.
        TokenMalformed = 3 "token_malformed",
        /// Two or more `ezl1-` names.
        TokenDuplicate = 4 "token_duplicate",
        /// No such key, while the policy is known to be complete.
        KeyUnknown = 5 "key_unknown",
        /// The tag is not the key's.
        TagWrong = 6 "tag_wrong",
        /// The key has been revoked.
        KeyRevoked = 7 "key_revoked",
        /// Before the key's first day.
        KeyNotYetValid = 8 "key_not_yet_valid",
        /// After the key's last day.
        KeyExpired = 9 "key_expired",
        /// Issued longer ago than the window allows.
        TokenExpired = 10 "token_expired",
        /// Issued further ahead than the window allows.
        TokenFromFuture = 11 "token_from_future",
        /// No token, and the legacy lane is closed by configuration.
        LegacyDenied = 12 "legacy_denied",
    }
    Undecided {
        /// The hello goes on in a later segment.
        Incomplete = 13 "incomplete",
        /// One hello in several TLS records.
        RecordFragmented = 14 "record_fragmented",
        /// The hello contradicts itself (a length overruns, an extension twice).
        HelloMalformed = 15 "hello_malformed",
        /// More extensions and names than the scanner follows.
        HelloTooLong = 16 "hello_too_long",
        /// Part of the packet lies where the program cannot see it.
        NotLinear = 17 "not_linear",
        /// The key policy in the map is not marked complete.
        PolicyIncomplete = 18 "policy_incomplete",
        /// The daemon's heartbeat is stale, or it never beat.
        HeartbeatStale = 19 "heartbeat_stale",
    }
    Pass {
        /// Neither IPv4 nor IPv6, or more than two VLAN tags.
        OtherEtherType = 20 "other_ether_type",
        /// A fragment: never parsed.
        IpFragment = 21 "ip_fragment",
        /// Not TCP; IPv6 extension headers count here.
        OtherProtocol = 22 "other_protocol",
        /// A header is cut short or its length contradicts itself.
        HeaderTruncated = 23 "header_truncated",
        /// TCP, but not to a port that is ours.
        OtherPort = 24 "other_port",
        /// No payload.
        NoPayload = 25 "no_payload",
        /// Payload in a SYN (TCP Fast Open): no connection yet, nothing to answer.
        SynPayload = 26 "syn_payload",
        /// Payload that does not begin a ClientHello: later data of a connection, or not TLS.
        NotHello = 27 "not_hello",
        /// Payload with a reset, or without an acknowledgement: no live connection sends it.
        OddFlags = 28 "odd_flags",
    }
}

/// Counters that are not a [`Reason`]; numbered after the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Counter {
    /// Packets that entered the program.
    Packets = 32,
    /// ClientHellos seen: accepted + rejected + legacy + undecided.
    Hellos = 33,
    /// Rejects answered by a TLS alert and FIN.
    AnsweredAlert = 34,
    /// Rejects answered by a TCP reset.
    AnsweredRst = 35,
    /// Rejects dropped without an answer, by configuration.
    AnsweredDrop = 36,
    /// Rejects dropped because the answer could not be made.
    AnswerFailed = 37,
    /// Events put into the ring buffer.
    EventsSent = 38,
    /// Events left out by the rate bound.
    EventsSuppressed = 39,
    /// Events lost because the ring buffer was full.
    EventsLost = 40,
}

impl Counter {
    /// Every counter, in order of number.
    pub const ALL: &[Self] = &[
        Self::Packets,
        Self::Hellos,
        Self::AnsweredAlert,
        Self::AnsweredRst,
        Self::AnsweredDrop,
        Self::AnswerFailed,
        Self::EventsSent,
        Self::EventsSuppressed,
        Self::EventsLost,
    ];

    /// The counter's name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Hellos => "hellos",
            Self::AnsweredAlert => "answered_alert",
            Self::AnsweredRst => "answered_rst",
            Self::AnsweredDrop => "answered_drop",
            Self::AnswerFailed => "answer_failed",
            Self::EventsSent => "events_sent",
            Self::EventsSuppressed => "events_suppressed",
            Self::EventsLost => "events_lost",
        }
    }
}

/// Slots of the per-CPU counter array: reasons first, then [`Counter`]s.
pub const COUNTER_SLOTS: u32 = 48;

/// How a reject is answered in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Answer {
    /// A TLS fatal `access_denied` alert (RFC 8446 section 6.2) and FIN.
    Alert = 0,
    /// A TCP reset.
    Rst = 1,
    /// Nothing.
    Drop = 2,
}

/// What the kernel knows of one key: a value of the policy map.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct KeyPolicy {
    /// The MAC key at this edge's audience, as little-endian words. Secret.
    pub mac_key: siphash::Key,
    /// First second at which the key is good, Unix time.
    pub not_before_s: u64,
    /// Last second at which the key is good, Unix time; `u64::MAX` for no end.
    pub not_after_s: u64,
    /// [`KeyPolicy::REVOKED`] or 0.
    pub flags: u64,
}

impl KeyPolicy {
    /// Flag: revoked. The entry stays so that the refusal can say why.
    pub const REVOKED: u64 = 1;
}

impl core::fmt::Debug for KeyPolicy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KeyPolicy")
            .field("mac_key", &"[redacted]")
            .field("not_before_s", &self.not_before_s)
            .field("not_after_s", &self.not_after_s)
            .field("flags", &self.flags)
            .finish()
    }
}

/// The kernel program's settings, written by userspace whenever they change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Settings {
    /// The clock's heartbeat may be this old, nanoseconds.
    pub heartbeat_max_age_ns: u64,
    /// A token may be this old, seconds.
    pub window_back_s: u32,
    /// A token may be this far ahead, seconds.
    pub window_ahead_s: u32,
    /// An [`Answer`] by number.
    pub answer: u32,
    /// 1: hellos without a token are refused; 0: they pass to the legacy lane.
    pub deny_legacy: u32,
    /// 1: an unknown key is unknown; 0: the policy is still being filled or overflowed.
    pub policy_complete: u32,
    /// Most events a second and CPU.
    pub events_per_second: u32,
}

/// The kernel's idea of wall-clock time, refreshed with every heartbeat of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Clock {
    /// Unix time less CLOCK_MONOTONIC, nanoseconds.
    pub unix_offset_ns: u64,
    /// CLOCK_MONOTONIC at the last heartbeat, nanoseconds; 0 before the first.
    pub heartbeat_ns: u64,
}

const _: () = {
    use core::mem::{align_of, offset_of, size_of};
    assert!(size_of::<KeyPolicy>() == 40 && align_of::<KeyPolicy>() == 8);
    assert!(offset_of!(KeyPolicy, not_before_s) == 16 && offset_of!(KeyPolicy, flags) == 32);
    assert!(size_of::<Settings>() == 32 && align_of::<Settings>() == 8);
    assert!(offset_of!(Settings, window_back_s) == 8 && offset_of!(Settings, answer) == 16);
    assert!(offset_of!(Settings, events_per_second) == 28);
    assert!(size_of::<Clock>() == 16 && offset_of!(Clock, heartbeat_ns) == 8);
    let mut i = 0;
    while i < Reason::ALL.len() {
        assert!(
            Reason::ALL[i] as usize == i,
            "a reason's number is its place"
        );
        i += 1;
    }
    assert!(Reason::ALL.len() <= Counter::Packets as usize);
    assert!((Counter::EventsLost as u32) < COUNTER_SLOTS);
};

/// Where key policies are looked up: a BPF map in the kernel, a snapshot in userspace.
pub trait Keys {
    /// The policy of `id`, if there is such a key.
    fn policy(&self, id: KeyId) -> Option<&KeyPolicy>;
    /// Whether every key is there, so that a miss proves the key unknown.
    fn complete(&self) -> bool;
}

/// When a token is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// It may be this old, seconds.
    pub back_s: u32,
    /// It may be this far ahead, seconds.
    pub ahead_s: u32,
}

/// Judges a scanned hello. Stateless: replay and rates are charged elsewhere.
///
/// `now_s` is Unix time in seconds.
#[inline(always)]
#[must_use]
pub fn judge(
    hello: &ClientHello,
    scanned: Scanned,
    keys: &impl Keys,
    now_s: u64,
    window: Window,
) -> Reason {
    match scanned {
        Scanned::Found => judge_tokens(hello, keys, now_s, window),
        Scanned::Absent if hello.offers_acme() => Reason::AcmeChallenge,
        Scanned::Absent => Reason::NoToken,
        Scanned::Incomplete => Reason::Incomplete,
        Scanned::NotTls => Reason::NotHello,
        Scanned::RecordFragmented => Reason::RecordFragmented,
        Scanned::Malformed => Reason::HelloMalformed,
        Scanned::TooLong => Reason::HelloTooLong,
    }
}

#[inline(always)]
fn judge_tokens(hello: &ClientHello, keys: &impl Keys, now_s: u64, window: Window) -> Reason {
    if hello.token_count() > 1 {
        return Reason::TokenDuplicate;
    }
    let Some(token) = hello.token() else {
        return Reason::TokenMalformed;
    };
    let Some(policy) = keys.policy(token.key_id) else {
        return if keys.complete() {
            Reason::KeyUnknown
        } else {
            Reason::PolicyIncomplete
        };
    };
    judge_token(&token, policy, now_s, window)
}

/// Judges a token of a known key.
#[inline(always)]
#[must_use]
pub fn judge_token(token: &Token, policy: &KeyPolicy, now_s: u64, window: Window) -> Reason {
    // Both sides are public 64-bit words compared as one: no byte-wise timing to learn from.
    if token.expected_tag(policy.mac_key) != token.tag {
        return Reason::TagWrong;
    }
    // Only a holder of the key gets further, so only a holder learns the key's state.
    if policy.flags & KeyPolicy::REVOKED != 0 {
        return Reason::KeyRevoked;
    }
    if now_s < policy.not_before_s {
        return Reason::KeyNotYetValid;
    }
    if now_s > policy.not_after_s {
        return Reason::KeyExpired;
    }
    let issued_at_s = u64::from(token.issued_at_s);
    if issued_at_s + u64::from(window.back_s) < now_s {
        return Reason::TokenExpired;
    }
    if issued_at_s > now_s + u64::from(window.ahead_s) {
        return Reason::TokenFromFuture;
    }
    Reason::Accepted
}
