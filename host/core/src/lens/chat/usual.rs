//! The usual shape of an event or answer, read in one walk. Of anything else nothing is said here.

use super::{Chunk, Marker, Meaning, RawChoice, RawDelta, RawUsage};
use crate::lens::presence::Presence;
use crate::lens::quick::Quick;

/// What an event is; none: it is not of the usual shape, or no JSON at all.
pub(super) fn read(text: &str) -> Option<Meaning> {
    let mut reader = Quick::new(text);
    let (mut seen, mut choices, mut usage) = (Seen::default(), None, None);
    reader.object(|reader, key| match key {
        b"choices" => {
            seen.once(0)?;
            choices = read_choices(reader)?;
            Some(())
        }
        b"usage" => {
            seen.once(1)?;
            usage = read_usage(reader)?;
            Some(())
        }
        // An error is for the general reader to find.
        b"error" => {
            seen.once(2)?;
            (!presence(reader)?.says).then_some(())
        }
        b"object" => {
            seen.once(3)?;
            (marker(reader)? != Marker::Error).then_some(())
        }
        _ => reader.skip(),
    })?;
    reader.ended()?;
    Some(match choices {
        Some(chunk) => Meaning::Chunk(Chunk { usage: usage.as_ref().and_then(RawUsage::read), ..chunk }),
        None => Meaning::Nothing,
    })
}

/// Members that may come once only.
#[derive(Default)]
struct Seen(u32);

impl Seen {
    fn once(&mut self, member: u32) -> Option<()> {
        let bit = 1 << member;
        let first = self.0 & bit == 0;
        self.0 |= bit;
        first.then_some(())
    }
}

fn read_choices(reader: &mut Quick<'_>) -> Option<Option<Chunk>> {
    if reader.null()? {
        return Some(None);
    }
    let mut chunk = Chunk { empty: true, ..Chunk::default() };
    reader.list(|reader| {
        chunk.add(&read_choice(reader)?);
        Some(())
    })?;
    Some(Some(chunk))
}

fn read_choice(reader: &mut Quick<'_>) -> Option<RawChoice> {
    let (mut seen, mut choice) = (Seen::default(), RawChoice::default());
    reader.object(|reader, key| {
        match key {
            b"index" => {
                seen.once(0)?;
                choice.index = number(reader)?;
            }
            b"delta" => {
                seen.once(1)?;
                choice.delta = read_delta(reader)?;
            }
            b"message" => {
                seen.once(2)?;
                choice.message = read_delta(reader)?;
            }
            b"text" => {
                seen.once(3)?;
                choice.text = presence(reader)?;
            }
            b"finish_reason" => {
                seen.once(4)?;
                choice.finish_reason = marker(reader)?;
            }
            _ => reader.skip()?,
        }
        Some(())
    })?;
    Some(choice)
}

fn read_delta(reader: &mut Quick<'_>) -> Option<Option<RawDelta>> {
    if reader.null()? {
        return Some(None);
    }
    let (mut seen, mut delta) = (Seen::default(), RawDelta::default());
    reader.object(|reader, key| {
        let (member, slot) = match key {
            b"content" => (0, &mut delta.content),
            b"reasoning" => (1, &mut delta.reasoning),
            b"reasoning_content" => (2, &mut delta.reasoning_content),
            b"reasoning_details" => (3, &mut delta.reasoning_details),
            b"thinking" => (4, &mut delta.thinking),
            b"tool_calls" => (5, &mut delta.tool_calls),
            b"function_call" => (6, &mut delta.function_call),
            b"refusal" => (7, &mut delta.refusal),
            b"audio" => (8, &mut delta.audio),
            _ => return reader.skip(),
        };
        seen.once(member)?;
        *slot = presence(reader)?;
        Some(())
    })?;
    Some(Some(delta))
}

fn read_usage(reader: &mut Quick<'_>) -> Option<Option<RawUsage>> {
    if reader.null()? {
        return Some(None);
    }
    let (mut seen, mut usage) = (Seen::default(), RawUsage::default());
    reader.object(|reader, key| {
        let (member, slot) = match key {
            b"prompt_tokens" => (0, &mut usage.prompt_tokens),
            b"completion_tokens" => (1, &mut usage.completion_tokens),
            b"input_tokens" => (2, &mut usage.input),
            b"output_tokens" => (3, &mut usage.output),
            _ => return reader.skip(),
        };
        seen.once(member)?;
        *slot = number(reader)?;
        Some(())
    })?;
    Some(Some(usage))
}

fn number(reader: &mut Quick<'_>) -> Option<Option<u64>> {
    if reader.null()? { Some(None) } else { reader.whole().map(Some) }
}

fn presence(reader: &mut Quick<'_>) -> Option<Presence> {
    let says = |says| Presence { says, text: 0 };
    match reader.peek()? {
        b'"' => reader.string().map(|string| Presence { says: string.text > 0, text: string.text }),
        b'n' => reader.skip().map(|()| says(false)),
        b'[' => reader.list(Quick::skip).map(|items| says(items > 0)),
        b'{' | b't' | b'f' => reader.skip().map(|()| says(true)),
        _ => None,
    }
}

fn marker(reader: &mut Quick<'_>) -> Option<Marker> {
    match reader.peek()? {
        b'"' => {
            let string = reader.string()?;
            match string.raw {
                _ if string.escaped => None,
                b"" => Some(Marker::None),
                b"error" => Some(Marker::Error),
                _ => Some(Marker::Other),
            }
        }
        b'n' => reader.skip().map(|()| Marker::None),
        b'[' | b'{' | b't' | b'f' => reader.skip().map(|()| Marker::Other),
        _ => None,
    }
}
