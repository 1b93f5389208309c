//! Integration tests: each runs the operator against its own control plane.

use ::guestbook::{api, operator::operator};
use windlass_testing::TestPlane;

mod deployed;
mod guestbook;
mod manifests;

/// Starts a control plane with the CRDs of the operator.
async fn plane() -> TestPlane {
    TestPlane::builder().with_crd::<api::guestbook::Guestbook>().await
}

#[tokio::test]
async fn the_operator_starts_and_stops() {
    let plane = plane().await;
    plane.run(operator()).stop().await.unwrap();
}
