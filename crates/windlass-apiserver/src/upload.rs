//! Request bodies: their size, and the memory that all of them may use.
//!
//! A body that is small and already received costs nothing. Any other body is charged to its user, byte by byte as it
//! arrives, and at least [`LEAST`] for the request that waits for it. A request that exceeds the budget gets 429.

use std::{
    collections::HashMap,
    future::poll_fn,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::Poll,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::Method;
use http_body::Frame;
use http_body_util::BodyExt;
use parking_lot::Mutex;

use crate::{
    server::BoxError,
    status::{ApiError, Result},
    user::User,
};

/// The largest accepted body.
const BODY_LIMIT: usize = 3 << 20;
/// The number of bytes of a too large body that are read and discarded, because a client that is cut off while it
/// writes does not see the response.
const DISCARD_LIMIT: usize = 64 << 20;
/// Time for which the rest of a body beyond the budget is read and discarded.
const DISCARD_TIME: Duration = Duration::from_secs(1);
/// The charge of a request whose body has not arrived.
const LEAST: usize = 16 << 10;
/// The size of a body that is not charged if it arrives at once.
const SMALL: usize = 64 << 10;

/// A request body of any type.
pub(crate) type AnyBody<'a> = dyn http_body::Body<Data = Bytes, Error = BoxError> + Send + 'a;

/// The memory for request bodies.
pub(crate) struct UploadBudget {
    limit: usize,
    used: Mutex<Used>,
    rejected: AtomicU64,
}

#[derive(Default)]
struct Used {
    total: usize,
    /// By user, except for members of `system:masters`.
    users: HashMap<String, usize>,
}

/// The charge of a body; refunded when dropped.
pub(crate) struct Charge<'a> {
    budget: &'a UploadBudget,
    user: &'a User,
    bytes: usize,
}

impl UploadBudget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, used: Mutex::default(), rejected: AtomicU64::new(0) }
    }

    /// Returns the bytes in use, and the number of rejected requests.
    pub(crate) fn counts(&self) -> (usize, u64) {
        (self.used.lock().total, self.rejected.load(Ordering::Relaxed))
    }

    /// Charges a user. Returns `false` if the budget does not allow it.
    fn charge(&self, user: &User, bytes: usize) -> bool {
        let mut used = self.used.lock();
        let Used { total, users } = &mut *used;
        let masters = user.is_master();
        let limit = if masters { self.limit } else { self.limit - self.limit / 8 };
        if *total + bytes > limit {
            return false;
        }
        if !masters {
            let of_user = users.get(&user.name).copied().unwrap_or(0) + bytes;
            if of_user > self.limit / 4 {
                return false;
            }
            match users.get_mut(&user.name) {
                Some(known) => *known = of_user,
                None => drop(users.insert(user.name.clone(), of_user)),
            }
        }
        *total += bytes;
        true
    }

    fn refund(&self, user: &User, bytes: usize) {
        let mut used = self.used.lock();
        used.total -= bytes;
        if let Some(of_user) = used.users.get_mut(&user.name).filter(|_| !user.is_master()) {
            *of_user -= bytes;
            if *of_user == 0 {
                used.users.remove(&user.name);
            }
        }
    }

    /// Reads the body of a request and returns it with its charge. With `limited` false, the body is in the memory of
    /// this process already and is not charged.
    pub(crate) async fn read<'a>(
        &'a self,
        method: &Method,
        mut body: Pin<&mut AnyBody<'_>>,
        user: &'a User,
        limited: bool,
    ) -> Result<(Bytes, Charge<'a>)> {
        let mut charge = Charge { budget: self, user, bytes: 0 };
        if matches!(*method, Method::GET | Method::HEAD) {
            return Ok((Bytes::new(), charge));
        }
        let mut read = BytesMut::new();
        let mut length = 0;
        loop {
            let data = match poll_fn(|cx| Poll::Ready(body.as_mut().poll_frame(cx).map(into_data))).await {
                Poll::Ready(data) => data?,
                Poll::Pending if limited && !charge.grow_to(LEAST) => return Err(self.reject()),
                Poll::Pending => into_data(body.frame().await)?,
            };
            let Some(data) = data else { break };
            length += data.len();
            if length > DISCARD_LIMIT {
                break;
            }
            if length > BODY_LIMIT {
                read = BytesMut::new();
                continue;
            }
            let ended = body.is_end_stream();
            let free = ended && length <= SMALL && charge.bytes == 0;
            if limited && !free && !charge.grow_to(length) {
                drop((charge, read));
                let _ = tokio::time::timeout(DISCARD_TIME, discard(body)).await;
                return Err(self.reject());
            }
            // A body that arrives in one piece is not copied.
            if ended && length == data.len() {
                return Ok((data, charge));
            }
            read.extend_from_slice(&data);
        }
        if length > BODY_LIMIT { Err(ApiError::too_large(BODY_LIMIT)) } else { Ok((read.freeze(), charge)) }
    }

    fn reject(&self) -> ApiError {
        self.rejected.fetch_add(1, Ordering::Relaxed);
        ApiError::too_many_requests(1)
    }
}

impl Charge<'_> {
    /// Raises the charge to this number of bytes. Returns `false` if the budget does not allow it.
    fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let fits = more == 0 || self.budget.charge(self.user, more);
        if fits {
            self.bytes += more;
        }
        fits
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.refund(self.user, self.bytes);
        }
    }
}

/// Returns the bytes of a frame: none for trailers, `None` at the end of the body.
fn into_data(frame: Option<Result<Frame<Bytes>, BoxError>>) -> Result<Option<Bytes>> {
    match frame {
        None => Ok(None),
        Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
        Some(Err(error)) => Err(ApiError::bad_request(format!("failed to read the request body: {error}"))),
    }
}

async fn discard(mut body: Pin<&mut AnyBody<'_>>) {
    let mut length = 0;
    while let Ok(Some(data)) = into_data(body.frame().await) {
        length += data.len();
        if length > DISCARD_LIMIT {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::stream;
    use http_body_util::{Full, StreamBody};

    use super::*;

    const MIB: usize = 1 << 20;

    fn user(name: &str) -> User {
        User { name: name.to_owned(), ..User::default() }
    }

    /// A body of a chunk of 1 MiB.
    fn chunk() -> Pin<Box<AnyBody<'static>>> {
        let frame: Result<_, BoxError> = Ok(Frame::data(Bytes::from(vec![b' '; MIB])));
        Box::pin(StreamBody::new(stream::iter([frame])))
    }

    /// A body that arrives in one piece.
    fn full(size: usize) -> Pin<Box<AnyBody<'static>>> {
        Box::pin(Full::new(Bytes::from(vec![b' '; size])).map_err(BoxError::from))
    }

    #[tokio::test]
    async fn a_user_can_hold_a_quarter_and_all_users_together_seven_eighths() {
        let budget = UploadBudget::new(32 * MIB);
        let users: Vec<User> = (0..5).map(|n| user(&n.to_string())).collect();
        let admin = User::admin();
        let mut held = Vec::new();
        let mut accepted = Vec::new();
        for user in &users {
            let before = held.len();
            for _ in 0..9 {
                held.extend(budget.read(&Method::POST, chunk().as_mut(), user, true).await.ok());
            }
            accepted.push(held.len() - before);
        }
        assert_eq!(accepted, [8, 8, 8, 4, 0]);
        for _ in 0..4 {
            held.push(budget.read(&Method::POST, chunk().as_mut(), &admin, true).await.unwrap());
        }
        let error = budget.read(&Method::POST, chunk().as_mut(), &admin, true).await.err().unwrap();
        assert_eq!((error.code.as_u16(), &*error.message), (429, "Too many requests, please try again later.\n"));
        drop(held);
        assert_eq!(budget.counts().0, 0);
        assert!(budget.used.lock().users.is_empty());
    }

    #[tokio::test]
    async fn a_small_body_that_has_arrived_is_free() {
        let budget = UploadBudget::new(0);
        let eve = user("eve");
        for (size, accepted) in [(0, true), (SMALL, true), (SMALL + 1, false)] {
            let result = budget.read(&Method::POST, full(size).as_mut(), &eve, true).await;
            assert_eq!(result.is_ok(), accepted, "{size}");
        }
        let result = budget.read(&Method::POST, full(SMALL + 1).as_mut(), &eve, false).await;
        assert!(result.is_ok(), "requests in this process are not limited");
    }

    #[tokio::test]
    async fn a_request_that_waits_for_its_body_is_charged() {
        let budget = UploadBudget::new(4 * LEAST);
        let eve = user("eve");
        let stalled = || StreamBody::new(stream::pending::<Result<Frame<Bytes>, BoxError>>());
        let (mut one, mut other) = (Box::pin(stalled()), Box::pin(stalled()));
        let mut first = pin!(budget.read(&Method::POST, one.as_mut(), &eve, true));
        assert!(poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx))).await.is_pending());
        assert_eq!(budget.counts().0, LEAST);
        assert!(budget.read(&Method::POST, other.as_mut(), &eve, true).await.is_err());
    }

    #[tokio::test]
    async fn the_largest_body_is_three_mebibytes() {
        let budget = UploadBudget::new(64 * MIB);
        let admin = User::admin();
        for (size, code) in [(BODY_LIMIT - 1, None), (BODY_LIMIT, None), (BODY_LIMIT + 1, Some(413))] {
            let result = budget.read(&Method::PUT, full(size).as_mut(), &admin, true).await;
            assert_eq!(result.err().map(|error| error.code.as_u16()), code, "{size}");
        }
        assert_eq!(budget.counts(), (0, 0));
    }
}
