use super::*;

const MS: Duration = Duration::from_millis(1);
const PATIENCE: Patience =
    Patience { quiet: Duration::from_millis(400), longest: Duration::from_millis(1000) };

/// A look at this time, in milliseconds, that sees this: what it is told.
fn told(settle: &mut Debounce<char>, start: Instant, at: u32, seen: char) -> String {
    match settle.look(seen, start + at * MS) {
        Next::Nothing => "nothing".to_owned(),
        Next::Wait(until) => format!("wait {}", (until - start).as_millis()),
        Next::Judge => "judge".to_owned(),
    }
}

#[test]
fn it_is_judged_once_it_rests_and_not_before() {
    let start = Instant::now();
    for (looks, why) in [
        (&[(0, 'a', "nothing"), (9, 'a', "nothing")][..], "unchanged"),
        (&[(0, 'b', "wait 400"), (399, 'b', "wait 400"), (400, 'b', "judge")], "one write"),
        (&[(0, 'b', "wait 400"), (300, 'c', "wait 700"), (400, 'c', "wait 700"), (700, 'c', "judge")], "two"),
        (&[(0, 'b', "wait 400"), (300, 'a', "wait 700"), (700, 'a', "judge")], "there and back"),
        (
            &[
                (0, 'b', "wait 400"),
                (300, 'c', "wait 700"),
                (600, 'd', "wait 1000"),
                (900, 'e', "wait 1000"),
                (1000, 'f', "judge"),
            ],
            "it never rests",
        ),
    ] {
        let mut settle = Debounce::new(PATIENCE);
        assert_eq!(told(&mut settle, start, 0, 'a'), "wait 400", "the first look");
        settle.judged('a');
        for &(at, seen, want) in looks {
            assert_eq!(told(&mut settle, start, at, seen), want, "{why}, at {at}");
        }
    }
}

#[test]
fn what_was_judged_is_not_judged_again_unless_in_doubt() {
    let start = Instant::now();
    let mut settle = Debounce::new(PATIENCE);
    settle.judged('a');
    assert_eq!(told(&mut settle, start, 0, 'b'), "wait 400");
    settle.judged('b');
    assert_eq!(told(&mut settle, start, 500, 'b'), "nothing");
    settle.doubt();
    assert_eq!(told(&mut settle, start, 501, 'b'), "judge");
    settle.judged('b');
    assert_eq!(told(&mut settle, start, 502, 'b'), "nothing");
    assert_eq!(told(&mut settle, start, 600, 'c'), "wait 1000", "a first change of its own");
}

#[test]
fn doubt_gives_what_changes_its_time_and_only_who_asks_does_not() {
    let start = Instant::now();
    let mut settle = Debounce::new(PATIENCE);
    settle.judged('a');
    settle.doubt();
    assert_eq!(told(&mut settle, start, 0, 'b'), "wait 400");
    settle.doubt();
    assert_eq!(told(&mut settle, start, 100, 'b'), "wait 400");
    settle.ask();
    assert_eq!(told(&mut settle, start, 200, 'c'), "judge");
}

#[test]
fn what_changed_while_it_was_read_has_its_time_again() {
    let start = Instant::now();
    let mut settle = Debounce::new(PATIENCE);
    settle.judged('a');
    assert_eq!(told(&mut settle, start, 0, 'b'), "wait 400");
    assert_eq!(told(&mut settle, start, 400, 'b'), "judge");
    settle.stir('b', start + 410 * MS);
    assert_eq!(told(&mut settle, start, 420, 'b'), "wait 810");
    settle.stir('b', start + 800 * MS);
    assert_eq!(told(&mut settle, start, 810, 'b'), "wait 1000", "and still only so long");
}
