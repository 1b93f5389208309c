//! Tests of Guestbook.

use guestbook::{
    api::guestbook::{Guestbook, GuestbookSpec, GuestbookType},
    operator::operator,
    webhook::guestbook::{MANAGED_BY, MAX_NAME_LENGTH, default, validate},
};
use kube::{Api, ResourceExt, api::PostParams};

use crate::plane;

fn example() -> Guestbook {
    let spec = GuestbookSpec {
        size: 1,
        config_map_name: "example".to_owned(),
        r#type: GuestbookType::Phone,
    };
    Guestbook::new("example", spec)
}

#[tokio::test]
async fn a_guestbook_becomes_ready() {
    let plane = plane().await;
    let _operator = plane.run(operator());
    plane.create(example()).await;
    plane.expect::<Guestbook>("example").condition("Ready").await;
}

#[tokio::test]
async fn size_out_of_range_is_rejected() {
    let plane = plane().await;
    let mut guestbook = example();
    guestbook.spec.size = 11;
    let api: Api<Guestbook> = plane.api();
    let error = api.create(&PostParams::default(), &guestbook).await.unwrap_err();
    assert!(error.to_string().contains("spec.size"), "{error}");
}

#[test]
fn unset_fields_get_defaults() {
    let mut guestbook = example();
    default(&mut guestbook);
    assert_eq!(guestbook.labels()[MANAGED_BY], "guestbook");
    guestbook.labels_mut().insert(MANAGED_BY.into(), "someone-else".into());
    default(&mut guestbook);
    assert_eq!(guestbook.labels()[MANAGED_BY], "someone-else");
}

#[test]
fn a_name_that_is_too_long_is_rejected_on_creation() {
    let mut guestbook = example();
    assert!(validate(None, &guestbook).is_ok());
    guestbook.metadata.name = Some("a".repeat(MAX_NAME_LENGTH + 1));
    let denied = validate(None, &guestbook).unwrap_err();
    assert!(denied.to_string().contains("metadata.name"), "{denied}");
    assert!(validate(Some(&guestbook), &guestbook).is_ok());
}
