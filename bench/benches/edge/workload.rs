//! What is asked of each, and what one round of it came to.

use crate::Effort;
use crate::streams::Times;
use crate::subject::{Subject, World};
use crate::upstream::{LONG, LONG_BYTES};
use crate::{block_on, connections, h2load, prompts, streams};
use bench::peers::Speaks;
use bytes::Bytes;
use std::time::{Duration, Instant};

/// One kind of work.
pub(crate) struct Workload {
    /// In figures.
    pub(crate) name: &'static str,
    /// What CPU time is divided by.
    pub(crate) unit: &'static str,
    kind: Kind,
}

enum Kind {
    /// The same request over and over, by h2load: a small one for a small answer, or one of both
    /// is of 256 KiB.
    Same(Same),
    /// Prompts of that size, each another; or conversations of so many turns.
    Prompts { bytes: usize, turns: usize },
    /// Connections that do nothing.
    Idle,
    /// So many streams at once, events so far apart.
    Streams { streams: usize, interval_ms: u64 },
    /// Connections with one small request each.
    Connections { resume: bool },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Same {
    Small,
    LongAnswer,
    LongRequest,
}

/// Histograms of the edge's metrics.
const INSIDE: [&str; 3] = [
    "edge_prompt_counting_seconds",
    "edge_context_look_up_seconds",
    "edge_context_path_seconds",
];

/// In the order in which they are measured.
pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "small",
        unit: "request",
        kind: Kind::Same(Same::Small),
    },
    Workload {
        name: "body256k",
        unit: "request",
        kind: Kind::Same(Same::LongAnswer),
    },
    Workload {
        name: "upload256k",
        unit: "request",
        kind: Kind::Same(Same::LongRequest),
    },
    Workload {
        name: "prompt4k",
        unit: "request",
        kind: Kind::Prompts {
            bytes: 4096,
            turns: 1,
        },
    },
    Workload {
        name: "prompt100k",
        unit: "request",
        kind: Kind::Prompts {
            bytes: 102_400,
            turns: 1,
        },
    },
    Workload {
        name: "conversation4k",
        unit: "request",
        kind: Kind::Prompts {
            bytes: 3500,
            turns: prompts::TURNS,
        },
    },
    Workload {
        name: "sse64",
        unit: "event",
        kind: Kind::Streams {
            streams: 64,
            interval_ms: 5,
        },
    },
    Workload {
        name: "sse1000",
        unit: "event",
        kind: Kind::Streams {
            streams: 1000,
            interval_ms: 50,
        },
    },
    Workload {
        name: "handshake",
        unit: "connection",
        kind: Kind::Connections { resume: false },
    },
    Workload {
        name: "resume",
        unit: "connection",
        kind: Kind::Connections { resume: true },
    },
    Workload {
        name: "idle10k",
        unit: "connection",
        kind: Kind::Idle,
    },
];

/// How much of it is a round.
pub(crate) struct Sizes(usize);

/// What a round came to.
pub(crate) struct Sample {
    /// Requests, events or connections.
    pub(crate) units: usize,
    /// Of the server.
    pub(crate) cpu: Duration,
    pub(crate) took: Duration,
    pub(crate) resident_bytes: u64,
    pub(crate) times: Option<Times>,
    /// Resident memory for each connection that does nothing.
    pub(crate) idle_bytes: Option<f64>,
    /// Medians of the edge's own histograms meanwhile, in microseconds: reading and counting a
    /// body, looking for its known beginning, and all of it of a conversation that goes on.
    pub(crate) inside_us: [Option<f64>; 3],
}

const SMALL: &str = r#"{"model":"bench","max_tokens":16,"messages":[{"role":"user","content":"How far is it to the sea?"}]}"#;

impl Same {
    /// The request's body. A long one carries an image, as those of that size do.
    fn body(self) -> String {
        match self {
            Self::Small => SMALL.to_owned(),
            Self::LongAnswer => SMALL.replace("How far is it to the sea?", LONG),
            Self::LongRequest => {
                let (before, after) = (
                    r#"{"model":"bench","max_tokens":16,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":""#,
                    r#""}},{"type":"text","text":"What is this?"}]}]}"#,
                );
                let data = "iVBORw0KGgoAAAANSUhEUgAA".repeat(LONG_BYTES / 24 + 1);
                let bytes = LONG_BYTES - before.len() - after.len();
                format!("{before}{}{after}", &data[..bytes / 4 * 4])
            }
        }
    }

    /// Runs so many, and holds their answers to their bytes.
    fn run(self, world: &World, subject: &Subject, requests: usize) -> usize {
        let file = world.file("same.json", &self.body());
        let outcome = h2load::run(&subject.target, &file, requests);
        let each = outcome.body_bytes / outcome.requests as u64;
        assert_eq!(each * outcome.requests as u64, outcome.body_bytes);
        match self {
            // Gateways write answers anew.
            Self::LongAnswer if subject.target.is_chat => {
                assert!(each > LONG_BYTES as u64 - 1024, "{each} bytes of a message");
            }
            Self::LongAnswer => assert_eq!(each, LONG_BYTES as u64),
            _ => assert!(each > 100, "{each} bytes of a message"),
        }
        outcome.requests
    }
}

impl Workload {
    /// So much that a round takes about a second, and not more than makes sense.
    pub(crate) fn sizes(&self, world: &World, subject: &Subject, effort: Effort) -> Sizes {
        if let Kind::Streams { streams, .. } = self.kind {
            // Their pace is given. The first ones need more connections upstream than there are.
            let sizes = Sizes(match effort {
                Effort::Test => 8,
                _ => streams,
            });
            if effort == Effort::Full {
                self.run(world, subject, &sizes);
            }
            return sizes;
        }
        if let Kind::Idle = self.kind {
            return Sizes(match effort {
                Effort::Test => 20,
                Effort::Quick => 2000,
                Effort::Full => 10_000,
            });
        }
        let (first, most) = match self.kind {
            Kind::Prompts { bytes, .. } if bytes > 50_000 => (64, 4000),
            Kind::Prompts { .. } => (256, 20_000),
            Kind::Same(Same::Small) => (200, 40_000),
            Kind::Same(_) => (64, 8000),
            _ => (50, 2000),
        };
        if effort == Effort::Test {
            return Sizes(first / 2);
        }
        let mut size = first;
        let want = match effort {
            Effort::Full => Duration::from_millis(1500),
            _ => Duration::from_millis(400),
        };
        loop {
            let took = self.run(world, subject, &Sizes(size)).took;
            if took >= want / 4 || size >= most {
                let enough = size as f64 * want.as_secs_f64() / took.as_secs_f64();
                return Sizes((enough as usize).clamp(first, most));
            }
            size *= 4;
        }
    }

    /// A round.
    pub(crate) fn run(&self, world: &World, subject: &Subject, sizes: &Sizes) -> Sample {
        let Sizes(size) = *sizes;
        let mut idle_bytes = None;
        let fresh;
        let subject = if let Kind::Idle = self.kind {
            // What earlier connections left in an allocator would be taken by these.
            fresh = world.start(subject.name).expect("it started before");
            &fresh
        } else {
            subject
        };
        let target = &subject.target;
        let inside = || INSIDE.map(|name| subject.histogram(name));
        let inside_before = inside();
        let before = subject.cpu();
        let began = Instant::now();
        let (units, times) = match self.kind {
            Kind::Same(same) => (same.run(world, subject, size), None),
            Kind::Prompts { bytes, turns } => {
                let size = size.next_multiple_of(turns);
                block_on(prompts::run(target, size, bytes, turns));
                (size, None)
            }
            Kind::Idle => {
                let look = || subject.resident_bytes();
                let (before, after) = block_on(connections::idle(target, size, look));
                idle_bytes = Some(after.saturating_sub(before) as f64 / size as f64);
                (size, None)
            }
            Kind::Streams { interval_ms, .. } => {
                let times = block_on(streams::run(target, size, interval_ms));
                (size * crate::upstream::EVENTS, Some(times))
            }
            Kind::Connections { resume } => {
                let body = Bytes::from_static(SMALL.as_bytes());
                block_on(connections::run(target, size, &body, resume));
                (size, None)
            }
        };
        let took = began.elapsed();
        let cpu = subject.cpu().saturating_sub(before);
        let mut pairs = inside_before.into_iter().zip(inside());
        let inside_us = [(); 3].map(|()| {
            let (before, after) = pairs.next()?;
            Some(median_us(&before?, &after?))
        });
        Sample {
            units,
            cpu,
            took,
            idle_bytes,
            inside_us,
            resident_bytes: subject.resident_bytes(),
            times,
        }
    }

    /// How often.
    pub(crate) fn rounds(&self, effort: Effort) -> usize {
        match (effort, &self.kind) {
            (Effort::Test, _) => 1,
            (Effort::Quick, Kind::Streams { .. } | Kind::Idle) => 1,
            (Effort::Quick, _) => 3,
            (Effort::Full, Kind::Idle) => 3,
            (Effort::Full, Kind::Streams { .. }) => 5,
            (Effort::Full, _) => 9,
        }
    }

    /// Why it would say nothing of that one.
    pub(crate) fn skips(&self, subject: &Subject, effort: Effort) -> Option<&'static str> {
        let is_slow = ["litellm", "portkey"].contains(&subject.name);
        match self.kind {
            Kind::Same(_) if !h2load::is_here() => {
                Some("h2load is not here; `cargo xtask setup --peers` installs it")
            }
            Kind::Connections { .. } | Kind::Idle if subject.target.speaks == Speaks::Plain => {
                Some("it does not end TLS")
            }
            Kind::Connections { .. } | Kind::Idle if subject.target.is_chat => {
                Some("connections are those of `edge`")
            }
            Kind::Streams { streams, .. } if streams > 100 && is_slow => {
                Some("it is far from 20,000 events a second")
            }
            Kind::Streams { streams, .. }
                if streams > 100 && effort == Effort::Quick && subject.target.is_chat =>
            {
                Some("ten seconds each are not quick")
            }
            _ => None,
        }
    }
}

/// The median of what came into a histogram between two looks, evenly spread in its bucket.
fn median_us(before: &[(f64, f64)], after: &[(f64, f64)]) -> f64 {
    let came: Vec<_> = after
        .iter()
        .zip(before)
        .map(|((end, now), (_, then))| (*end, now - then))
        .collect();
    let half = came.last().map_or(0.0, |(_, all)| all / 2.0);
    let (mut beginning, mut below) = (0.0, 0.0);
    for (end, up_to) in came {
        if up_to >= half && up_to > below {
            let share = (half - below) / (up_to - below);
            return (beginning + (end - beginning) * share) * 1e6;
        }
        (beginning, below) = (end, up_to);
    }
    f64::NAN
}
