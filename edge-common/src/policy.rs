//! Key policy, verdicts, reasons and counters: what is decided about a ClientHello, and
//! how each decision is named.
//!
//! [`judge`] is the only place where a hello becomes a verdict; the kernel and userspace
//! both call it. The kernel adds reasons for what it could not see (they pass).

use crate::client_hello::{ClientHello, Scanned};
use crate::rate::Rate;
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
    /// Nothing to decide: no ClientHello, or not the place of the verdict on one.
    Pass,
    /// A ClientHello that no TCP connection is behind: dropped, and without any effect.
    Unconnected,
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
        /// The token was used by another connection.
        Replayed = 13 "replayed",
        /// The key opens more connections than its hard rate allows.
        KeyRateExceeded = 14 "key_rate_exceeded",
        /// The client's address prefix opens more connections without a token than allowed.
        LegacyRateExceeded = 15 "legacy_rate_exceeded",
        /// All clients together open more connections without a token than allowed, and this
        /// one's prefix has had one of late, or there is no room for anyone.
        LegacyTotalExceeded = 16 "legacy_total_exceeded",
        /// A connection's first bytes begin no TLS record and no HTTP request. Kernel only;
        /// userspace says `not_hello`.
        NotTls = 17 "not_tls",
        /// A rule of the configuration denies clients with this TLS fingerprint. Userspace only.
        ClientDenied = 18 "client_denied",
    }
    Undecided {
        /// The hello did not come whole: the connection ended or was too slow (userspace), or
        /// its beginning could not be kept (kernel).
        Incomplete = 19 "incomplete",
        /// One hello in several TLS records.
        RecordFragmented = 20 "record_fragmented",
        /// The hello contradicts itself (a length overruns, an extension twice).
        HelloMalformed = 21 "hello_malformed",
        /// More extensions and names than the scanner follows.
        HelloTooLong = 22 "hello_too_long",
        /// More bytes or segments than the kernel follows.
        HelloOversize = 23 "hello_oversize",
        /// A segment of the hello came before the one that precedes it.
        OutOfOrder = 24 "out_of_order",
        /// The frame ends before the packet that it carries.
        NotLinear = 25 "not_linear",
        /// The key policy in the map is not marked complete.
        PolicyIncomplete = 26 "policy_incomplete",
        /// The daemon's heartbeat is stale, or it never beat.
        HeartbeatStale = 27 "heartbeat_stale",
        /// Another CPU held the connection's place in the flow table.
        Contended = 28 "contended",
        /// A good token that the replay table has no room to remember: the header decides.
        ReplayTableFull = 29 "replay_table_full",
        /// A PROXY protocol header that the kernel does not follow; userspace reads it.
        ProxyHeader = 30 "proxy_header",
        /// It would be refused, but the device takes VLAN tags off and an answer would leave
        /// without one: userspace refuses.
        TagStripped = 31 "tag_stripped",
    }
    Pass {
        /// Neither IPv4 nor IPv6, or more than two VLAN tags.
        OtherEtherType = 32 "other_ether_type",
        /// A fragment: never parsed.
        IpFragment = 33 "ip_fragment",
        /// Not TCP, or behind IPv6 extension headers that are not followed.
        OtherProtocol = 34 "other_protocol",
        /// A header is cut short or its length contradicts itself.
        HeaderTruncated = 35 "header_truncated",
        /// TCP, but not to a port that is ours.
        OtherPort = 36 "other_port",
        /// No payload.
        NoPayload = 37 "no_payload",
        /// Payload in a SYN (TCP Fast Open): no connection yet, nothing to answer.
        SynPayload = 38 "syn_payload",
        /// Payload that does not begin a ClientHello: later data of a connection, or not TLS.
        NotHello = 39 "not_hello",
        /// Payload with a reset, or without an acknowledgement: no live connection sends it.
        OddFlags = 40 "odd_flags",
        /// The first segment of a hello that goes on in others.
        HelloBegun = 41 "hello_begun",
        /// A later segment of a hello that still goes on.
        HelloContinued = 42 "hello_continued",
        /// Bytes of a hello that were seen before.
        Retransmitted = 43 "retransmitted",
        /// A second hello on the same connection (RFC 8446 section 4.1.4, HelloRetryRequest).
        HelloAgain = 44 "hello_again",
        /// A hello to an address and port on which nobody listens here: forwarded traffic.
        NoListener = 45 "no_listener",
        /// More of a connection whose hello was refused: answered as the hello was.
        RejectedAgain = 46 "rejected_again",
        /// A hello whose sequence numbers its connection does not expect: the stack decides.
        Stray = 47 "stray",
        /// The client's side of a refused connection ended; the server's was reset with it.
        RejectClosed = 48 "reject_closed",
        /// Of a hello that would have been refused, or goes on in others, with a wrong TCP
        /// checksum: the stack throws it away, and what is sent again is judged.
        ChecksumWrong = 49 "checksum_wrong",
    }
    Unconnected {
        /// A hello without a TCP connection behind it: a spoofed source.
        NoConnection = 50 "no_connection",
    }
}

impl Reason {
    /// Whether the reason of this number leads to a reject: for the kernel program, which
    /// keeps reasons as numbers in memory.
    #[inline(always)]
    #[must_use]
    pub const fn rejects(number: u32) -> bool {
        number >= Self::TokenMalformed as u32 && number <= Self::ClientDenied as u32
    }
}

/// Counters that are not a [`Reason`]; numbered after the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Counter {
    /// Packets that entered the program.
    Packets = 64,
    /// Verdicts on ClientHellos: accepted + rejected + legacy + undecided.
    Hellos = 65,
    /// Verdicts on hellos that had come in several segments. What `hello_begun` is ahead of this
    /// is hellos that were never completed, or are not yet.
    HellosResumed = 66,
    /// Unfinished hellos that lost their place in the flow table to others.
    HellosEvicted = 67,
    /// All entries of the flow table that lost their place to others, less than a minute old.
    FlowsEvicted = 68,
    /// Rejects answered by a TLS alert and FIN.
    AnsweredAlert = 69,
    /// Rejects answered by a TCP reset.
    AnsweredRst = 70,
    /// Rejects dropped without an answer, by configuration or above the rate of answers.
    AnsweredDrop = 71,
    /// Rejects whose packet was turned into a reset for the server, the client's answer left for
    /// its retransmission.
    AnsweredUp = 72,
    /// Rejects dropped because the answer could not be made.
    AnswerFailed = 73,
    /// Events put into the ring buffer.
    EventsSent = 74,
    /// Events left out by the rate bound.
    EventsSuppressed = 75,
    /// Events lost because the ring buffer was full.
    EventsLost = 76,
    /// Rejects that the daemon is not told of because their ring buffer was full.
    RejectsLost = 77,
}

impl Counter {
    /// Every counter, in order of number.
    pub const ALL: &[Self] = &[
        Self::Packets,
        Self::Hellos,
        Self::HellosResumed,
        Self::HellosEvicted,
        Self::FlowsEvicted,
        Self::AnsweredAlert,
        Self::AnsweredRst,
        Self::AnsweredDrop,
        Self::AnsweredUp,
        Self::AnswerFailed,
        Self::EventsSent,
        Self::EventsSuppressed,
        Self::EventsLost,
        Self::RejectsLost,
    ];

    /// The counter's name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Hellos => "hellos",
            Self::HellosResumed => "hellos_resumed",
            Self::HellosEvicted => "hellos_evicted",
            Self::FlowsEvicted => "flows_evicted",
            Self::AnsweredAlert => "answered_alert",
            Self::AnsweredRst => "answered_rst",
            Self::AnsweredDrop => "answered_drop",
            Self::AnsweredUp => "answered_up",
            Self::AnswerFailed => "answer_failed",
            Self::EventsSent => "events_sent",
            Self::EventsSuppressed => "events_suppressed",
            Self::EventsLost => "events_lost",
            Self::RejectsLost => "rejects_lost",
        }
    }
}

/// Slots of each CPU's counters: reasons first, then [`Counter`]s. A power of two.
pub const COUNTER_SLOTS: u32 = 128;

/// Words of each CPU's memory in the kernel: its counters, then what the programs work with.
pub const CPU_WORDS: usize = 716;

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
    /// The hard rate at which the key may open connections; unlimited when its interval is 0.
    pub hard_rate: Rate,
    /// The key's place in the table of [`crate::rate::KeyBucket`]s.
    pub bucket: u32,
    /// Always 0.
    pub padding: u32,
}

impl KeyPolicy {
    /// Flag: revoked. The entry stays so that the refusal can say why.
    pub const REVOKED: u64 = 1;

    /// No MAC key yet, good at any time, without a limit: what a policy begins as.
    pub const UNLIMITED: Self = Self {
        mac_key: [0; 2],
        not_before_s: 0,
        not_after_s: u64::MAX,
        flags: 0,
        hard_rate: Rate::UNLIMITED,
        bucket: 0,
        padding: 0,
    };
}

impl core::fmt::Debug for KeyPolicy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KeyPolicy")
            .field("mac_key", &"[redacted]")
            .field("not_before_s", &self.not_before_s)
            .field("not_after_s", &self.not_after_s)
            .field("flags", &self.flags)
            .field("hard_rate", &self.hard_rate)
            .field("bucket", &self.bucket)
            .finish()
    }
}

/// The kernel program's settings, written by userspace whenever they change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Settings {
    /// The clock's heartbeat may be this old, nanoseconds.
    pub heartbeat_max_age_ns: u64,
    /// What places in the shared tables are computed with; random, new with every start.
    pub secret: siphash::Key,
    /// Connections without a token, for each address prefix; unlimited when its interval is 0.
    pub legacy_rate: Rate,
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
    /// Most rejects a second and CPU that are answered to the client at once; of more, the
    /// server's side is freed first. 0: the server's side always first.
    pub answers_per_second: u32,
    /// 1: hellos without a TCP connection are dropped; 0: nobody looks (tests with packets).
    pub check_connection: u32,
    /// Sets of the flow table less one; a power of two less one.
    pub flow_sets_mask: u32,
    /// Sets of the replay table less one; a power of two less one.
    pub replay_sets_mask: u32,
    /// Sets of the prefix table less one; a power of two less one.
    pub prefix_sets_mask: u32,
    /// 1: on some ports a PROXY protocol header may come first.
    pub has_proxied_ports: u32,
    /// Where the kernel's `tcp_request_sock` keeps the client's and the server's initial
    /// sequence numbers, bytes; 0: not known.
    pub request_rcv_isn_at: u32,
    /// See above.
    pub request_snt_isn_at: u32,
    /// Another number whenever the addresses that the edge listens on have changed, never 0:
    /// what the program remembers of them is good as long as this is the same.
    pub addresses_version: u32,
    /// 1: on some interfaces rejects are left to userspace.
    pub has_unanswered: u32,
    /// Connections without a token, from all prefixes together; unlimited when its interval
    /// is 0.
    pub legacy_total: Rate,
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
    assert!(size_of::<KeyPolicy>() == 64 && align_of::<KeyPolicy>() == 8);
    assert!(offset_of!(KeyPolicy, not_before_s) == 16 && offset_of!(KeyPolicy, flags) == 32);
    assert!(offset_of!(KeyPolicy, hard_rate) == 40 && offset_of!(KeyPolicy, bucket) == 56);
    assert!(size_of::<Settings>() == 120 && align_of::<Settings>() == 8);
    assert!(offset_of!(Settings, legacy_rate) == 24 && offset_of!(Settings, window_back_s) == 40);
    assert!(offset_of!(Settings, answer) == 48 && offset_of!(Settings, has_proxied_ports) == 84);
    assert!(offset_of!(Settings, addresses_version) == 96);
    assert!(offset_of!(Settings, has_unanswered) == 100);
    assert!(offset_of!(Settings, legacy_total) == 104);
    assert!(size_of::<Clock>() == 16 && offset_of!(Clock, heartbeat_ns) == 8);
    let mut i = 0;
    while i < Reason::ALL.len() {
        assert!(
            Reason::ALL[i] as usize == i,
            "a reason's number is its place"
        );
        let rejects = matches!(Reason::ALL[i].verdict(), Verdict::Reject);
        assert!(rejects == Reason::rejects(i as u32));
        i += 1;
    }
    assert!(Reason::ALL.len() <= Counter::Packets as usize);
    assert!((Counter::RejectsLost as u32) < COUNTER_SLOTS);
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
        Scanned::Found => judge_found(hello.token_count(), hello.token(), keys, now_s, window),
        Scanned::Absent if hello.offers_acme() => Reason::AcmeChallenge,
        Scanned::Absent => Reason::NoToken,
        Scanned::Incomplete => Reason::Incomplete,
        Scanned::NotTls => Reason::NotHello,
        Scanned::RecordFragmented => Reason::RecordFragmented,
        Scanned::Malformed => Reason::HelloMalformed,
        // Whoever judges has gone on until there was no pause.
        Scanned::Paused | Scanned::TooLong => Reason::HelloTooLong,
    }
}

/// Judges a hello that offers `count` tokens, of which `token` is the first if it is well
/// formed.
#[inline(always)]
#[must_use]
pub fn judge_found(
    count: u32,
    token: Option<Token>,
    keys: &impl Keys,
    now_s: u64,
    window: Window,
) -> Reason {
    if count > 1 {
        return Reason::TokenDuplicate;
    }
    let Some(token) = token else {
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
