//! Frames that are not in the data: around captured hellos, and changed at random.

use std::path::Path;

/// Below this a frame lies in one buffer: a page less the kernel's room around it.
pub(crate) const ONE_BUFFER: usize = 3400;

/// The hellos of real clients, which edge-common keeps, by name.
pub(crate) fn captured_hellos() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../edge-common/tests/hellos");
    let mut hellos: Vec<_> = (folder.read_dir().unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "hex"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let digits: String = text.lines().filter(|line| !line.starts_with('#')).collect();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, hex::decode(digits).unwrap())
        })
        .collect();
    hellos.sort();
    assert!(hellos.len() >= 20);
    hellos
}

/// A client's segment over IPv4, checksums left to offload.
pub(crate) fn ipv4(payload: &[u8]) -> Vec<u8> {
    let total = (40 + payload.len() as u16).to_be_bytes();
    let mut frame = [&[2; 6][..], &[4; 6], &[8, 0, 0x45, 0], &total].concat();
    frame.extend([0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    tcp(frame, payload)
}

/// The same over IPv6.
pub(crate) fn ipv6(payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len() as u16).to_be_bytes();
    let mut frame = [&[2; 6][..], &[4; 6], &[0x86, 0xdd, 0x60, 0, 0, 0], &length].concat();
    frame.extend([6, 64]);
    frame.extend([&[0xfd; 15][..], &[1], &[0xfd; 15], &[2]].concat());
    tcp(frame, payload)
}

fn tcp(mut frame: Vec<u8>, payload: &[u8]) -> Vec<u8> {
    frame.extend([
        0xc3, 0x50, 1, 0xbb, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0,
    ]);
    frame.extend(payload);
    frame
}

/// SplitMix64: a seed gives the same frames everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// One change: of a byte, a bit, the length; half of them within the headers.
    pub(crate) fn change(&mut self, frame: &mut Vec<u8>) {
        if frame.is_empty() {
            return;
        }
        let reach = if self.below(2) == 0 {
            frame.len().min(80)
        } else {
            frame.len()
        };
        let at = self.below(reach);
        match self.below(8) {
            0 | 1 => frame[at] = self.next() as u8,
            2 | 3 => frame[at] ^= 1 << self.below(8),
            4 => frame[at] = *self.of(&[0, 1, 0x7f, 0x80, 0xff]),
            5 => frame.insert(at, self.next() as u8),
            6 => drop(frame.remove(at)),
            _ => frame.truncate(self.below(frame.len() + 1)),
        }
    }
}
