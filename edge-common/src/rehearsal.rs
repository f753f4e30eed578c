//! What the benches tell the program that runs a frame again and again as if it were new.
//!
//! `BPF_PROG_TEST_RUN` repeats a run on the frame that the run before has left. Here is
//! what puts the frame back, from a connection of its own each time, before the program
//! that is to be timed.

/// The longest frame, bytes.
pub const FRAME_BYTES: usize = 2048;
/// The most connections; a power of two.
pub const CONNECTIONS: usize = 256;
/// As many sets of the flow table as can be emptied before each run.
pub const FORGETTING_SETS: u32 = 16;

/// Frames in turn, each turn from the next of a row of client ports.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Rehearsal {
    /// Runs so far.
    pub runs: u32,
    /// Connections less one; a power of two less one, at most [`CONNECTIONS`] less one.
    pub ports_mask: u32,
    /// The first client port, host byte order.
    pub first_port: u32,
    /// 1 or 2 frames a connection.
    pub frames: u32,
    /// 1: the frame goes to the edge's program; 0: it passes, which is what all this costs
    /// by itself.
    pub is_on: u32,
    /// By how much the frame is cut before it passes, as an answer would cut it, bytes.
    pub cut_bytes: u32,
    /// The frames' lengths, bytes.
    pub lengths: [u32; 2],
    /// How far behind the connection's first byte each frame's payload begins, bytes.
    pub offsets: [u32; 2],
    /// 1: the flow table, which must be of [`FORGETTING_SETS`] sets, is emptied before each run.
    pub is_forgetting: u32,
    /// Always 0.
    pub padding: u32,
    /// What each connection expects next, host byte order.
    pub sequences: [u32; CONNECTIONS],
    /// Ethernet, IPv4 without options, TCP.
    pub bytes: [[u8; FRAME_BYTES]; 2],
}

impl Rehearsal {
    /// Nothing to run.
    pub const NONE: Self = Self {
        runs: 0,
        ports_mask: 0,
        first_port: 0,
        frames: 0,
        is_on: 0,
        cut_bytes: 0,
        lengths: [0; 2],
        offsets: [0; 2],
        is_forgetting: 0,
        padding: 0,
        sequences: [0; CONNECTIONS],
        bytes: [[0; FRAME_BYTES]; 2],
    };
}

const _: () = assert!(size_of::<Rehearsal>() == 48 + 4 * CONNECTIONS + 2 * FRAME_BYTES);
