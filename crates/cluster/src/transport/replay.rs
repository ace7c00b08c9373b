//! A client whose requests are answered from a bundle, so that code above it needs no special
//! cases.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::client::Body;

use gpuctl_local::bundle::Bundle;

pub(crate) fn client(bundle: &Arc<Bundle>) -> Client {
    let bundle = Arc::clone(bundle);
    let service = tower::service_fn(move |request: Request<Body>| {
        let bundle = Arc::clone(&bundle);
        async move {
            let method = request.method().clone();
            let path = request
                .uri()
                .path_and_query()
                .map_or_else(String::new, ToString::to_string);
            let body = request.into_body().collect().await?.to_bytes();
            let reply = bundle.reply(method.as_str(), &path, &body)?;
            let response = Response::builder()
                .status(reply.code)
                .header(header::CONTENT_TYPE, reply.media);
            Ok::<_, tower::BoxError>(response.body(Full::new(Bytes::from(reply.body)))?)
        }
    });
    Client::new(service, "default")
}
