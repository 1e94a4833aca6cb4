use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Looks at these pairs of (time of day, monotonic), in seconds since the begin, with a day to keep, and gives
/// how many seconds after the begin the trusted time of day was.
fn trusted(looks: &[(i64, u64)]) -> Vec<i64> {
    let (begin, at) = (SystemTime::UNIX_EPOCH + 1000 * DAY, Instant::now());
    let mut horizon = Horizon::new(begin, at);
    let wall = |s: i64| if s < 0 { begin - secs(s.unsigned_abs()) } else { begin + secs(s.unsigned_abs()) };
    let look = |&(seen, passed): &(i64, u64)| {
        let cutoff = horizon.cutoff(wall(seen), at + secs(passed), DAY).expect("long after the epoch");
        match (cutoff + DAY).duration_since(begin) {
            Ok(after) => i64::try_from(after.as_secs()).expect("small"),
            Err(before) => -i64::try_from(before.duration().as_secs()).expect("small"),
        }
    };
    looks.iter().map(look).collect()
}

#[test]
fn a_clock_that_jumps_ahead_does_not_make_everything_old() {
    let year = 365 * 24 * 3600;
    for (what, looks, want) in [
        ("time passes", vec![(60, 60), (120, 120)], vec![60, 120]),
        ("drift is followed", vec![(100, 60), (170, 120)], vec![100, 170]),
        ("a jump ahead is not believed", vec![(60, 60), (year, 120), (year + 60, 180)], vec![60, 120, 180]),
        ("nor once it is over", vec![(year, 60), (120, 120)], vec![60, 120]),
        (
            "until it has stood",
            vec![(year, 60), (year + 3600, 3659), (year + 3601, 3660)],
            vec![60, 3659, year + 3601],
        ),
        ("two jumps do not add up", vec![(year, 60), (100, 100), (year, 3700)], vec![60, 100, 3700]),
        ("a jump back is believed at once", vec![(-5000, 60), (-4940, 120)], vec![-5000, -4940]),
    ] {
        assert_eq!(trusted(&looks), want, "{what}");
    }
}

#[test]
fn there_is_no_time_before_all_time() {
    let mut horizon = Horizon::new(SystemTime::UNIX_EPOCH, Instant::now());
    let cutoff = horizon.cutoff(SystemTime::UNIX_EPOCH, Instant::now(), Duration::MAX);
    assert_eq!(cutoff, None);
}
