use std::sync::Arc;

use bytes::Bytes;

use super::*;

fn page(count: u64) -> Page {
    let entry = |number: u64| Entry {
        // In another order than the revisions.
        key: Arc::from(format!("/core/configmaps/default/{}", 100 - number)),
        value: Bytes::from(vec![b'x'; usize::try_from(number * 37).unwrap()]),
        revision: Revision(10 + number * 3),
    };
    let mut entries: Vec<_> = (0..count).map(entry).collect();
    entries.sort_unstable_by(|one, other| one.key.cmp(&other.key));
    Page { entries, revision: Revision(1000), remaining: 0 }
}

fn encoded(page: Page) -> Vec<u8> {
    let mut encoder = Encoder::new(Box::new(Listed::new(page)));
    let mut whole = Vec::new();
    while let Some(piece) = encoder.next_piece().unwrap() {
        whole.extend_from_slice(&piece);
    }
    whole
}

fn decoded(bytes: &[u8]) -> Result<Vec<Entry>, SnapshotError> {
    let mut decoder = Decoder::new(bytes)?;
    let mut entries = Vec::new();
    while let Some(entry) = decoder.next_entry()? {
        entries.push(entry);
    }
    assert_eq!((decoder.records(), decoder.position()), (entries.len() as u64, bytes.len() as u64));
    Ok(entries)
}

#[test]
fn a_snapshot_is_decoded_as_it_was_encoded() {
    for count in [0, 1, 20] {
        let mut expected = page(count).entries;
        expected.sort_unstable_by_key(|entry| entry.revision);
        let bytes = encoded(page(count));
        assert_eq!(decoded(&bytes).unwrap(), expected);
        assert_eq!(Decoder::new(&bytes[..]).unwrap().revision(), Revision(1000));
    }
}

#[test]
fn a_snapshot_that_is_cut_off_anywhere_is_rejected() {
    let bytes = encoded(page(4));
    for end in 0..bytes.len() {
        let error = decoded(&bytes[..end]).unwrap_err();
        match error {
            SnapshotError::NotASnapshot => assert!(end < MAGIC.len()),
            SnapshotError::CutOff { position } => assert_eq!(position, end as u64),
            error => panic!("cut off at {end}: {error}"),
        }
    }
}

#[test]
fn a_changed_bit_anywhere_is_found() {
    let bytes = encoded(page(4));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(decoded(&damaged).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn missing_swapped_and_additional_records_are_found() {
    let bytes = encoded(page(3));
    let size =
        |number: u64| 16 + "/core/configmaps/default/100".len() - usize::from(number > 0) + 37 * number as usize + 4;
    let (header, one, two) = (MAGIC.len() + 24, size(0), size(1));
    let records = &bytes[header..header + one + two];
    let (first, second) = records.split_at(one);
    let rest = &bytes[header + one + two..];
    let arranged = |parts: &[&[u8]]| decoded(&[&[&bytes[..header]], parts, &[rest]].concat().concat());
    assert_eq!(arranged(&[first, second]).unwrap().len(), 3);
    for (parts, what) in [
        (&[second][..], "records are missing"),
        (&[second, first], "out of order"),
        (&[first, first, second], "out of order"),
    ] {
        let error = arranged(parts).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(decoded(&longer).unwrap_err().to_string().contains("data after the end"));
}

#[test]
fn files_of_other_programs_and_later_versions_are_rejected() {
    assert!(matches!(decoded(b"kind: ConfigMap\nmetadata: {}\n"), Err(SnapshotError::NotASnapshot)));
    let mut later = encoded(page(1));
    later[MAGIC.len()] = 2;
    let error = decoded(&later).unwrap_err().to_string();
    assert_eq!(error, "the snapshot has format 2, and this version supports only format 1");
}
