//! Until when an X.509 certificate holds: the one field of it that an operator has to be told in time. Nothing
//! else of a certificate is judged here; whoever shows it to clients has had it parsed in full.

/// Seconds since 1970 up to which a certificate (DER) holds; none: it is not one, or its date is none.
#[must_use]
pub fn not_after(certificate: &[u8]) -> Option<i64> {
    let mut outer = Der(certificate);
    let mut certificate = Der(outer.take(SEQUENCE)?);
    let mut body = Der(certificate.take(SEQUENCE)?);
    // The version stands in front where it is not the first.
    if body.0.first() == Some(&VERSION) {
        body.take(VERSION)?;
    }
    body.take(INTEGER)?;
    for _signature_and_issuer in 0..2 {
        body.take(SEQUENCE)?;
    }
    let mut validity = Der(body.take(SEQUENCE)?);
    validity.time()?;
    validity.time()
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// What is left to read.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next value, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (&first, rest) = self.0.split_first()?;
        let (&length, rest) = rest.split_first()?;
        if first != tag {
            return None;
        }
        let (length, rest) = match length {
            0..=0x7f => (usize::from(length), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
                (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(content)
    }

    /// Seconds since 1970 of the next value, a date in either form: `YYMMDDHHMMSSZ` or with all digits of the year.
    fn time(&mut self) -> Option<i64> {
        let (century, text) = match self.0.first()? {
            &UTC_TIME => (None, self.take(UTC_TIME)?),
            _ => {
                let (century, rest) = self.take(GENERALIZED_TIME)?.split_at_checked(2)?;
                (Some(two_digits(century)?), rest)
            }
        };
        let (digits, zone) = text.split_at_checked(12)?;
        if zone != b"Z" {
            return None;
        }
        let mut parts = digits.chunks(2).map(two_digits);
        let mut next = || parts.next().flatten();
        let (year, month, day) = (next()?, next()?, next()?);
        let (hour, minute, second) = (next()?, next()?, next()?);
        let century = century.unwrap_or(if year < 50 { 20 } else { 19 });
        let fits =
            (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
        fits.then(|| days(century * 100 + year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
    }
}

fn two_digits(text: &[u8]) -> Option<i64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    let [tens, ones] = text else { return None };
    Some(digit(tens)? * 10 + digit(ones)?)
}

/// Days since 1970-01-01. Years are counted from March, so that the odd day of a leap year is the last of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let since_march = (month + 9) % 12;
    let days_of_year = (153 * since_march + 2) / 5 + day - 1;
    // From the first of March of the year 0 to 1970-01-01.
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + days_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap_or_default().to_be_bytes();
        let head = match content.len() {
            0..=0x7f => vec![tag, length[1]],
            0x80..=0xff => vec![tag, 0x81, length[1]],
            _ => vec![tag, 0x82, length[0], length[1]],
        };
        [head, content.to_vec()].concat()
    }

    fn certificate(version: bool, tag: u8, until: &str) -> Vec<u8> {
        let validity = [value(UTC_TIME, b"240101000000Z"), value(tag, until.as_bytes())].concat();
        let version = if version { value(VERSION, &[2, 1, 2]) } else { Vec::new() };
        let issuer = value(SEQUENCE, &[0; 300]);
        let body = [version, value(INTEGER, &[7]), value(SEQUENCE, &[]), issuer, value(SEQUENCE, &validity)];
        value(SEQUENCE, &[value(SEQUENCE, &body.concat()), value(SEQUENCE, &[])].concat())
    }

    #[test]
    fn the_end_is_read_in_both_forms_of_a_date() {
        for (version, tag, until, seconds) in [
            (true, UTC_TIME, "700101000000Z", 0),
            (false, UTC_TIME, "491231235959Z", 2_524_607_999),
            (true, UTC_TIME, "500101000000Z", -631_152_000),
            (true, UTC_TIME, "240229123456Z", 1_709_210_096),
            (true, GENERALIZED_TIME, "20500101000000Z", 2_524_608_000),
            (true, GENERALIZED_TIME, "99991231235959Z", 253_402_300_799),
        ] {
            assert_eq!(not_after(&certificate(version, tag, until)), Some(seconds), "{until}");
        }
    }

    #[test]
    fn what_is_no_certificate_has_no_end_however_it_is_cut() {
        let whole = certificate(true, UTC_TIME, "240229123456Z");
        for cut in 0..whole.len() {
            assert_eq!(not_after(&whole[..cut]), None, "cut at {cut}");
        }
        for until in
            ["", "2402291234Z", "240229123456", "24022912345xZ", "241329123456Z", "240229123456+0100"]
        {
            assert_eq!(not_after(&certificate(true, UTC_TIME, until)), None, "{until}");
        }
    }
}
