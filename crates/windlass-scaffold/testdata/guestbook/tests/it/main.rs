//! The operator on a control plane of the test's own.

use ::guestbook::{api, operator::operator};
use windlass_testing::Plane;

mod guestbook;
mod manifests;

/// A plane that knows the resources.
async fn plane() -> Plane {
    Plane::test().with_crd::<api::guestbook::Guestbook>().await
}

#[tokio::test]
async fn it_starts_and_stops() {
    let plane = plane().await;
    plane.run(operator()).stop().await.unwrap();
}
