//! The Secret with the certificates, read and written such that none of its content gets into logs or errors.
//!
//! `kube::Api` logs responses that it cannot parse, and parse errors quote their input. Neither happens here.

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Client, Resource as _,
    api::{GetParams, PostParams, Request},
};
use serde::de::Error as _;

/// Location of the Secret.
pub(super) struct SecretRef<'a> {
    pub(super) client: &'a Client,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl SecretRef<'_> {
    pub(super) async fn read(&self) -> Result<Option<Secret>, kube::Error> {
        let request = self.request().get(self.name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
        match self.send(request).await {
            Ok(text) => decode(&text).map(Some),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn create(&self, secret: &Secret) -> Result<(), kube::Error> {
        let body = serde_json::to_vec(secret).map_err(kube::Error::SerdeError)?;
        let request = self.request().create(&PostParams::default(), body).map_err(kube::Error::BuildRequest)?;
        self.send(request).await.map(drop)
    }

    pub(super) async fn replace(&self, secret: &Secret) -> Result<(), kube::Error> {
        let body = serde_json::to_vec(secret).map_err(kube::Error::SerdeError)?;
        let request = self.request().replace(self.name, &PostParams::default(), body);
        self.send(request.map_err(kube::Error::BuildRequest)?).await.map(drop)
    }

    fn request(&self) -> Request {
        Request::new(Secret::url_path(&(), Some(self.namespace)))
    }

    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<String, kube::Error> {
        self.client.request_text(request).await.map_err(|error| match error {
            // This error contains the bytes.
            kube::Error::FromUtf8(_) => unreadable("not UTF-8"),
            error => error,
        })
    }
}

fn decode(text: &str) -> Result<Secret, kube::Error> {
    serde_json::from_str(text)
        .map_err(|error| unreadable(&format!("not a Secret, at line {} column {}", error.line(), error.column())))
}

fn unreadable(why: &str) -> kube::Error {
    kube::Error::SerdeError(serde_json::Error::custom(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_that_is_not_a_secret_is_not_quoted() {
        for text in [r#"{"metadata": {}, "data": "hunter2"}"#, r#"{"data": {"tls.key": "hunter2!"}}"#, "hunter2"] {
            let error = decode(text).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter"), "{shown}");
        }
    }
}
