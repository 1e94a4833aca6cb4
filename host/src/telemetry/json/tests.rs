use std::time::UNIX_EPOCH;

use super::*;

fn written(write: impl FnOnce(&mut Json)) -> String {
    let mut json = Json::default();
    write(&mut json);
    String::from_utf8(json.finish()).unwrap()
}

#[test]
fn every_byte_that_needs_an_escape_gets_one_wherever_it_stands() {
    for code in 0..0x180 {
        let c = char::from_u32(code).unwrap();
        for (before, behind) in [(0, 0), (0, 9), (3, 12), (7, 0), (8, 8), (17, 1), (33, 0), (40, 50), (70, 9)]
        {
            let text = format!("{}{c}{}", "x".repeat(before), "é".repeat(behind));
            let json = written(|json| json.text(&text));
            assert_eq!(json, serde_json::to_string(&text).unwrap(), "{code:#x} behind {before}");
        }
    }
}

#[test]
fn numbers_are_spelled_as_everywhere_else() {
    for number in [0, 1, 9, 10, 99, 100, 101, 999, 1000, 65_536, 9_999_999_999, u64::MAX] {
        assert_eq!(written(|json| json.number(number)), number.to_string());
    }
    for number in [0.0, -0.0, 1.0, 0.5, 0.1, 1e-7, 10.25, 1e14, 1e15, 1e16, 1e300, -1.0, -0.25, f64::MAX] {
        assert_eq!(written(|json| json.float(number)), serde_json::to_string(&number).unwrap(), "{number}");
    }
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(written(|json| json.float(number)), "null");
    }
}

#[test]
fn a_time_is_that_of_the_calendar() {
    let day = 86_400;
    let cases = [
        0,
        1,
        59 * day,
        58 * day,
        789 * day,
        790 * day,
        951_782_400,
        951_868_800,
        4_107_542_399,
        4_107_542_400,
    ];
    for second in cases.into_iter().chain((0..2_900_000).step_by(11).map(|days: u64| days * day + days % day))
    {
        let time = UNIX_EPOCH + Duration::from_secs(second) + Duration::from_millis(second % 1000);
        let expected = format!("\"{}\"", humantime::format_rfc3339_millis(time));
        assert_eq!(written(|json| json.time(time)), expected, "{second}");
    }
    let far = UNIX_EPOCH + YEAR_10000;
    assert_eq!(written(|json| json.time(far)), "\"1970-01-01T00:00:00.000Z\"");
    let last = written(|json| json.time(far - Duration::from_millis(1)));
    assert_eq!(last, "\"9999-12-31T23:59:59.999Z\"");
}

#[test]
fn lists_and_absent_values_have_their_syntax() {
    let json = written(|json| {
        json.list([Some("a"), None, Some("b")], |json, item| json.maybe(item, Json::text));
        json.list([0u64; 0], Json::number);
        json.flag(true);
        json.word("word");
    });
    assert_eq!(json, r#"["a",null,"b"][]true"word""#);
}

#[test]
fn any_text_and_any_number_are_spelled_as_everywhere_else() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let text: String = (0..random.usize(..140)).map(|_| random.char('\0'..'\u{100}')).collect();
        assert_eq!(written(|json| json.text(&text)), serde_json::to_string(&text).unwrap());
        let whole = random.u64(..) >> random.u32(..64);
        assert_eq!(written(|json| json.number(whole)), whole.to_string());
        let number = f64::from_bits(random.u64(..));
        assert_eq!(written(|json| json.float(number)), serde_json::to_string(&number).unwrap());
    }
}
