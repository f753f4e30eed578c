//! A table of a vocabulary: words that are written ahead and only read when counting.

/// Aligned to a cache line at least; an embedded one to a page.
pub(super) enum Section {
    /// Lies in the program.
    Embedded(&'static [u8]),
    /// Made when the vocabulary was loaded; the table starts where a cache line does.
    Loaded { words: Vec<u64>, start: usize },
}

const LINE_BYTES: usize = 64;

impl Section {
    pub(super) fn loaded(table: &[u64]) -> Self {
        let spare = LINE_BYTES / size_of::<u64>();
        let mut words: Vec<u64> = Vec::with_capacity(table.len() + spare);
        let start = words.as_ptr().align_offset(LINE_BYTES).min(spare);
        words.resize(start, 0);
        words.extend_from_slice(table);
        Self::Loaded { words, start }
    }

    pub(super) fn words(&self) -> &[u64] {
        match self {
            Self::Embedded(bytes) => bytemuck::cast_slice(bytes),
            Self::Loaded { words, start } => &words[*start..],
        }
    }

    /// What it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.words())
    }
}

/// Of which the first byte lies where a page starts.
#[repr(C, align(4096))]
pub(super) struct Page<T: ?Sized>(pub(super) T);

#[cfg(target_endian = "big")]
compile_error!("the tables of the embedded vocabularies are little-endian words");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_and_aligned() {
        for length in [0, 1, 7, 8, 9, 1000] {
            let table: Vec<u64> = (0..length).collect();
            let section = Section::loaded(&table);
            assert_eq!(section.words(), table);
            assert_eq!(section.words().as_ptr().align_offset(LINE_BYTES), 0);
            assert_eq!(section.bytes(), table.len() * 8);
        }
        static PAGE: &Page<[u8]> = &Page([1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Section::Embedded(&PAGE.0).words(), [1, 2]);
        assert_eq!(PAGE.0.as_ptr().align_offset(4096), 0);
    }
}
