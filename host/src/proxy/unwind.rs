//! A panic inside a call ends that call and nothing else: its client is told, and its connection goes on.
//!
//! What the panic leaves behind is dropped, never looked at again, so that no broken state is seen.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;

/// What the work gives; none: it panicked. Lent, because it is large and would be copied.
pub(super) async fn caught<F: Future>(mut work: Pin<&mut F>) -> Option<F::Output> {
    let mut output = None;
    // What it gives is put aside rather than handed through: a call is polled several times, and an answer is large too.
    poll_fn(|cx| match attempt(|| work.as_mut().poll(cx).map(|given| output = Some(given))) {
        Some(polled) => polled,
        None => Poll::Ready(()),
    })
    .await;
    output
}

/// A stream that can be asked for its end after it panicked.
pub(super) trait Breakable {
    /// The next bytes; none: it is over.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;

    /// It panicked: settles it, and gives its last bytes. It is over then.
    fn broke_down(&mut self) -> Bytes;
}

/// The next bytes; after a panic the last ones.
pub(super) fn poll_caught(stream: &mut impl Breakable, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
    attempt(|| stream.poll_next(cx)).unwrap_or_else(|| Poll::Ready(attempt(|| stream.broke_down())))
}

/// The process's own panic hook has said where it was.
fn attempt<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    async fn fails(later: bool) {
        if later {
            tokio::task::yield_now().await;
        }
        panic!("on purpose");
    }

    #[tokio::test]
    async fn work_that_panics_has_no_answer_whether_at_once_or_later() {
        assert_eq!(caught(pin!(async { 1 })).await, Some(1));
        assert_eq!(caught(pin!(fails(false))).await, None);
        assert_eq!(caught(pin!(fails(true))).await, None);
    }

    /// Gives two pieces, panics, and says one last word.
    #[derive(Default)]
    struct Breaks {
        polls: u32,
        over: bool,
    }

    impl Breakable for Breaks {
        fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<Bytes>> {
            self.polls += 1;
            assert!(self.polls != 3, "on purpose");
            Poll::Ready((!self.over).then_some(Bytes::from_static(b"piece")))
        }

        fn broke_down(&mut self) -> Bytes {
            self.over = true;
            Bytes::from_static(b"last")
        }
    }

    #[test]
    fn a_stream_that_panics_has_one_last_word_and_a_proper_end() {
        let mut stream = Breaks::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut next = || match poll_caught(&mut stream, &mut cx) {
            Poll::Ready(bytes) => bytes,
            Poll::Pending => panic!("nothing to wait for"),
        };
        let got: Vec<_> = std::iter::from_fn(&mut next).collect();
        assert_eq!(got, ["piece", "piece", "last"].map(Bytes::from));
        assert_eq!(next(), None);
    }
}
