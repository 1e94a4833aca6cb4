//! The paths of the main listener.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{Method, Request, Response};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use sluice_core::lens::wire::Wire;

use super::conn::Serve;
use super::cors;
use super::io::WriteLimit;
use super::snapshot::{self, Health, Reader};
use crate::proxy::{self, Body, Shared};

/// Answers applications.
pub struct Main {
    shared: Arc<Shared>,
    health: Arc<Health>,
}

impl Main {
    /// The service of the main listener.
    pub fn new(shared: Arc<Shared>, health: Arc<Health>) -> Self {
        Self { shared, health }
    }
}

/// The wire format that is spoken at a path.
fn wire(path: &str) -> Option<Wire> {
    Wire::ALL.into_iter().find(|wire| wire.endpoint() == path)
}

const MODELS: &str = "/v1/models";

impl Main {
    async fn answer(&self, request: Box<Request<Incoming>>, writes: &WriteLimit) -> Response<Body> {
        let shared = &self.shared;
        let get = matches!(*request.method(), Method::GET | Method::HEAD);
        if let Some(wire) = wire(request.uri().path()) {
            return if request.method() == Method::POST {
                proxy::call(shared, request, wire, &|limit| writes.set(limit)).await
            } else {
                proxy::method_not_allowed(shared, *request, "POST").await
            };
        }
        match request.uri().path() {
            "/livez" | "/readyz" if get => {
                let page = snapshot::health_page(request.uri().path(), &self.health, shared, Reader::Caller);
                proxy::page(shared, &request, page.status, page.body)
            }
            MODELS if get => proxy::models(shared, &request, None),
            path if path.starts_with("/v1/models/") && get => {
                let id = percent_decode_str(&path["/v1/models/".len()..]).decode_utf8_lossy().into_owned();
                proxy::models(shared, &request, Some(&id))
            }
            path if path == MODELS
                || path.starts_with("/v1/models/")
                || path == "/livez"
                || path == "/readyz" =>
            {
                proxy::method_not_allowed(shared, *request, "GET").await
            }
            _ => proxy::not_found(shared, *request).await,
        }
    }
}

impl Serve for Main {
    fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
        writes: WriteLimit,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        // Each future on its way would have a place for it.
        let request = Box::new(request);
        Box::pin(async move {
            let Some(cors) = self.shared.current.load().config.cors.clone() else {
                return self.answer(request, &writes).await;
            };
            let page = cors::Page::of(&cors, &request);
            if cors::is_preflight(&request) {
                let mut response = proxy::no_content(&self.shared, &request);
                page.permit(&request, response.headers_mut());
                return response;
            }
            let mut response = Box::pin(self.answer(request, &writes)).await;
            page.mark(response.headers_mut());
            response
        })
    }

    fn refuse_plain_text(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        Box::pin(async move { proxy::needs_tls(&self.shared, request).await })
    }
}
