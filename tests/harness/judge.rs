//! What cases say about a response, each with one name and one message.

use crate::HEALTHY_TEXT;
use crate::response::{End, Response};

impl Response {
    /// A complete healthy answer, in either form.
    #[track_caller]
    pub fn answered(&self) -> &Self {
        assert_eq!((self.status, self.end), (200, End::Complete), "{self:?}");
        assert_eq!(self.text(), HEALTHY_TEXT, "{self:?}");
        if self.is_stream() {
            assert_eq!((self.dones(), self.errors().len()), (1, 0), "[DONE] and error events: {self:?}");
            let last = self.events.last().and_then(|event| event.data());
            assert_eq!(last.as_deref(), Some("[DONE]"), "{self:?}");
            assert_eq!(self.finish().as_deref(), Some("stop"), "{self:?}");
            self.single_lines();
        }
        self
    }

    /// Every event is one line that starts with `data: `.
    #[track_caller]
    pub fn single_lines(&self) -> &Self {
        for event in &self.events {
            let text = String::from_utf8_lossy(&event.raw);
            assert!(
                text.starts_with("data: ") && text.matches('\n').count() == 2,
                "no single data line: {text:?}"
            );
        }
        self
    }

    /// The tags of a served answer.
    #[track_caller]
    pub fn tags(&self, target: &str, degraded: bool) -> &Self {
        let got = (self.header("x-sluice-upstream"), self.header("x-sluice-served-model"));
        assert_eq!(Some(got), target.split_once('/').map(|(up, model)| (Some(up), Some(model))), "{self:?}");
        self.route_tags(degraded)
    }

    /// The tags that every answer of a known route has.
    #[track_caller]
    pub fn route_tags(&self, degraded: bool) -> &Self {
        let (route, flag) = if degraded { ("fallback", "true") } else { ("primary", "false") };
        let got = (self.header("x-sluice-route"), self.header("x-sluice-degraded"));
        assert_eq!(got, (Some(route), Some(flag)), "{self:?}");
        assert!(self.request_id().is_some_and(|id| !id.is_empty()), "no request id: {self:?}");
        self
    }

    /// `x-sluice-attempts`.
    #[track_caller]
    pub fn attempts(&self, want: usize) -> &Self {
        let want = want.to_string();
        assert_eq!(self.header("x-sluice-attempts"), Some(want.as_str()), "{self:?}");
        self
    }

    /// A real HTTP error in OpenAI's shape, with this status and code.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status, self.end), (status, End::Complete), "{self:?}");
        let json = self.header("content-type").is_some_and(|value| value.starts_with("application/json"));
        assert!(json && self.error()["message"].is_string(), "no JSON error: {self:?}");
        assert!(self.error()["type"].is_string(), "no error type: {self:?}");
        assert_eq!(self.code(), code, "{self:?}");
        assert!(self.request_id().is_some_and(|id| !id.is_empty()), "no request id: {self:?}");
        if status == 429 || status == 503 {
            let after = self.header("retry-after").and_then(|value| value.parse::<u32>().ok());
            assert!(after.is_some_and(|after| (1..=60).contains(&after)), "no usable retry-after: {self:?}");
        }
        self
    }

    /// Half an answer that shows itself as half: the text, one error event, no end marker, a proper end.
    #[track_caller]
    pub fn broken_stream(&self, text: &str) -> &Self {
        assert_eq!((self.status, self.end), (200, End::Complete), "{self:?}");
        assert_eq!(self.text(), text, "{self:?}");
        assert_eq!((self.dones(), self.finish()), (0, None), "an invented end: {self:?}");
        let errors = self.errors();
        assert_eq!(errors.len(), 1, "error events: {self:?}");
        let last = self.events.last().map(|event| &event.raw);
        assert_eq!(last, Some(&errors[0].raw), "something follows the error event: {self:?}");
        let (event, error) = (errors[0].json(), self.error());
        assert!(errors[0].raw.starts_with(b"data: {\"error\":{"), "{self:?}");
        assert!(event.get("choices").is_none(), "{self:?}");
        assert!(error["message"].is_string() && error["type"].is_string(), "{self:?}");
        assert!(error["code"].is_string() || error["code"].is_number(), "{self:?}");
        assert!(error["param"].is_null() || error["param"].is_string(), "{self:?}");
        self.single_lines()
    }
}
