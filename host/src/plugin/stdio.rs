//! Standard output and error of a guest: an own bounded sink that becomes log lines.
//!
//! A guest needs none of it, but its standard library writes the text of a panic there. Whatever is beyond
//! the bound is dropped, so that output is no way to fill memory or the log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use super::state::LINE_MAX;

/// Bytes kept of one stream in one call.
const KEPT: usize = 4 * LINE_MAX;

/// Bytes written since the last [`Sink::take`], the first [`KEPT`] of them.
#[derive(Debug, Clone, Default)]
pub struct Sink(Arc<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// There are bytes: hardly ever, and asked after every call.
    any: AtomicBool,
    bytes: Mutex<Vec<u8>>,
}

impl Sink {
    /// What was written, as text; empties the sink.
    pub fn take(&self) -> Option<String> {
        if !self.0.any.load(Ordering::Acquire) {
            return None;
        }
        let mut bytes = self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.any.store(false, Ordering::Release);
        Some(String::from_utf8_lossy(&std::mem::take(&mut *bytes)).into_owned())
    }

    fn put(&self, new: &[u8]) {
        if new.is_empty() {
            return;
        }
        let mut bytes = self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KEPT.saturating_sub(bytes.len()).min(new.len());
        bytes.extend_from_slice(&new[..room]);
        self.0.any.store(true, Ordering::Release);
    }
}

impl IsTerminal for Sink {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Sink {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Sink {
    async fn ready(&mut self) {}
}

impl OutputStream for Sink {
    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        self.put(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(64 * 1024)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn what_is_beyond_the_bound_is_dropped() {
        let mut sink = Sink::default();
        for _ in 0..100 {
            sink.write(bytes::Bytes::from_static(&[b'x'; 1000])).unwrap();
        }
        assert_eq!(sink.take().map(|text| text.len()), Some(KEPT));
        assert_eq!(sink.take(), None);
        sink.write(bytes::Bytes::new()).unwrap();
        assert_eq!(sink.take(), None);
        sink.write(bytes::Bytes::from_static(b"once more")).unwrap();
        assert_eq!(sink.take().as_deref(), Some("once more"));
    }

    #[test]
    fn what_a_guest_writes_is_there_for_the_host_that_kept_the_sink() {
        let sink = Sink::default();
        let mut of_guest = sink.p2_stream();
        for text in ["panicked", "panicked again"] {
            assert_eq!(sink.take(), None);
            of_guest.write(bytes::Bytes::from(text)).unwrap();
            assert_eq!(sink.take().as_deref(), Some(text));
        }
    }
}
