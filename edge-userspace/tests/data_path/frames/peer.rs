//! An HTTP/2 client that keeps the books of both sides: each byte of window that was given, each
//! frame that may come, each byte that a body must have. Whatever the edge sends against the books
//! fails the test.

use super::maker::Want;
use super::*;
use crate::ledger::Dice;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncWrite, ReadHalf, WriteHalf};
use tokio::time::Instant;

const PRIORITY: u8 = 2;
const PUSH_PROMISE: u8 = 5;
const WINDOW_UPDATE: u8 = 8;
const PADDED: u8 = 8;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
/// As they are before anyone says otherwise (RFC 9113 sections 6.5.2 and 6.9.2).
const DEFAULT_WINDOW: i64 = 65_535;
const DEFAULT_FRAME: usize = 16_384;
const MOST_WINDOW: i64 = (1 << 31) - 1;

pub(super) struct Peer {
    reading: ReadHalf<TlsStream<TcpStream>>,
    writing: WriteHalf<TlsStream<TcpStream>>,
    came: Vec<u8>,
    out: Vec<u8>,
    is_unflushed: bool,
    /// So much is written at a time.
    pub(super) write_bytes: usize,
    /// What the edge may send: of the connection, and of a stream to begin with.
    window: i64,
    initial: i64,
    largest: usize,
    /// What of it is on its way: settings that the edge has not acknowledged.
    unacknowledged: VecDeque<(i64, usize)>,
    /// What we may send.
    edges_window: i64,
    edges_initial: i64,
    /// What came and was not given back.
    pub(super) debt: usize,
    pub(super) streams: BTreeMap<u32, Stream>,
    next: u32,
    pings: VecDeque<u64>,
    pinged: u64,
    pub(super) is_over: bool,
    has_settings: bool,
    /// Who has said that nothing more is asked for, or may say so.
    is_closing: bool,
}

pub(super) struct Stream {
    want: Want,
    /// What comes when nothing goes wrong.
    expected: Vec<u8>,
    pub(super) got: usize,
    pub(super) has_head: bool,
    /// All of the answer has come.
    pub(super) is_answered: bool,
    pub(super) is_reset: bool,
    /// What the answer to it says is not looked at.
    is_refused: bool,
    /// What was given beyond what a stream has to begin with, less what came.
    given: i64,
    pub(super) debt: usize,
    body: Vec<u8>,
    sent: usize,
    pub(super) is_sent: bool,
    /// The same of what we may send.
    edge_gave: i64,
}

impl Stream {
    pub(super) fn is_done(&self) -> bool {
        self.is_reset || (self.is_answered && self.is_sent)
    }
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

impl Peer {
    /// `initial`: what a stream may have on its way; none: as it is by default. The connection
    /// may have `raised` more.
    pub(super) async fn begin(world: &World, initial: Option<u32>, raised: u32) -> Self {
        let wire = Wire::open(world).await;
        let (reading, writing) = tokio::io::split(wire.tls);
        let mut peer = Self {
            reading,
            writing,
            came: Vec::new(),
            out: PREFACE.to_vec(),
            is_unflushed: false,
            write_bytes: usize::MAX,
            window: DEFAULT_WINDOW,
            initial: DEFAULT_WINDOW,
            largest: DEFAULT_FRAME,
            unacknowledged: VecDeque::new(),
            edges_window: DEFAULT_WINDOW,
            edges_initial: DEFAULT_WINDOW,
            debt: 0,
            streams: BTreeMap::new(),
            next: 1,
            pings: VecDeque::new(),
            pinged: 0,
            is_over: false,
            has_settings: false,
            is_closing: false,
        };
        peer.set(initial, None);
        if raised > 0 {
            peer.give(0, raised);
        }
        peer
    }

    /// SETTINGS; what is none is not said.
    pub(super) fn set(&mut self, initial: Option<u32>, largest: Option<u32>) {
        let mut list = Vec::new();
        let last = self.unacknowledged.back();
        let (mut window, mut frame_) = *last.unwrap_or(&(self.initial, self.largest));
        if let Some(initial) = initial {
            list.extend(setting(INITIAL_WINDOW_SIZE, initial));
            window = i64::from(initial);
        }
        if let Some(largest) = largest {
            list.extend(setting(MAX_FRAME_SIZE, largest));
            frame_ = largest as usize;
        }
        self.unacknowledged.push_back((window, frame_));
        self.out.extend(frame(SETTINGS, 0, 0, &list));
    }

    /// Gives room on a stream, or with 0 on the connection.
    pub(super) fn give(&mut self, stream: u32, bytes: u32) {
        match self.streams.get_mut(&stream) {
            Some(stream) => stream.given += i64::from(bytes),
            None => self.window += i64::from(bytes),
        }
        let bytes = bytes.to_be_bytes();
        self.out.extend(frame(WINDOW_UPDATE, 0, stream, &bytes));
    }

    /// Gives back at most so much of what came on a stream, or with 0 on the connection.
    pub(super) fn give_back(&mut self, stream: u32, most: usize) {
        let debt = match self.streams.get_mut(&stream) {
            Some(stream) => &mut stream.debt,
            None => &mut self.debt,
        };
        let back = most.min(*debt);
        *debt -= back;
        if back > 0 {
            self.give(stream, u32::try_from(back).unwrap());
        }
    }

    /// All of it, at once.
    pub(super) fn give_all_back(&mut self) {
        let owing: Vec<_> = (self.streams.iter())
            .filter(|(_, stream)| stream.debt > 0 && !stream.is_answered && !stream.is_reset)
            .map(|(number, _)| *number)
            .collect();
        for number in owing {
            self.give_back(number, usize::MAX);
        }
        self.give_back(0, usize::MAX);
    }

    /// A request's head.
    pub(super) fn ask(&mut self, want: Want) -> u32 {
        let number = self.next;
        self.next += 2;
        let head = format!(
            ":method=POST :scheme=https :path=/v1/messages :authority=edge.test \
             anthropic-version=2023-06-01 x-api-key={ALICE} {}",
            want.headers()
        );
        let head = frame(HEADERS, END_HEADERS, number, &block(&head));
        self.out.extend(head);
        let body = want.body();
        let stream = Stream {
            expected: want.answer(&body),
            want,
            got: 0,
            has_head: false,
            is_answered: false,
            is_reset: false,
            is_refused: false,
            given: 0,
            debt: 0,
            body,
            sent: 0,
            is_sent: false,
            edge_gave: 0,
        };
        self.streams.insert(number, stream);
        number
    }

    /// A request that is refused, for what is no matter of its own.
    pub(super) fn ask_refused(&mut self, want: Want) -> u32 {
        let number = self.ask(want);
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.is_refused = true;
        }
        self.send_on(number);
        number
    }

    /// A request's head that is refused: it says no version.
    pub(super) fn ask_badly(&mut self, want: Want) -> u32 {
        let at = self.out.len();
        let number = self.ask(want);
        self.out.truncate(at);
        let head = format!(
            ":method=POST :scheme=https :path=/v1/messages :authority=edge.test x-api-key={ALICE}"
        );
        let head = frame(HEADERS, END_HEADERS, number, &block(&head));
        self.out.extend(head);
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.is_refused = true;
        }
        number
    }

    /// Whether a refused request's answer has come, and its body has gone or is not wanted.
    pub(super) fn is_sent_or_refused(&self, number: u32) -> bool {
        let stream = &self.streams[&number];
        stream.is_answered && (stream.is_sent || stream.is_reset)
    }

    /// How much of a request's body may be sent now.
    pub(super) fn may_send(&self, number: u32) -> usize {
        let stream = &self.streams[&number];
        if stream.is_sent || stream.is_reset {
            return 0;
        }
        let window = (self.edges_initial + stream.edge_gave).min(self.edges_window);
        let left = stream.body.len() - stream.sent;
        left.min(usize::try_from(window).unwrap_or(0))
    }

    /// At most so much of a request's body, in one frame with so much padding besides, as far as
    /// windows go; with the end if that is all and `ends`.
    pub(super) fn send(&mut self, number: u32, most: usize, padding: Option<u8>, ends: bool) {
        let may = self.may_send(number).min(most).min(DEFAULT_FRAME);
        let besides = padding.map_or(0, |padding| 1 + usize::from(padding));
        let window = self
            .edges_window
            .min(self.edges_initial + self.streams[&number].edge_gave);
        let (padding, besides) = match usize::try_from(window) {
            Ok(window) if may + besides <= window.min(DEFAULT_FRAME) => (padding, besides),
            _ => (None, 0),
        };
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        let mut payload = Vec::with_capacity(may + besides);
        payload.extend(padding);
        payload.extend_from_slice(&stream.body[stream.sent..stream.sent + may]);
        payload.resize(may + besides, 0);
        stream.sent += may;
        stream.is_sent = ends && stream.sent == stream.body.len();
        let end = if stream.is_sent { END_STREAM } else { 0 };
        let flags = end | if padding.is_some() { PADDED } else { 0 };
        let length = i64::try_from(payload.len()).unwrap();
        stream.edge_gave -= length;
        self.edges_window -= length;
        self.out.extend(frame(DATA, flags, number, &payload));
    }

    /// All of the body that may be sent.
    pub(super) fn send_on(&mut self, number: u32) {
        while self.may_send(number) > 0 {
            self.send(number, usize::MAX, None, true);
        }
    }

    /// Trailers, if all of the body was sent and not its end.
    pub(super) fn send_trailers(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        if stream.sent == stream.body.len() && !stream.is_sent && !stream.is_reset {
            stream.is_sent = true;
            let flags = END_HEADERS | END_STREAM;
            self.out
                .extend(frame(HEADERS, flags, number, &block("x-late=1")));
        }
    }

    pub(super) fn reset(&mut self, number: u32, code: u32) {
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        stream.is_reset = true;
        self.out
            .extend(frame(RST_STREAM, 0, number, &code.to_be_bytes()));
    }

    pub(super) fn ping(&mut self) {
        self.pinged += 1;
        self.pings.push_back(self.pinged);
        let ping = frame(PING, 0, 0, &self.pinged.to_be_bytes());
        self.out.extend(ping);
    }

    /// What means nothing to a server of today.
    pub(super) fn noise(&mut self, dice: &Dice) {
        let stream = 1 + 2 * u32::try_from(dice.below(40)).unwrap();
        let noise = match dice.below(4) {
            0 => frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 7]),
            1 => frame(0x10, 0, 0, b"\0\0\0\x01u=2"),
            2 => frame(0xee, 0xff, stream, b"whatever"),
            _ => {
                let over = (self.streams.iter()).find(|(_, stream)| stream.is_done());
                over.map_or(Vec::new(), |(number, _)| {
                    frame(WINDOW_UPDATE, 0, *number, &[0, 0, 0, 9])
                })
            }
        };
        self.out.extend(noise);
    }

    pub(super) fn say_goodbye(&mut self) {
        self.is_closing = true;
        self.out.extend(frame(GOAWAY, 0, 0, &[0; 8]));
    }

    /// The edge may say that it takes no more requests.
    pub(super) fn may_close(&mut self) {
        self.is_closing = true;
    }

    /// Whether all pings have been answered.
    pub(super) fn is_ponged(&self) -> bool {
        self.pings.is_empty()
    }

    pub(super) fn is_acknowledged(&self) -> bool {
        self.unacknowledged.is_empty()
    }

    /// Writes what there is, and reads once; whether something came within `wait`.
    pub(super) async fn turn(&mut self, wait: Duration) -> bool {
        let end = Instant::now() + wait;
        while !self.is_over {
            let now = &self.out[..self.out.len().min(self.write_bytes)];
            let has_some = !now.is_empty();
            tokio::select! {
                biased;
                written = write_or_flush(&mut self.writing, now), if has_some || self.is_unflushed => {
                    let Ok(count) = written else {
                        self.is_over = true;
                        return true;
                    };
                    self.out.drain(..count);
                    self.is_unflushed = has_some;
                }
                count = self.reading.read_buf(&mut self.came) => {
                    self.is_over |= count.is_ok_and(|count| count == 0);
                    self.take_frames();
                    return true;
                }
                () = tokio::time::sleep_until(end) => return false,
            }
        }
        true
    }

    /// Goes on until it is so, doing `what` each time that something came.
    pub(super) async fn until(
        &mut self,
        why: &str,
        is_so: impl Fn(&Self) -> bool,
        mut what: impl FnMut(&mut Self),
    ) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(!self.is_over, "the connection has ended: {why}");
            let within = begun.elapsed() < Duration::from_secs(60);
            assert!(within, "not within a minute: {why}\n{}", self.books());
            what(self);
            self.turn(Duration::from_millis(20)).await;
        }
    }

    /// What comes when nothing is done: two pings go to and fro meanwhile.
    pub(super) async fn rest(&mut self) {
        for _ in 0..2 {
            self.ping();
            self.until("a pong", Self::is_ponged, |_| {}).await;
            self.turn(Duration::from_millis(30)).await;
        }
    }

    /// For who has to find out why it stands still.
    pub(super) fn books(&self) -> String {
        let mut books = format!(
            "may come: {} (debt {}), initial {} {:?}; may go: {}, initial {}; pings {:?}; unwritten {}\n",
            self.window,
            self.debt,
            self.initial,
            self.unacknowledged,
            self.edges_window,
            self.edges_initial,
            self.pings,
            self.out.len()
        );
        for (number, stream) in self.streams.iter().filter(|(_, one)| !one.is_done()) {
            books += &format!(
                "{number}: {:?}, head {}, got {} of {} (window {}, debt {}), sent {} of {} (window {}), end {}\n",
                stream.want,
                stream.has_head,
                stream.got,
                stream.expected.len(),
                self.initial + stream.given,
                stream.debt,
                stream.sent,
                stream.body.len(),
                self.edges_initial + stream.edge_gave,
                stream.is_sent
            );
        }
        books
    }

    fn take_frames(&mut self) {
        let came = std::mem::take(&mut self.came);
        let mut rest = &came[..];
        while let Some((head, behind)) = rest.split_first_chunk::<9>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let Some((payload, behind)) = behind.split_at_checked(length) else {
                break;
            };
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            self.take(head[3], head[4], stream, payload);
            rest = behind;
        }
        self.came = rest.to_vec();
    }

    fn take(&mut self, kind: u8, flags: u8, number: u32, payload: &[u8]) {
        let most = (self.unacknowledged.iter()).map(|(_, largest)| *largest);
        let most = most.max().unwrap_or(0).max(self.largest);
        assert!(payload.len() <= most, "a frame of {} bytes", payload.len());
        assert!(
            self.has_settings || kind == SETTINGS,
            "{kind} before SETTINGS"
        );
        match kind {
            DATA => self.take_data(flags, number, payload),
            HEADERS => {
                assert!(flags & END_HEADERS != 0, "a short head in one frame");
                let stream = self.streams.get_mut(&number).expect("a stream of ours");
                assert!(
                    !stream.has_head && !stream.is_answered,
                    "{number}: a second head"
                );
                stream.has_head = true;
                if flags & END_STREAM != 0 {
                    stream.answered(number);
                }
                if !stream.is_reset && !stream.is_refused {
                    assert_eq!(status(payload), 200, "{number}");
                }
            }
            RST_STREAM => {
                let stream = self.streams.get_mut(&number).expect("a stream of ours");
                // The answer came before the request's end (RFC 9113 section 8.1).
                let is_early = stream.is_answered && payload == [0; 4];
                assert!(
                    stream.is_reset || is_early,
                    "{number} is reset: {payload:?}"
                );
                stream.is_reset = true;
            }
            SETTINGS if flags & ACK != 0 => {
                let settled = self.unacknowledged.pop_front();
                (self.initial, self.largest) = settled.expect("settings to acknowledge");
            }
            SETTINGS => {
                self.has_settings = true;
                for setting in payload.as_chunks::<6>().0 {
                    let [a, b, value @ ..] = *setting;
                    if u16::from_be_bytes([a, b]) == INITIAL_WINDOW_SIZE {
                        self.edges_initial = i64::from(u32::from_be_bytes(value));
                    }
                }
                self.out.extend(frame(SETTINGS, ACK, 0, &[]));
            }
            PING if flags & ACK != 0 => {
                let sent = self.pings.pop_front().expect("a ping to answer");
                assert_eq!(payload, sent.to_be_bytes(), "pongs come in order");
            }
            PING => self.out.extend(frame(PING, ACK, 0, payload)),
            WINDOW_UPDATE => {
                let more = i64::from(u32::from_be_bytes(payload.try_into().unwrap()));
                assert!(more > 0, "an increment of nothing");
                let initial = self.edges_initial;
                let window = match self.streams.get_mut(&number) {
                    Some(stream) => {
                        stream.edge_gave += more;
                        initial + stream.edge_gave
                    }
                    None => {
                        assert_eq!(number, 0, "no stream of ours");
                        self.edges_window += more;
                        self.edges_window
                    }
                };
                assert!(window <= MOST_WINDOW, "{number} overflows");
            }
            GOAWAY if self.is_closing && payload[4..8] == [0; 4] => {}
            GOAWAY => panic!("GOAWAY: {payload:?}\n{}", self.books()),
            PUSH_PROMISE | PRIORITY | CONTINUATION => panic!("unasked: {kind}"),
            _ => {}
        }
    }

    fn take_data(&mut self, flags: u8, number: u32, payload: &[u8]) {
        let length = i64::try_from(payload.len()).unwrap();
        let coming = (self.unacknowledged.iter()).map(|(initial, _)| *initial);
        let initial = coming.max().unwrap_or(0).max(self.initial);
        self.window -= length;
        assert!(self.window >= 0, "more than the connection's window");
        self.debt += payload.len();
        let stream = self.streams.get_mut(&number).expect("a stream of ours");
        assert!(!stream.is_answered, "{number}: DATA behind its end");
        assert!(stream.has_head, "{number}: DATA before its head");
        let window = initial + stream.given;
        stream.given -= length;
        assert!(length <= window.max(0), "{number}: {length} of {window}");
        stream.debt += payload.len();
        let data = match flags & PADDED {
            0 => payload,
            _ => &payload[1..payload.len() - usize::from(payload[0])],
        };
        let expected = stream.expected.get(stream.got..stream.got + data.len());
        assert!(
            stream.is_refused || expected == Some(data),
            "{number}: other bytes at {}",
            stream.got
        );
        stream.got += data.len();
        if flags & END_STREAM != 0 {
            stream.answered(number);
        }
    }
}

/// Writes some of that, or sees to it that what was written leaves.
async fn write_or_flush<T: AsyncWrite + Unpin>(to: &mut T, bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() {
        to.flush().await.map(|()| 0)
    } else {
        to.write(bytes).await
    }
}

impl Stream {
    fn answered(&mut self, number: u32) {
        self.is_answered = true;
        let is_whole = self.is_refused || self.got == self.expected.len();
        assert!(
            is_whole,
            "{number}: {} of {}",
            self.got,
            self.expected.len()
        );
    }
}
