use super::*;

fn value(text: &str) -> IntOrString {
    match text.parse() {
        Ok(number) => IntOrString::Int(number),
        Err(_) => IntOrString::String(text.to_owned()),
    }
}

#[test]
fn limits_are_rounded_so_that_a_rollout_can_always_proceed() {
    for (surge, unavailable, desired, expected) in [
        ("0%", "1%", 2, (0, 1)),
        ("0%", "1%", 1, (0, 1)),
        ("1%", "25%", 2, (1, 0)),
        ("1%", "25%", 1, (1, 0)),
        ("1%", "0%", 2, (1, 0)),
        ("1%", "0%", 1, (1, 0)),
        ("25%", "25%", 3, (1, 0)),
        ("25%", "25%", 10, (3, 2)),
        ("25%", "25%", 0, (0, 0)),
        ("10%", "10%", 25, (3, 2)),
        ("0", "0", 5, (0, 1)),
        ("3", "2", 10, (3, 2)),
        ("100%", "100%", 7, (7, 7)),
        // No more can be unavailable than there are.
        ("0", "20", 10, (0, 10)),
        ("1", "50%", 1, (1, 0)),
        ("nonsense", "1", 3, (0, 1)),
    ] {
        let posts = fenceposts(Some(&value(surge)), Some(&value(unavailable)), desired);
        assert_eq!((posts.surge, posts.unavailable), expected, "{surge} and {unavailable} of {desired}");
    }
    assert_eq!(fenceposts(None, None, 5), Fenceposts { surge: 0, unavailable: 1 });
}

#[test]
fn the_new_set_grows_within_the_limits() {
    for (desired, surge, total, new, expected) in [
        // From nothing: all at once, and never more than desired.
        (10, 0, 0, 0, 10),
        (10, 3, 0, 0, 10),
        // An update starts with the surge.
        (10, 3, 10, 0, 3),
        (3, 1, 3, 0, 1),
        (10, 0, 10, 0, 0),
        // It continues as old pods are removed.
        (10, 3, 11, 3, 5),
        (10, 2, 20, 5, 5),
        // The remainder is less than the room.
        (10, 3, 10, 9, 10),
        (10, 3, 13, 9, 9),
        (0, 0, 0, 0, 0),
    ] {
        assert_eq!(new_replicas(desired, surge, total, new), expected, "{desired}+{surge} {total} {new}");
    }
}

/// Sizes as pairs of desired and available pods.
fn sizes(sets: &[(i32, i32)]) -> Vec<Size> {
    sets.iter()
        .map(|(replicas, available)| Size { replicas: *replicas, available: *available, max_before: None })
        .collect()
}

#[test]
fn old_sets_shrink_while_enough_pods_stay_available() {
    for (desired, surge, unavailable, new, old, expected) in [
        // Some may be unavailable from the start.
        (10, 0, 2, (0, 0), &[(10, 10)][..], &[8][..]),
        (10, 3, 0, (3, 0), &[(10, 10)], &[10]),
        // Available new pods let old ones be removed.
        (10, 3, 0, (3, 3), &[(10, 10)], &[7]),
        (10, 3, 2, (3, 1), &[(10, 10)], &[7]),
        // New pods that never become available let none be removed.
        (10, 3, 2, (5, 0), &[(8, 8)], &[8]),
        (10, 3, 2, (5, 0), &[(8, 7)], &[8]),
        // After a rollback to the good replica set, the bad one shrinks by its unavailable pods.
        (10, 3, 2, (8, 7), &[(5, 0)], &[1]),
        // Unavailable pods are removed first, from the oldest replica set first.
        (10, 0, 4, (0, 0), &[(8, 6), (2, 2)], &[4, 2]),
        (5, 1, 0, (1, 0), &[(3, 0), (2, 2)], &[3, 2]),
        (10, 3, 2, (0, 0), &[(8, 8), (5, 0)], &[8, 0]),
        (10, 0, 2, (10, 10), &[(2, 2), (3, 3)], &[0, 0]),
        (4, 1, 0, (4, 4), &[(1, 1)], &[0]),
        (3, 1, 0, (3, 3), &[], &[]),
        (3, 1, 0, (3, 3), &[(0, 0)], &[0]),
        (0, 0, 0, (0, 0), &[(3, 3)], &[0]),
    ] {
        let new = sizes(&[new])[0];
        let shrunk = scale_down_old(desired, Fenceposts { surge, unavailable }, new, &sizes(old));
        assert_eq!(shrunk, expected, "{desired}: {new:?} and {old:?}");
    }
}

#[test]
fn a_rollout_always_ends_with_the_new_set_alone() {
    // For all limits: pods become available at once, and each step stays within the limits.
    for desired in [1, 2, 3, 7, 10, 50] {
        for (surge, unavailable) in [("1", "0"), ("0", "1"), ("25%", "25%"), ("100%", "0"), ("0", "100%"), ("1%", "1%")]
        {
            let posts = fenceposts(Some(&value(surge)), Some(&value(unavailable)), desired);
            let (mut new, mut old) = (0, desired);
            let mut steps = 0;
            while (new, old) != (desired, 0) {
                let available = new;
                new = new_replicas(desired, posts.surge, new + old, new);
                assert!(new + old <= desired + posts.surge, "{desired} {surge} {unavailable}");
                old = scale_down_old(desired, posts, sizes(&[(new, available)])[0], &sizes(&[(old, old)]))[0];
                assert!(available + old >= desired - posts.unavailable, "{desired} {surge} {unavailable}");
                steps += 1;
                assert!(steps < 200, "{desired} {surge} {unavailable}: stuck at {new} and {old}");
            }
        }
    }
}

#[test]
fn sets_in_the_middle_of_a_rollout_are_scaled_in_proportion() {
    // Sizes, largest replica set first; maximum before and now.
    for (desired, before, most, sets, expected) in [
        (10, 10, 10, &[5, 5][..], &[5, 5][..]),
        // Scaling up.
        (12, 10, 12, &[10], &[12]),
        (15, 10, 15, &[5, 5], &[8, 7]),
        (20, 10, 20, &[5, 3, 2], &[10, 6, 4]),
        (6, 5, 6, &[3, 1, 1], &[4, 1, 1]),
        (20, 5, 20, &[3, 1, 1], &[12, 4, 4]),
        (10, 5, 10, &[5, 0], &[10, 0]),
        // With a surge.
        (15, 13, 19, &[8, 5], &[12, 7]),
        (30, 13, 33, &[8, 5], &[20, 13]),
        // Scaling down.
        (5, 10, 5, &[5, 5], &[2, 3]),
        (5, 10, 5, &[6, 4], &[3, 2]),
        (2, 10, 2, &[5, 3, 2], &[1, 1, 0]),
        (0, 10, 0, &[5, 3, 2], &[0, 0, 0]),
        (0, 10, 3, &[5, 3, 2], &[0, 0, 0]),
    ] {
        let sets: Vec<Size> =
            sets.iter().map(|size| Size { replicas: *size, available: *size, max_before: Some(before) }).collect();
        let scaled = proportional(desired, most, before, &sets);
        assert_eq!(scaled, expected, "{desired} of {most}, {before} before: {sets:?}");
        if desired > 0 {
            assert_eq!(scaled.iter().sum::<i32>(), most);
        }
    }
}

#[test]
fn a_missing_annotation_is_replaced_by_the_count_in_the_status() {
    let sets =
        [Size { replicas: 5, available: 5, max_before: None }, Size { replicas: 5, available: 5, max_before: Some(0) }];
    assert_eq!(proportional(20, 20, 10, &sets), [10, 10]);
    // Nothing is known: the largest gets everything.
    assert_eq!(proportional(20, 20, 0, &sets), [15, 5]);
}

#[test]
fn the_largest_sizes_do_not_overflow() {
    let most = i32::MAX;
    let (old, new) = (sizes(&[(most, most), (most, 0)]), Size { replicas: most, available: most, max_before: None });
    for posts in [Fenceposts { surge: most, unavailable: 0 }, Fenceposts { surge: 0, unavailable: most }] {
        let left = scale_down_old(most, posts, new, &old);
        assert!(left.iter().all(|size| (0..=most).contains(size)), "{left:?}");
        assert_eq!(new_replicas(most, posts.surge, sum([most, most, most]), 0).min(0), 0);
    }
    for (desired, largest) in [(most, most), (1, 1), (0, most)] {
        let scaled = proportional(desired, largest, most, &old);
        assert!(scaled.iter().all(|size| *size >= 0), "{scaled:?}");
    }
}
