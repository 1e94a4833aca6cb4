//! The paths of the admin listener: health, metrics, and pages that show what is going on.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use sluice_core::facts::PluginKind;

use super::config_page::ConfigBoard;
use super::conn::Serve;
use super::io::WriteLimit;
use super::pages::{self, Page};
use super::snapshot::{self, Health, Reader};
use super::status_page;
use crate::plugin::Registry;
use crate::proxy::{self, Body, Shared};
use crate::telemetry::decisions::Wanted;
use crate::telemetry::metrics::CONTENT_TYPE;

/// Answers operators.
pub struct Admin {
    shared: Arc<Shared>,
    health: Arc<Health>,
    registry: Registry,
    file: Arc<ConfigBoard>,
}

impl Admin {
    /// The service of the admin listener.
    pub fn new(shared: Arc<Shared>, health: Arc<Health>, registry: Registry, file: Arc<ConfigBoard>) -> Self {
        Self { shared, health, registry, file }
    }

    fn page(&self, request: &Request<Incoming>) -> Option<Page> {
        let path = request.uri().path();
        Some(match path {
            "/livez" | "/readyz" => snapshot::health_page(path, &self.health, &self.shared, Reader::Operator),
            "/debug/upstreams" => pages::upstreams(&snapshot::upstreams(&self.health, &self.shared)),
            "/debug/plugins" => {
                let generation = self.shared.current.load();
                let replaced: Vec<_> =
                    PluginKind::ALL.into_iter().filter(|kind| !generation.asks_bundled(*kind)).collect();
                pages::plugins(generation.number, self.registry.folder(), &self.registry.status(), &replaced)
            }
            "/debug/config" => self.file.page(&self.shared.current.load()),
            "/debug/decisions" => {
                let query = request.uri().query().unwrap_or_default();
                let of = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name));
                pages::decisions(&self.shared.telemetry.decisions().list(&Wanted {
                    request_id: of("request_id="),
                    after: of("after="),
                    limit: of("limit=").and_then(|limit| limit.parse().ok()),
                }))
            }
            _ => return None,
        })
    }

    fn metrics(&self, request: &Request<Incoming>) -> Response<Body> {
        let scrape = snapshot::scrape(&self.shared, &self.registry.status());
        match self.shared.telemetry.metrics().render(&scrape) {
            Ok(text) => {
                let mut response = proxy::page(&self.shared, request, StatusCode::OK, text);
                response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
                response
            }
            Err(error) => {
                tracing::error!(%error, "metrics could not be written");
                let body = r#"{"error":"metrics could not be written; see the log"}"#.to_owned();
                proxy::page(&self.shared, request, StatusCode::INTERNAL_SERVER_ERROR, body)
            }
        }
    }
}

impl Serve for Admin {
    fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
        _writes: WriteLimit,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        Box::pin(async move {
            if !matches!(*request.method(), Method::GET | Method::HEAD) {
                return proxy::refused_page(&self.shared, &request, true);
            }
            match request.uri().path() {
                "/" => {
                    return status_page::answer(proxy::page(
                        &self.shared,
                        &request,
                        StatusCode::OK,
                        String::new(),
                    ));
                }
                "/metrics" => return self.metrics(&request),
                _ => {}
            }
            match self.page(&request) {
                Some(page) => proxy::page(&self.shared, &request, page.status, page.body),
                None => proxy::refused_page(&self.shared, &request, false),
            }
        })
    }

    fn refuse_plain_text(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        Box::pin(async move { proxy::page_needs_tls(&self.shared, &request) })
    }
}
