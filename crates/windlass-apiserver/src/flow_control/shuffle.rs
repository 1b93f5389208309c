//! Shuffle sharding: each flow uses a few of the queues, chosen by its hash, so that a heavy flow fills its own queues
//! and other flows most probably have one that is empty.

/// The largest hand: more would need more entropy than a hash has.
pub(super) const MAX_HAND: usize = 15;

/// Deals a hand of `hand` different queues out of `deck`.
///
/// The number of queues must be at least the size of the hand, which must be at most [`MAX_HAND`].
pub(super) fn deal(deck: usize, hand: usize, mut hash: u64) -> impl Iterator<Item = usize> {
    let mut cards = [0; MAX_HAND];
    for (dealt, card) in cards.iter_mut().enumerate().take(hand) {
        let rest = (deck - dealt) as u64;
        *card = (hash % rest) as usize;
        hash /= rest;
    }
    // Each remainder counts the remaining cards; skip cards that were dealt before.
    let remainders = cards;
    for (dealt, card) in cards.iter_mut().enumerate().take(hand) {
        for earlier in remainders[..dealt].iter().rev() {
            if *card >= *earlier {
                *card += 1;
            }
        }
    }
    cards.into_iter().take(hand)
}

/// Returns one card of a hand, by its place.
pub(super) fn card(deck: usize, place: usize, mut hash: u64) -> usize {
    let mut remainders = [0; MAX_HAND];
    for (dealt, remainder) in remainders.iter_mut().enumerate().take(place) {
        let rest = (deck - dealt) as u64;
        *remainder = (hash % rest) as usize;
        hash /= rest;
    }
    let last = (hash % (deck - place) as u64) as usize;
    remainders[..place].iter().rev().fold(last, |card, earlier| card + usize::from(card >= *earlier))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_hand_has_different_queues(deck in 1_usize..300, hand in 1_usize..=MAX_HAND, hash: u64) {
            let hand = hand.min(deck);
            let mut cards: Vec<usize> = deal(deck, hand, hash).collect();
            prop_assert_eq!(cards.len(), hand);
            prop_assert!(cards.iter().all(|card| *card < deck));
            prop_assert!((0..hand).map(|place| card(deck, place, hash)).eq(cards.iter().copied()));
            cards.sort_unstable();
            cards.dedup();
            prop_assert_eq!(cards.len(), hand);
        }
    }

    #[test]
    fn all_hands_are_dealt() {
        let hands: std::collections::BTreeSet<Vec<usize>> = (0..60).map(|hash| deal(5, 3, hash).collect()).collect();
        assert_eq!(hands.len(), 60, "5 * 4 * 3 hands in order");
    }
}
