//! The operator on a control plane of the test's own.

use ::guestbook::{api, operator::operator};
use windlass_testing::TestPlane;

mod guestbook;
mod manifests;

/// A plane that knows the resources.
async fn plane() -> TestPlane {
    TestPlane::builder().with_crd::<api::guestbook::Guestbook>().await
}

#[tokio::test]
async fn it_starts_and_stops() {
    let plane = plane().await;
    plane.run(operator()).stop().await.unwrap();
}
