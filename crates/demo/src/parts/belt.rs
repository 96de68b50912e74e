//! The conveyor belt that the camera looks at, and what can be found in a picture of it. Plain: the
//! number of a frame decides all of it. Called by the camera, which has [`frame`], and the detector,
//! which has [`find`].

pub(super) const WIDTH: usize = 64;
pub(super) const HEIGHT: usize = 24;

/// How far the belt moves between two frames.
const STEP: usize = 3;
/// From one piece to the next.
const GAP: usize = 16;
/// The side of a piece.
const SIDE: usize = 9;
/// The side of the hole in one that is faulty.
const HOLE: usize = 3;
/// A piece is counted in the frame in which its left edge passes here.
const GATE: usize = 24;
/// Whatever is brighter is a piece.
const BRIGHT: u8 = 128;
/// One of so many pieces is faulty.
const FAULTY_ONE_IN: u64 = 6;

/// What was found at the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) good: u64,
    pub(super) faulty: u64,
}

/// The picture with this number: grey pixels, row by row.
pub(super) fn frame(number: u64) -> Vec<u8> {
    // The belt repeats itself after a while that nobody waits for.
    let moved = usize::try_from(number % (1 << 32)).unwrap_or(0) * STEP;
    let mut pixels: Vec<u8> = (0..WIDTH * HEIGHT)
        .map(|index| u8::try_from(scramble(number ^ index as u64) % 60).unwrap_or(0))
        .collect();
    for piece in moved.saturating_sub(WIDTH) / GAP..=moved / GAP {
        draw(&mut pixels, piece, moved.checked_sub(piece * GAP + SIDE));
    }
    pixels
}

/// Draws a piece whose left edge is there, if that is in the picture.
fn draw(pixels: &mut [u8], piece: usize, left: Option<usize>) {
    let Some(left) = left else { return };
    let top = (HEIGHT - SIDE) / 2;
    let hole = (SIDE - HOLE) / 2..(SIDE + HOLE) / 2;
    for (x, y) in (0..SIDE).flat_map(|x| (0..SIDE).map(move |y| (x, y))) {
        let missing = is_faulty(piece) && hole.contains(&x) && hole.contains(&y);
        if left + x < WIDTH && !missing {
            pixels[(top + y) * WIDTH + left + x] = 210;
        }
    }
}

fn is_faulty(piece: usize) -> bool {
    scramble(piece as u64).is_multiple_of(FAULTY_ONE_IN)
}

/// Looks for pieces that pass the gate in this very picture, and at whether they are whole.
pub(super) fn find(pixels: &[u8]) -> Found {
    let mut found = Found::default();
    let mut seen = vec![false; pixels.len()];
    for start in 0..pixels.len().min(WIDTH * HEIGHT) {
        if pixels[start] <= BRIGHT || seen[start] {
            continue;
        }
        let piece = spread(pixels, &mut seen, start);
        // One that is cut off by the edge of the picture cannot be judged, and is not at the gate.
        if !(GATE..GATE + STEP).contains(&piece.left) {
            continue;
        }
        match piece.area == (piece.right - piece.left + 1) * (piece.bottom - piece.top + 1) {
            true => found.good += 1,
            false => found.faulty += 1,
        }
    }
    found
}

/// Bright pixels that touch each other, and the frame around them.
#[derive(Debug)]
struct Patch {
    left: usize,
    right: usize,
    top: usize,
    bottom: usize,
    area: usize,
}

fn spread(pixels: &[u8], seen: &mut [bool], start: usize) -> Patch {
    let (x, y) = (start % WIDTH, start / WIDTH);
    let mut patch = Patch { left: x, right: x, top: y, bottom: y, area: 0 };
    let mut open = vec![start];
    seen[start] = true;
    while let Some(index) = open.pop() {
        let (x, y) = (index % WIDTH, index / WIDTH);
        patch.left = patch.left.min(x);
        patch.right = patch.right.max(x);
        patch.top = patch.top.min(y);
        patch.bottom = patch.bottom.max(y);
        patch.area += 1;
        let sideways = [(x > 0).then(|| index - 1), (x + 1 < WIDTH).then(|| index + 1)];
        let upwards = [index.checked_sub(WIDTH), Some(index + WIDTH)];
        for next in sideways.into_iter().chain(upwards).flatten() {
            if pixels.get(next).is_some_and(|pixel| *pixel > BRIGHT) && !seen[next] {
                seen[next] = true;
                open.push(next);
            }
        }
    }
    patch
}

/// Looks random and is not: the finishing steps of SplitMix64.
fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_counted_once_and_faults_are_seen() {
        let frames = 16_000;
        let mut all = Found::default();
        for number in 0..frames {
            let found = find(&frame(number));
            all = Found { good: all.good + found.good, faulty: all.faulty + found.faulty };
        }
        // Those whose left edge has passed the gate by the last frame.
        let moved = usize::try_from(frames - 1).unwrap() * STEP;
        let passed = (moved - SIDE - GATE) / GAP + 1;
        let faulty = (0..passed).filter(|piece| is_faulty(*piece)).count();
        assert_eq!(all.faulty, faulty as u64);
        assert_eq!(all.good, (passed - faulty) as u64);
        assert!(faulty > passed / 10, "there is something to find");
    }

    #[test]
    fn pictures_of_any_size_are_looked_at() {
        for size in [0, 1, WIDTH, WIDTH * HEIGHT * 2] {
            find(&vec![255; size]);
            find(&vec![0; size]);
        }
    }
}
