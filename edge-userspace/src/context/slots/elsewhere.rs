//! Where the other slots are that belong to a place: up to four, in one word of it.
//!
//! A prefix has one place in its set, its home. What is there already moves to another place
//! when a newer one comes, and the home says where to: so a look-up reads the home, and one
//! more line at most.

/// How many can be elsewhere.
pub(super) const MOST: usize = 4;

const LANE: u64 = 0x0001_0001_0001_0001;
const TAGS: u64 = 0xfff0 * LANE;

/// Four lanes of 16 bits: twelve of the fingerprint, by which the right one is found, and the
/// distance (exclusive or) of its place from home. 0: nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Elsewhere(pub(super) u64);

impl Elsewhere {
    pub(super) const NOTHING: Self = Self(0);

    /// The distance of the only one with this tag.
    #[inline]
    pub(super) fn find(self, tag: u16) -> Option<usize> {
        // A lane is 0 where the tags agree; the lowest that is found so surely is
        // (Warren, Hacker's Delight, 6-1).
        let differ = (self.0 ^ (u64::from(tag) << 4).wrapping_mul(LANE)) & TAGS;
        let zero = differ.wrapping_sub(LANE << 4) & !differ & (0x8000 * LANE);
        let lane = zero.trailing_zeros() / 16 * 16;
        (zero != 0).then(|| (self.0 >> (lane & 48)) as usize & 15)
    }

    /// With one more. None: there is no room.
    pub(super) fn with(self, tag: u16, distance: usize) -> Option<Self> {
        let lane = (0..MOST).find(|lane| self.lane(*lane) == 0)?;
        let new = u64::from(tag) << 4 | distance as u64;
        Some(Self(self.0 | new << (16 * lane)))
    }

    /// Without the one at this distance.
    pub(super) fn without(self, distance: usize) -> Self {
        self.replace(distance, |_| 0)
    }

    /// The one at the one distance is at the other now.
    pub(super) fn moved(self, from: usize, to: usize) -> Self {
        self.replace(from, |lane| lane & 0xfff0 | to as u64)
    }

    /// All distances.
    pub(super) fn distances(self) -> impl Iterator<Item = usize> {
        (0..MOST)
            .map(move |lane| self.lane(lane) as usize & 15)
            .filter(|distance| *distance != 0)
    }

    fn replace(self, distance: usize, by: impl Fn(u64) -> u64) -> Self {
        let mut lanes = self.0;
        for lane in 0..MOST {
            let old = self.lane(lane);
            if old & 15 == distance as u64 {
                lanes ^= (old ^ by(old)) << (16 * lane);
            }
        }
        Self(lanes)
    }

    fn lane(self, lane: usize) -> u64 {
        self.0 >> (16 * lane) & 0xffff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_are_found_by_their_tags_and_by_no_other() {
        let tags = [1, 0xfff, 0x800, 0x7ff];
        let mut elsewhere = Elsewhere::NOTHING;
        for (place, tag) in tags.iter().enumerate() {
            assert_eq!(elsewhere.find(*tag), None);
            elsewhere = elsewhere.with(*tag, 15 - place).unwrap();
        }
        assert_eq!(elsewhere.with(5, 3), None);
        for tag in 1..=0xfff {
            let place = tags.iter().position(|of| *of == tag);
            assert_eq!(elsewhere.find(tag), place.map(|place| 15 - place), "{tag}");
        }
        let moved = elsewhere.moved(14, 3);
        assert_eq!(moved.find(0xfff), Some(3));
        assert_eq!(moved.distances().collect::<Vec<_>>(), [15, 3, 13, 12]);
        let three = moved.without(3);
        assert_eq!(three.find(0xfff), None);
        assert_eq!(three.with(0xfff, 14), Some(elsewhere));
    }
}
