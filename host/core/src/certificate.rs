//! What an operator has to be told in time about an X.509 certificate: until when it holds, and whether it says that it is an
//! authority, which clients refuse as a server's. Nothing else of a certificate is judged here; whoever shows it to clients
//! has had it parsed in full.

/// This long before its end a certificate is worth a word, seconds.
pub const SOON: i64 = 7 * 86_400;

/// Seconds since 1970 up to which a certificate (DER) holds; none: it is not one, or its date is none.
#[must_use]
pub fn not_after(certificate: &[u8]) -> Option<i64> {
    let mut validity = Der(body_from_validity(certificate)?.take(SEQUENCE)?);
    validity.time()?;
    validity.time()
}

/// Whether a certificate (DER) says by its basic constraints that it is an authority's.
#[must_use]
pub fn is_authority(certificate: &[u8]) -> bool {
    says_authority(certificate).unwrap_or(false)
}

fn says_authority(certificate: &[u8]) -> Option<bool> {
    let mut body = body_from_validity(certificate)?;
    for _validity_subject_and_key in 0..3 {
        body.take(SEQUENCE)?;
    }
    for unique_id in UNIQUE_IDS {
        if body.0.first() == Some(&unique_id) {
            body.take(unique_id)?;
        }
    }
    let mut outer = Der(body.take(EXTENSIONS)?);
    let mut extensions = Der(outer.take(SEQUENCE)?);
    while !extensions.0.is_empty() {
        let mut extension = Der(extensions.take(SEQUENCE)?);
        if extension.take(OBJECT)? != BASIC_CONSTRAINTS {
            continue;
        }
        if extension.0.first() == Some(&BOOLEAN) {
            extension.take(BOOLEAN)?;
        }
        let mut value = Der(extension.take(OCTETS)?);
        let mut constraints = Der(value.take(SEQUENCE)?);
        return Some(constraints.take(BOOLEAN).is_some_and(|said| said != [0]));
    }
    None
}

/// What is left of the signed part of a certificate from its validity on.
fn body_from_validity(certificate: &[u8]) -> Option<Der<'_>> {
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
    Some(body)
}

/// How a certificate stands with its end near or behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It does not hold any more.
    Over,
    /// It holds for so many seconds still, not more than [`SOON`].
    In(i64),
}

/// How a certificate that holds until `not_after` stands at `now`, both seconds since 1970; none: there is time.
#[must_use]
pub const fn ending(not_after: i64, now: i64) -> Option<Ending> {
    match not_after.saturating_sub(now) {
        ..=0 => Some(Ending::Over),
        left if left <= SOON => Some(Ending::In(left)),
        _ => None,
    }
}

/// After how long, in seconds, to look again for an [`ending`]: when the end comes near, then daily, and when it is there. Never
/// more than a day, since the time of day may jump.
#[must_use]
pub fn look_again(not_after: i64, now: i64) -> i64 {
    const DAY: i64 = 86_400;
    match not_after.saturating_sub(now) {
        left @ 1..=DAY => left,
        left if left > SOON => (left - SOON).min(DAY),
        _ => DAY,
    }
}

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OBJECT: u8 = 0x06;
/// 2.5.29.19.
const BASIC_CONSTRAINTS: [u8; 3] = [0x55, 0x1d, 0x13];
const UNIQUE_IDS: [u8; 2] = [0x81, 0x82];
const EXTENSIONS: u8 = 0xa3;
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
        certificate_with(version, tag, until, &[])
    }

    fn certificate_with(version: bool, tag: u8, until: &str, rest: &[u8]) -> Vec<u8> {
        let validity = [value(UTC_TIME, b"240101000000Z"), value(tag, until.as_bytes())].concat();
        let version = if version { value(VERSION, &[2, 1, 2]) } else { Vec::new() };
        let issuer = value(SEQUENCE, &[0; 300]);
        let body = [
            version,
            value(INTEGER, &[7]),
            value(SEQUENCE, &[]),
            issuer,
            value(SEQUENCE, &validity),
            rest.to_vec(),
        ];
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

    #[test]
    fn an_authority_is_known_by_its_basic_constraints_and_by_nothing_else() {
        let basic = |critical: bool, says: &[u8]| {
            let critical = if critical { value(BOOLEAN, &[0xff]) } else { Vec::new() };
            let said = value(OCTETS, &value(SEQUENCE, says));
            value(SEQUENCE, &[value(OBJECT, &BASIC_CONSTRAINTS), critical, said].concat())
        };
        let other = value(
            SEQUENCE,
            &[value(OBJECT, &[0x55, 0x1d, 0x11]), value(OCTETS, &value(BOOLEAN, &[1]))].concat(),
        );
        let with = |id: &[u8], extensions: &[Vec<u8>]| {
            let extensions = value(EXTENSIONS, &value(SEQUENCE, &extensions.concat()));
            let rest = [value(SEQUENCE, &[]), value(SEQUENCE, &[0; 200]), id.to_vec(), extensions].concat();
            certificate_with(true, UTC_TIME, "240229123456Z", &rest)
        };
        let yes = value(BOOLEAN, &[0xff]);
        let length = [yes.clone(), value(INTEGER, &[0])].concat();
        let id = [value(UNIQUE_IDS[0], &[1]), value(UNIQUE_IDS[1], &[2])].concat();
        for (certificate, want) in [
            (with(&[], &[basic(true, &yes)]), true),
            (with(&[], &[other.clone(), basic(false, &length)]), true),
            (with(&id, &[basic(true, &yes)]), true),
            (with(&[], &[basic(true, &[])]), false),
            (with(&[], &[basic(true, &value(BOOLEAN, &[0]))]), false),
            (with(&[], &[other]), false),
            (certificate(true, UTC_TIME, "240229123456Z"), false),
        ] {
            assert_eq!(is_authority(&certificate), want, "{certificate:02x?}");
        }
        let whole = with(&[], &[basic(true, &yes)]);
        for cut in 0..whole.len() {
            assert!(!is_authority(&whole[..cut]), "cut at {cut}");
        }
    }

    #[test]
    fn there_is_a_word_when_the_end_comes_near_then_daily_and_when_it_is_there() {
        const DAY: i64 = 86_400;
        let not_after = 100 * DAY;
        for (before, want) in [
            (SOON + 1, None),
            (SOON, Some(Ending::In(SOON))),
            (1, Some(Ending::In(1))),
            (0, Some(Ending::Over)),
            (-DAY, Some(Ending::Over)),
        ] {
            assert_eq!(ending(not_after, not_after - before), want, "{before} s before");
        }
        // Who looks each time when told has something to say once a day, and is never asleep when the end comes.
        let (mut now, mut said) = (0, Vec::new());
        while said.len() < 10 {
            now += look_again(not_after, now);
            said.extend(ending(not_after, now).map(|_| (not_after - now) / DAY));
        }
        assert_eq!(said, [7, 6, 5, 4, 3, 2, 1, 0, -1, -2]);
        assert_eq!(look_again(not_after, not_after - 5), 5);
        assert_eq!(look_again(not_after, not_after - SOON - 5), 5);
        assert_eq!(ending(i64::MIN, i64::MAX), Some(Ending::Over));
    }
}
