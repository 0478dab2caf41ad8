//! The numbers that decide everything in a world, and a function that makes a list of them shorter.

use std::time::{Duration, Instant};

/// Numbers from a seed, or from a list and then zeros. Zero is always the quiet choice: the same
/// actor goes on, and no call fails.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    source: Source,
    /// The numbers that were taken.
    taken: Vec<u32>,
}

#[derive(Clone, Debug)]
enum Source {
    Seed(u64),
    List(Vec<u32>),
}

impl Choices {
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mixed = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self {
            source: Source::Seed(mixed | 1),
            taken: Vec::new(),
        }
    }

    pub(crate) fn of_list(list: &[u32]) -> Self {
        Self {
            source: Source::List(list.to_vec()),
            taken: Vec::new(),
        }
    }

    /// A number below `count`.
    pub(crate) fn next(&mut self, count: usize) -> usize {
        let number = match &mut self.source {
            Source::Seed(state) => {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                (*state >> 11) % count as u64
            }
            Source::List(list) => {
                let number = list.get(self.taken.len()).copied().unwrap_or(0);
                u64::from(number) % count as u64
            }
        };
        let number = usize::try_from(number).unwrap();
        self.taken.push(u32::try_from(number).unwrap());
        number
    }

    pub(crate) fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.next(values.len())]
    }

    /// True in one of `count` cases.
    pub(crate) fn rarely(&mut self, count: usize) -> bool {
        self.next(count) == 1
    }

    pub(crate) fn into_taken(self) -> Vec<u32> {
        self.taken
    }
}

/// A simpler list that fails, too. Fewer numbers are best, then more zeros, then smaller numbers.
pub(crate) fn shrink(
    failing: &[u32],
    time: Duration,
    mut fails: impl FnMut(&[u32]) -> bool,
) -> Vec<u32> {
    let until = Instant::now() + time;
    let mut best = trimmed(failing.to_vec());
    loop {
        let before = best.clone();
        let mut size = best.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < best.len() {
                if Instant::now() > until {
                    return best;
                }
                let end = (at + size).min(best.len());
                let cut = [&best[..at], &best[end..]].concat();
                let mut zeros = best.clone();
                zeros[at..end].fill(0);
                let mut less = best.clone();
                less[at..end].iter_mut().for_each(|it| *it /= 2);
                let candidates = [cut, zeros, less].map(trimmed);
                let found = candidates
                    .into_iter()
                    .find(|it| cost(it) < cost(&best) && fails(it));
                match found {
                    Some(found) => best = found,
                    None => at = end,
                }
            }
            size /= 2;
        }
        if best == before {
            return best;
        }
    }
}

fn trimmed(mut list: Vec<u32>) -> Vec<u32> {
    while list.last() == Some(&0) {
        list.pop();
    }
    list
}

fn cost(list: &[u32]) -> (usize, usize, u64) {
    let others = list.iter().filter(|it| **it != 0).count();
    (
        list.len(),
        others,
        list.iter().map(|it| u64::from(*it)).sum(),
    )
}

#[test]
fn a_list_is_as_short_as_it_can_be() {
    let list: Vec<u32> = (0..100).collect();
    let fails = |list: &[u32]| list.iter().filter(|it| **it >= 7).count() >= 2;
    assert_eq!(shrink(&list, Duration::MAX / 4, fails).len(), 2);
    let mut choices = Choices::of_seed(3);
    let drawn: Vec<_> = (1..50).map(|count| choices.next(count)).collect();
    let mut again = Choices::of_list(&choices.into_taken());
    assert_eq!(
        (1..50).map(|count| again.next(count)).collect::<Vec<_>>(),
        drawn
    );
}
