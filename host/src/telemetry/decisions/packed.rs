//! Texts and numbers one behind the other in one buffer: put down for every request, read when somebody looks.

/// Stands for the length of a text that is not there.
const ABSENT: u32 = u32::MAX;

/// Puts down a number of things that follow.
pub fn count(out: &mut Vec<u8>, things: usize) {
    out.extend_from_slice(&u32::try_from(things).unwrap_or(ABSENT).to_le_bytes());
}

/// Puts down a number that may be absent, which is the same as none.
pub fn number(out: &mut Vec<u8>, number: Option<f64>) {
    out.extend_from_slice(&number.unwrap_or(f64::NAN).to_le_bytes());
}

/// Puts down a text that may be absent. One that is too long for its length to be told is.
pub fn text(out: &mut Vec<u8>, text: Option<&str>) {
    match text.filter(|text| u32::try_from(text.len()).is_ok_and(|length| length != ABSENT)) {
        Some(text) => {
            count(out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
        None => out.extend_from_slice(&ABSENT.to_le_bytes()),
    }
}

/// Reads in the order in which it was put down. What is not there is absent.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// How many things follow.
    pub fn count(&mut self) -> usize {
        self.take().map_or(0, |bytes| u32::from_le_bytes(bytes) as usize)
    }

    /// A number.
    pub fn number(&mut self) -> Option<f64> {
        self.take().map(f64::from_le_bytes).filter(|number| !number.is_nan())
    }

    /// A text.
    pub fn text(&mut self) -> Option<&'a str> {
        let length = u32::from_le_bytes(self.take()?);
        let (text, rest) = self.0.split_at_checked(length as usize).filter(|_| length != ABSENT)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }
}
