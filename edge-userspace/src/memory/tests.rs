use super::*;
use std::collections::HashSet;

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).unwrap()
}

/// Checked: a piece is not empty.
fn alloc(bytes: usize) -> *mut u8 {
    // SAFETY: it is not empty.
    let piece = unsafe { Allocator.alloc(layout(bytes)) };
    assert!(!piece.is_null());
    assert_eq!(piece as usize % STEP, 0);
    piece
}

fn free(piece: *mut u8, bytes: usize) {
    // SAFETY: tests free what they have, once.
    unsafe { Allocator.dealloc(piece, layout(bytes)) };
}

#[test]
fn a_size_holds_all_that_is_asked_of_it_and_wastes_less_than_a_step() {
    for asked in 1..=SIZES * STEP + MORE {
        let size = size_of(layout(asked)).unwrap();
        assert!(bytes(size) >= asked, "{asked}");
        assert!(size == 1 || bytes(size) < asked + STEP, "{asked}");
    }
    assert_eq!(size_of(layout(SIZES * STEP + MORE + 1)), None);
    let aligned = Layout::from_size_align(64, 64).unwrap();
    assert_eq!(size_of(aligned), None);
}

#[test]
fn who_keeps_takes_what_it_freed_and_others_do_not() {
    let piece = alloc(100);
    free(piece, 100);
    let keeping = Keeping::begin();
    assert_eq!(keeping.kept_bytes(), 0, "freed before");
    let pieces = [alloc(100), alloc(90), alloc(104)];
    for (piece, bytes) in pieces.into_iter().zip([100, 90, 104]) {
        free(piece, bytes);
    }
    assert_eq!(keeping.kept_bytes(), 3 * 104);
    // The last first; one that was freed elsewhere is not among them.
    let taken: Vec<_> = (0..3).map(|_| alloc(97)).collect();
    assert_eq!(taken, [pieces[2], pieces[1], pieces[0]]);
    assert_eq!(keeping.kept_bytes(), 0);
    for piece in taken {
        let address = piece as usize;
        std::thread::spawn(move || free(address as *mut u8, 97))
            .join()
            .unwrap();
    }
    assert_eq!(keeping.kept_bytes(), 0);
}

#[test]
fn no_more_is_kept_than_the_bounds_say() {
    let keeping = Keeping::begin();
    let pieces: Vec<_> = (0..MOST_OF_A_SIZE as usize + 10)
        .map(|_| alloc(40))
        .collect();
    assert_eq!(pieces.iter().collect::<HashSet<_>>().len(), pieces.len());
    for piece in pieces {
        free(piece, 40);
    }
    assert_eq!(keeping.kept_bytes(), 40 * MOST_OF_A_SIZE as usize);
    let asked = (1000..4000).step_by(STEP).flat_map(|bytes| [bytes; 8]);
    let pieces: Vec<_> = asked.map(|bytes| (alloc(bytes), bytes)).collect();
    let mut most = 0;
    for (piece, bytes) in pieces {
        free(piece, bytes);
        most = keeping.kept_bytes().max(most);
    }
    assert!(
        most <= MOST_KEPT_BYTES && most > MOST_KEPT_BYTES / 2,
        "{most}"
    );
    drop(keeping);
    assert_eq!(Keeping::begin().kept_bytes(), 0, "all of it was given back");
}

#[test]
fn what_lies_in_a_piece_goes_along_when_it_grows_and_shrinks() {
    let _keeping = Keeping::begin();
    let content: Vec<u8> = (0..10_000_u32).map(|at| at as u8).collect();
    let mut bytes = 1;
    let mut piece = alloc(bytes);
    for new_bytes in [20, 24, 25, 4000, 5000, 10_000, 4104, 4105, 4104, 30, 3] {
        // SAFETY: it has so many bytes.
        unsafe { ptr::copy_nonoverlapping(content.as_ptr(), piece, bytes) };
        // SAFETY: it is ours, of that layout.
        piece = unsafe { Allocator.realloc(piece, layout(bytes), new_bytes) };
        let kept = bytes.min(new_bytes);
        // SAFETY: it has so many bytes, all of which were written.
        let moved = unsafe { std::slice::from_raw_parts(piece, kept) };
        assert_eq!(moved, &content[..kept], "{bytes} to {new_bytes}");
        bytes = new_bytes;
    }
    free(piece, bytes);
}

#[test]
fn what_is_to_be_zero_is_zero() {
    let _keeping = Keeping::begin();
    let piece = alloc(64);
    // SAFETY: it has so many bytes.
    unsafe { piece.write_bytes(7, 64) };
    free(piece, 64);
    // SAFETY: it is not empty.
    let again = unsafe { Allocator.alloc_zeroed(layout(60)) };
    assert_eq!(again, piece);
    // SAFETY: it has so many bytes, all of which were written.
    let content = unsafe { std::slice::from_raw_parts(again, 60) };
    assert_eq!(content, [0; 60]);
    free(again, 60);
}
