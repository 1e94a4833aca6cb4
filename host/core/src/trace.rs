//! Where a request stands in a distributed trace: what a client says about it (`traceparent`, W3C Trace Context), and
//! whether its spans are kept.
//!
//! A client that says so decides, either way; whoever says nothing, or something that is not legible, begins a trace of its
//! own, of which a share is kept.

/// Length of a `traceparent` of version 00.
const LENGTH: usize = 55;

/// What a client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// Not zero.
    pub trace_id: u128,
    /// The client's own span; not zero.
    pub span_id: u64,
    /// The client keeps its spans.
    pub sampled: bool,
}

/// A trace whose spans are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Not zero.
    pub trace_id: u128,
    /// The client's span; none: the trace begins here.
    pub parent: Option<u64>,
}

impl Parent {
    /// Reads a `traceparent`. A version that is not known is read as far as it is like the known one; none: it
    /// is not legible.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (known, more) = text.as_bytes().split_at_checked(LENGTH)?;
        let version = hex(&known[..2])?;
        let fits = match version {
            0 => more.is_empty(),
            0xff => false,
            _ => more.is_empty() || more[0] == b'-',
        };
        if !fits || [2, 35, 52].iter().any(|dash| known[*dash] != b'-') {
            return None;
        }
        let (trace_id, span_id, flags) = (hex(&known[3..35])?, hex(&known[36..52])?, hex(&known[53..])?);
        let span_id = u64::try_from(span_id).ok()?;
        (trace_id != 0 && span_id != 0).then_some(Self { trace_id, span_id, sampled: flags & 1 == 1 })
    }
}

/// Whether the spans of a request are kept, and where they belong. `sample` is the share (0 to 1) of the traces that begin
/// here; `fresh` is a random trace id, used for those alone. It decides by the id, as others who go by the same share do.
#[must_use]
pub fn keep(parent: Option<Parent>, sample: f64, fresh: u128) -> Option<Kept> {
    if let Some(Parent { trace_id, span_id, sampled }) = parent {
        return sampled.then_some(Kept { trace_id, parent: Some(span_id) });
    }
    // The lower half without its last bit: 63 bits, so that a share of 1 keeps every id.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    let place = (fresh as u64) >> 1;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a share needs no more digits than a float has, and floats end at the bounds of the integer"
    )]
    let bound = (sample * (1_u64 << 63) as f64) as u64;
    (fresh != 0 && place < bound).then_some(Kept { trace_id: fresh, parent: None })
}

/// The `traceparent` of a span that is kept.
#[must_use]
pub fn traceparent(trace_id: u128, span_id: u64) -> String {
    format!("00-{trace_id:032x}-{span_id:016x}-01")
}

/// Lower-case digits alone, as the standard has it.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_traceparent_is_taken_apart() {
        for (version, flags, more, sampled) in [
            ("00", "01", "", true),
            ("00", "00", "", false),
            ("00", "02", "", false),
            ("00", "ff", "", true),
            ("01", "01", "", true),
            ("cc", "01", "-what-comes-later", true),
        ] {
            let text = format!("{version}-{TRACE}-{SPAN}-{flags}{more}");
            let parent = Parent {
                trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
                span_id: 0xf0_67aa_0ba9_02b7,
                sampled,
            };
            assert_eq!(Parent::parse(&text), Some(parent), "{text}");
        }
        let own = traceparent(1, 2);
        assert_eq!(own, "00-00000000000000000000000000000001-0000000000000002-01");
        assert_eq!(Parent::parse(&own), Some(Parent { trace_id: 1, span_id: 2, sampled: true }));
    }

    #[test]
    fn what_is_not_legible_is_none() {
        let (none, nobody) = ("0".repeat(32), "0".repeat(16));
        for text in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("01-{TRACE}-{SPAN}-01more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{none}-{SPAN}-01"),
            format!("00-{TRACE}-{nobody}-01"),
            format!("00_{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-0x"),
            format!("00-{}é-{SPAN}-01", &TRACE[2..]),
        ] {
            assert_eq!(Parent::parse(&text), None, "{text}");
        }
    }

    #[test]
    fn a_client_decides_for_itself_and_a_share_of_the_rest_is_kept() {
        let parent = |sampled| Some(Parent { trace_id: 5, span_id: 6, sampled });
        assert_eq!(keep(parent(true), 0.0, 9), Some(Kept { trace_id: 5, parent: Some(6) }));
        assert_eq!(keep(parent(false), 1.0, 9), None);
        let kept = |sample: f64| {
            let ids = (1..=1000_u128)
                .map(|n| n << 64 | u128::from(u64::MAX / 1000 * u64::try_from(n).unwrap_or(0)));
            ids.filter(|id| keep(None, sample, *id).is_some()).count()
        };
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(kept), [0, 250, 500, 1000]);
        assert_eq!(keep(None, 1.0, u128::MAX), Some(Kept { trace_id: u128::MAX, parent: None }));
        assert_eq!(keep(None, 1.0, 0), None, "zero is no id");
    }
}
