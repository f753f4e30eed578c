//! Who asks, and when next. Every number of this file is an assumption about clients; times
//! are milliseconds.

use super::random::Random;
use super::{NONE, Request, Trace};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What sort of client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One fixed system prompt, each time a new question, seldom a second turn.
    Plugin,
    /// A person.
    Chat,
    /// A loop of tool calls.
    Agent,
}

/// Who will do something.
enum Actor {
    /// Begins conversations.
    Source(Source),
    /// One conversation.
    Talk(Talk),
}

#[derive(Clone, Copy)]
struct Source {
    tenant: u32,
    kind: Kind,
    head: u32,
    /// Sub-agents have another system prompt and fewer tools.
    second_head: u32,
    mean_gap_ms: f64,
    /// Of a plug-in: whether its author asked for an hour.
    long: bool,
}

#[derive(Clone, Copy)]
struct Talk {
    source: Source,
    /// All messages of the last request.
    prefix: u32,
    /// Turns since the head.
    depth: u32,
    turns_left: u32,
    long: bool,
    /// Begun by an agent; does not begin others.
    sub_agent: bool,
}

/// Agents sum up what was said and begin anew after so many turns.
const COMPACTION_TURNS: u32 = 40;

/// Everybody, in the order of what they do next.
#[derive(Default)]
pub(super) struct World {
    actors: Vec<Actor>,
    /// When, and who.
    next: BinaryHeap<Reverse<(u64, u32)>>,
    parents: Vec<u32>,
    requests: Vec<Request>,
}

impl World {
    /// Adds a tenant's client that begins a conversation every `mean_gap_ms`.
    pub(super) fn source(
        &mut self,
        random: &mut Random,
        tenant: u32,
        kind: Kind,
        mean_gap_ms: f64,
    ) {
        let source = Source {
            tenant,
            kind,
            head: self.prefix(NONE),
            second_head: self.prefix(NONE),
            mean_gap_ms,
            long: random.chance(0.1),
        };
        let first_ms = random.exponential(mean_gap_ms) as u64;
        self.will(first_ms, Actor::Source(source));
    }

    /// Lets everybody act until `end_ms`.
    pub(super) fn run(mut self, random: &mut Random, end_ms: u64) -> Trace {
        while let Some(Reverse((now_ms, who))) = self.next.pop() {
            if now_ms >= end_ms {
                break;
            }
            match self.actors[who as usize] {
                Actor::Source(source) => {
                    self.begin(random, now_ms, source);
                    let gap_ms = random.exponential(source.mean_gap_ms) as u64;
                    self.next.push(Reverse((now_ms + gap_ms, who)));
                }
                Actor::Talk(talk) => {
                    let talk = self.turn(random, now_ms, talk);
                    if talk.turns_left > 0 {
                        let gap_ms = gap_ms(random, talk.source.kind) as u64;
                        self.next.push(Reverse((now_ms + gap_ms, who)));
                    }
                    self.actors[who as usize] = Actor::Talk(talk);
                }
            }
        }
        Trace {
            requests: self.requests,
            parents: self.parents,
        }
    }

    /// A new conversation, its first turn now.
    fn begin(&mut self, random: &mut Random, now_ms: u64, source: Source) {
        let turns_left = match source.kind {
            Kind::Plugin if random.chance(0.8) => 1,
            Kind::Plugin => 1 + random.geometric(2.0),
            Kind::Chat => random.geometric(8.0),
            Kind::Agent => random.geometric(25.0),
        };
        let long = match source.kind {
            Kind::Plugin => source.long,
            Kind::Chat => random.chance(0.3),
            Kind::Agent => random.chance(0.2),
        };
        let talk = Talk {
            source,
            prefix: source.head,
            depth: 0,
            turns_left,
            long,
            sub_agent: false,
        };
        self.will(now_ms, Actor::Talk(talk));
    }

    /// One request, and what comes of it.
    fn turn(&mut self, random: &mut Random, now_ms: u64, mut talk: Talk) -> Talk {
        let kind = talk.source.kind;
        if kind == Kind::Chat && talk.depth > 0 && random.chance(0.03) {
            // The answer is made anew: the same request again.
        } else if kind == Kind::Chat && talk.depth > 0 && random.chance(0.02) {
            // The last message is edited.
            talk.prefix = self.prefix(self.parents[talk.prefix as usize]);
        } else if kind == Kind::Agent && talk.depth >= COMPACTION_TURNS {
            talk.prefix = self.prefix(talk.source.head);
            talk.depth = 1;
        } else {
            talk.prefix = self.prefix(talk.prefix);
            talk.depth += 1;
        }
        self.requests.push(Request {
            at_s: (now_ms / 1000) as u32,
            tenant: talk.source.tenant,
            prefix: talk.prefix,
            long: talk.long,
        });
        talk.turns_left -= 1;
        if kind == Kind::Agent && !talk.sub_agent && random.chance(0.05) {
            for _ in 0..2 + random.below(5) {
                let sub_agent = Talk {
                    prefix: talk.source.second_head,
                    depth: 0,
                    turns_left: random.geometric(8.0),
                    sub_agent: true,
                    ..talk
                };
                self.will(now_ms + random.below(2_000), Actor::Talk(sub_agent));
            }
        }
        talk
    }

    fn prefix(&mut self, parent: u32) -> u32 {
        self.parents.push(parent);
        (self.parents.len() - 1) as u32
    }

    fn will(&mut self, at_ms: u64, actor: Actor) {
        self.next.push(Reverse((at_ms, self.actors.len() as u32)));
        self.actors.push(actor);
    }
}

/// Until the next turn.
fn gap_ms(random: &mut Random, kind: Kind) -> f64 {
    let (median_s, sigma) = match kind {
        Kind::Plugin => (20.0, 0.8),
        // Comes back after a meeting.
        Kind::Chat if random.chance(0.005) => return 6e5 + 24e5 * random.unit(),
        Kind::Chat => (35.0, 0.9),
        // Waits for a person's consent.
        Kind::Agent if random.chance(0.04) => (60.0, 1.3),
        Kind::Agent => (4.0, 1.2),
    };
    let answer_s = 2.0 + 13.0 * random.unit();
    let answer_s = if kind == Kind::Chat { answer_s } else { 2.0 };
    1000.0 * (answer_s + random.log_normal(median_s, sigma))
}
