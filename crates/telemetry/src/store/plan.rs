//! What is to be done with samples that grow old: when the head is cut, which blocks become one, which go.
//! Plain functions of times and sizes; the keeper carries them out.

use tombolo_series::Span;

/// What a block covers at least.
pub(super) const BLOCK_MS: i64 = 2 * 3600 * 1000;

/// How many blocks one cut makes at most: whoever writes a year of history at once gets larger ones.
const WINDOWS_MAX: i64 = 12;

/// A merged block is not larger than this, which is what merging takes in memory, twice.
const MERGED_BYTES_MAX: u64 = 64 << 20;

/// No block covers more: what is to be forgotten is forgotten a block at a time.
const MERGED_MS_MAX: i64 = 31 * 24 * 3600 * 1000;

/// The windows into which the head is cut now; none while it holds less than an hour more than a block.
/// The youngest hour stays, so that what is late finds its series.
pub(super) fn cut(head: Span) -> Vec<Span> {
    if head.to_ms.saturating_sub(head.from_ms) < BLOCK_MS + BLOCK_MS / 2 {
        return Vec::new();
    }
    let end = head.to_ms.saturating_sub(BLOCK_MS / 2).div_euclid(BLOCK_MS) * BLOCK_MS;
    let mut from = head.from_ms.div_euclid(BLOCK_MS) * BLOCK_MS;
    let count = (end - from) / BLOCK_MS;
    let step = BLOCK_MS * ((count + WINDOWS_MAX - 1) / WINDOWS_MAX).max(1);
    let mut windows = Vec::new();
    while from < end {
        let to = (from.div_euclid(step) * step + step).min(end);
        windows.push(Span::new(from, to - 1));
        from = to;
    }
    windows
}

/// A block as far as plans are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) span: Span,
    pub(super) bytes: u64,
}

/// Which blocks become one next, by their places; blocks are in the order of time. The youngest window of a
/// size stays as it is: more may come for it.
pub(super) fn merge(blocks: &[Held], retention_ms: i64) -> Option<Vec<usize>> {
    let newest = blocks.iter().map(|block| block.span.to_ms).max()?;
    let most = MERGED_MS_MAX.min(retention_ms / 10).max(BLOCK_MS);
    let mut size = BLOCK_MS;
    while size <= most {
        let mut at = 0;
        while at < blocks.len() {
            let window = blocks[at].span.from_ms.div_euclid(size);
            let within = |block: &Held| {
                let Span { from_ms, to_ms } = block.span;
                from_ms.div_euclid(size) == window && to_ms.div_euclid(size) == window
            };
            let group: Vec<usize> = (at..blocks.len())
                .take_while(|place| blocks[*place].span.from_ms.div_euclid(size) == window)
                .filter(|place| within(&blocks[*place]))
                .collect();
            let bytes: u64 = group.iter().map(|place| blocks[*place].bytes).sum();
            let over = window.saturating_add(1).saturating_mul(size) <= newest;
            if group.len() > 1 && over && bytes <= MERGED_BYTES_MAX {
                return Some(group);
            }
            at += 1;
        }
        size = size.saturating_mul(3);
    }
    None
}

/// Which blocks are forgotten, the oldest first: those that ended so long before the newest sample, and
/// then as many as are too much for the disk.
pub(super) fn forget(
    blocks: &[Held],
    newest_ms: i64,
    retention_ms: i64,
    other_bytes: u64,
    bytes_max: u64,
) -> Vec<usize> {
    let mut left = other_bytes + blocks.iter().map(|block| block.bytes).sum::<u64>();
    let mut oldest: Vec<usize> = (0..blocks.len()).collect();
    oldest.sort_by_key(|place| blocks[*place].span.to_ms);
    let goes = |place: &usize| {
        let block = &blocks[*place];
        let goes = block.span.to_ms < newest_ms.saturating_sub(retention_ms) || left > bytes_max;
        left -= if goes { block.bytes } else { 0 };
        goes
    };
    oldest.into_iter().filter(goes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600 * 1000;

    fn hours(spans: &[Span]) -> Vec<(i64, i64)> {
        spans.iter().map(|span| (span.from_ms / HOUR, (span.to_ms + 1) / HOUR)).collect()
    }

    #[test]
    fn the_head_is_cut_at_even_hours_and_its_last_hour_stays() {
        assert_eq!(cut(Span::new(0, 3 * HOUR - 1)), []);
        assert_eq!(hours(&cut(Span::new(0, 3 * HOUR))), [(0, 2)]);
        assert_eq!(hours(&cut(Span::new(HOUR, 5 * HOUR))), [(0, 2), (2, 4)]);
        let year = cut(Span::new(0, 365 * 24 * HOUR));
        assert!(year.len() <= 13, "{}", year.len());
        assert!(year.windows(2).all(|two| two[0].to_ms + 1 == two[1].from_ms));
    }

    fn block(from: i64, to: i64, bytes: u64) -> Held {
        Held { span: Span::new(from * HOUR, to * HOUR - 1), bytes }
    }

    #[test]
    fn three_blocks_become_one_when_their_window_is_over() {
        let year = 365 * 24 * HOUR;
        let mut blocks = vec![block(0, 2, 1), block(2, 4, 1), block(4, 6, 1)];
        assert_eq!(merge(&blocks, year), None, "more may come");
        blocks.push(block(6, 8, 1));
        assert_eq!(merge(&blocks, year), Some(vec![0, 1, 2]));
        assert_eq!(merge(&[block(0, 6, 1), block(6, 8, 1)], year), None);
        assert_eq!(
            merge(&[block(0, 2, 1), block(0, 2, 1), block(2, 4, 1)], year),
            Some(vec![0, 1])
        );
        blocks[1].bytes = MERGED_BYTES_MAX;
        assert_eq!(merge(&blocks, year), None, "it would be too large");
        assert_eq!(merge(&blocks, 20 * HOUR), None, "what is soon forgotten stays apart");
    }

    #[test]
    fn merging_comes_to_an_end() {
        let mut blocks: Vec<Held> = (0..200).map(|n| block(n * 2, n * 2 + 2, 1000)).collect();
        let mut steps = 0;
        while let Some(group) = merge(&blocks, 365 * 24 * HOUR) {
            let of = |pick: fn(&Held) -> i64| group.iter().map(|at| pick(&blocks[*at])).collect();
            let (from, to): (Vec<i64>, Vec<i64>) = (of(|b| b.span.from_ms), of(|b| b.span.to_ms));
            let span = Span::new(*from.iter().min().unwrap(), *to.iter().max().unwrap());
            let bytes = group.iter().map(|at| blocks[*at].bytes).sum();
            let mut number = 0;
            blocks.retain(|_| {
                number += 1;
                !group.contains(&(number - 1))
            });
            blocks.push(Held { span, bytes });
            blocks.sort_by_key(|block| block.span.from_ms);
            steps += 1;
            assert!(steps < 200);
        }
        assert!(blocks.len() < 15, "{}", blocks.len());
    }

    #[test]
    fn what_is_old_goes_and_then_what_is_too_much() {
        let blocks = [block(0, 2, 10), block(2, 4, 10), block(4, 6, 10)];
        let newest = 6 * HOUR - 1;
        assert_eq!(forget(&blocks, newest, 100 * HOUR, 5, 100), [0_usize; 0]);
        assert_eq!(forget(&blocks, newest, 3 * HOUR, 5, 100), [0]);
        assert_eq!(forget(&blocks, newest, 100 * HOUR, 5, 20), [0, 1]);
    }
}
