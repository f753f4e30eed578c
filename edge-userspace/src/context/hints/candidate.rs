//! One opening that may come again, and how often so much of it did.

/// Of an opening so much is kept and told at most, bytes.
pub const MOST_BYTES: usize = 64;
/// How often answers agree is counted at these lengths, bytes. A prediction is what those that
/// agreed so far all had in common, which is more as a rule.
const CUTS: [u8; 6] = [2, 4, 8, 16, 32, MOST_BYTES as u8];
/// Answers before anything is believed.
const ENOUGH: u16 = 8;
/// Counts are halved at this many answers, so that what is new outweighs what is old.
const MOST_SEEN: u16 = 64;
/// So many of a hundred answers must have begun with it.
const SURE_PERCENT: u32 = 95;

/// The beginning of an answer: whole characters of UTF-8, [`MOST_BYTES`] at most.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text {
    bytes: [u8; MOST_BYTES],
    length: u8,
}

impl Text {
    fn new(bytes: &[u8]) -> Self {
        let mut text = Self {
            bytes: [0; MOST_BYTES],
            length: 0,
        };
        let taken = bytes.len().min(MOST_BYTES);
        let whole = match std::str::from_utf8(&bytes[..taken]) {
            Ok(_) => taken,
            Err(error) => error.valid_up_to(),
        };
        text.bytes[..whole].copy_from_slice(&bytes[..whole]);
        text.length = whole as u8;
        text
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()).ok()
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl std::fmt::Debug for Text {
    /// What a model said to somebody belongs in no log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.length)
    }
}

/// An opening and its record.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    text: Text,
    /// Answers since it is the candidate.
    seen: u16,
    /// Of these, those that began with so much of it.
    agreed: [u16; CUTS.len()],
    /// How much of it all of those had in common, now and before the counts were halved.
    common: [[u8; CUTS.len()]; 2],
}

impl Candidate {
    /// With one answer seen.
    pub(super) fn new(opening: &[u8]) -> Self {
        let text = Text::new(opening);
        let agreed = CUTS.map(|cut| u16::from(cut <= text.length));
        Self {
            text,
            seen: 1,
            agreed,
            common: [[text.length; CUTS.len()]; 2],
        }
    }

    /// Notes how one more answer began.
    pub(super) fn note(&mut self, opening: &[u8]) {
        let common = common(self.text.as_bytes(), opening);
        if self.seen == MOST_SEEN {
            self.seen /= 2;
            self.agreed.iter_mut().for_each(|agreed| *agreed /= 2);
            self.common = [[self.text.length; CUTS.len()], self.common[0]];
        }
        self.seen += 1;
        let so_far = self.agreed.iter_mut().zip(&mut self.common[0]);
        for ((agreed, shortest), cut) in so_far.zip(&CUTS) {
            if common < usize::from(*cut) {
                break;
            }
            *agreed += 1;
            *shortest = (*shortest).min(common as u8);
        }
        // Another one may do better than one that is right less than every other time.
        if common < usize::from(CUTS[0]) && self.agreed[0] * 2 < self.seen {
            *self = Self::new(opening);
        }
    }

    /// `None`: not seen often enough to say anything. Inside: what the answer will begin with,
    /// if that is sure.
    pub(super) fn predict(&self) -> Option<Option<Text>> {
        if self.seen < ENOUGH {
            return None;
        }
        let longest = (self.agreed.iter())
            .rposition(|agreed| u32::from(*agreed) * 100 >= u32::from(self.seen) * SURE_PERCENT);
        let text = longest.map(|at| {
            let common = self.common[0][at].min(self.common[1][at]);
            Text::new(&self.text.as_bytes()[..usize::from(common)])
        });
        // White space alone is nothing to show.
        Some(text.filter(|text| text.as_str().is_some_and(|text| !text.trim().is_empty())))
    }
}

/// How many bytes two texts begin with alike.
fn common(one: &[u8], other: &[u8]) -> usize {
    let (words, _) = one.as_chunks::<8>();
    let (others, _) = other.as_chunks::<8>();
    let mut alike = 0;
    for (word, other) in words.iter().zip(others) {
        let differ = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other);
        if differ != 0 {
            return alike + differ.trailing_zeros() as usize / 8;
        }
        alike += 8;
    }
    let rest = one[alike..].iter().zip(&other[alike..]);
    alike + rest.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(openings: &[&str]) -> Option<Option<Text>> {
        let (first, rest) = openings.split_first().unwrap();
        let mut candidate = Candidate::new(first.as_bytes());
        rest.iter()
            .for_each(|opening| candidate.note(opening.as_bytes()));
        candidate.predict()
    }

    fn text(predicted: Option<Option<Text>>) -> Option<String> {
        predicted
            .flatten()
            .map(|text| text.as_str().unwrap().to_owned())
    }

    #[test]
    fn what_two_begin_with_alike_is_counted_by_the_byte() {
        let text: Vec<u8> = (0..40).collect();
        for length in 0..=text.len() {
            for other in 0..=text.len() {
                assert_eq!(common(&text[..length], &text[..other]), length.min(other));
            }
            let mut other = text.clone();
            for at in 0..length {
                other[at] ^= 0x80;
                assert_eq!(common(&text[..length], &other), at);
                other[at] ^= 0x80;
            }
        }
    }

    #[test]
    fn what_all_have_in_common_is_predicted_once_it_was_seen_often_enough() {
        let answers = ["```python\ndef a", "```python\nimport os", "```python\nx"];
        let many: Vec<_> = answers.into_iter().cycle().take(8).collect();
        assert!(after(&many[..7]).is_none());
        assert_eq!(text(after(&many)).as_deref(), Some("```python\n"));
    }

    #[test]
    fn a_new_habit_takes_the_place_of_an_old_one() {
        let mut answers = vec!["First, let us look"; 80];
        answers.extend(["{\"name\": 1}"; 100]);
        assert_eq!(text(after(&answers)).as_deref(), Some("{\"name\": 1}"));
    }

    #[test]
    fn what_was_in_common_long_ago_is_forgotten() {
        let mut answers = vec!["```python3\nx"; 1];
        answers.extend(["```python\ny"; 40]);
        assert_eq!(text(after(&answers)).as_deref(), Some("```python"));
        // The candidate's own text still says another tenth byte.
        answers.extend(["```python3\nz"; 200]);
        assert_eq!(text(after(&answers)).as_deref(), Some("```python3\n"));
    }

    #[test]
    fn what_differs_each_time_is_never_predicted() {
        let answers: Vec<_> = (0..300)
            .map(|n| format!("{:x}", n * 7_919 % 65_537))
            .collect();
        for upto in 8..answers.len() {
            let answers: Vec<_> = answers[..upto].iter().map(String::as_str).collect();
            assert_eq!(text(after(&answers)), None);
        }
    }

    #[test]
    fn characters_stay_whole_and_white_space_is_nothing() {
        assert_eq!(
            text(after(&["首先，我们来看一下"; 8])).as_deref(),
            Some("首先，我们来看一下")
        );
        assert_eq!(after(&["  \n\n"; 8]).unwrap(), None);
        let half = ["首先，a", "首先，我", "首先，我", "首先，成"].repeat(20);
        assert_eq!(text(after(&half)).as_deref(), Some("首先，"));
        assert_eq!(text(after(&["Yes"; 8])).as_deref(), Some("Yes"));
        assert_eq!(text(after(&["1"; 80])), None, "shorter than any part");
    }
}
