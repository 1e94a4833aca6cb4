//! The status page as somebody sees it who was woken: in a real browser, while things go wrong and right again.

use crate::browser::Browser;
use crate::expect::able_again;
use crate::guests::put;
use harness::prelude::*;

/// A script's text that would be an element, were it ever taken for HTML.
const MARKUP: &str = "<img id=evil src=x onerror=document.title='evil'>";

/// The text of the row of a target.
fn row(target: &str) -> String {
    format!(
        "[...document.querySelectorAll('#targets tr')].find((row) => row.querySelector('b').textContent === '{target}').innerText"
    )
}

async fn no_sideways_scrolling(page: &mut Browser, x: &Case) {
    for (width, height) in [(360, 740), (768, 1024), (1360, 900)] {
        page.size(width, height).await;
        for scheme in ["dark", "light"] {
            page.scheme(scheme).await;
            let wide = page.get("document.documentElement.scrollWidth").await;
            assert_eq!(wide, width, "at {width} x {height}, {scheme}");
        }
    }
    page.kept_to(x).await;
}

#[tokio::test]
async fn a_breaker_is_seen_opening_and_closing() {
    let x = Setup::new().set("/breaker/open", "6s").set("/breaker/open_max", "6s").start().await;
    let mut page = Browser::start();
    page.open(&x, "/").await;
    page.until("document.querySelector('#verdict-head').textContent === 'Nothing is wrong'").await;
    page.until(&format!("{}.includes('able')", row("A/a1"))).await;
    x.open_a().await;
    let a = row("A/a1");
    page.until(&format!(r"/open\s+probe in [2-6] s/.test({a})")).await;
    page.until("/problem/.test(document.title) && /A\\/a1 breaker open, 3 failures in a row/.test(document.querySelector('#problems').innerText)").await;
    // It runs down without another look being needed for each second, and says when it is due.
    page.until(&format!(r"/probe in 1 s|next call is its probe/.test({a})")).await;
    able_again(&x, "A/a1").await;
    page.until(&format!("/the next call is its probe|half-open/.test({a})")).await;
    x.call("chat").await.answered().tags("A/a1", false);
    page.until(&format!("/able/.test({a}) && !/open/.test({a})")).await;
    page.until("document.querySelector('#verdict-head').textContent === 'Nothing is wrong'").await;
    page.kept_to(&x).await;
    // And at the end there is nobody to ask.
    let mut gateway = x.end().await;
    gateway.stop().await;
    page.until("document.querySelector('#verdict-head').textContent === 'The gateway does not answer'").await;
    page.until("document.body.className === 'lost' && /as of/.test(document.querySelector('#verdict-more').textContent)").await;
}

#[tokio::test]
async fn a_fallback_has_a_line_of_time_that_shows_both_attempts() {
    let x = Setup::new().start().await;
    x.a.play(JOIN([SLEEP(300).into(), STATUS(503)]));
    x.call("chat").await.answered().tags("B/b1", true);
    let mut page = Browser::start();
    page.open(&x, "/").await;
    page.until("document.querySelectorAll('#requests tr').length === 1").await;
    let said = page.get("document.querySelector('#requests .bar').getAttribute('aria-label')").await;
    let said = said.as_str().unwrap();
    assert!(
        said.starts_with("A/a1 retryable_upstream (503) ") && said.contains(", then B/b1 served "),
        "{said}"
    );
    let widths = page
        .get("['failed', 'served'].map((kind) => document.querySelector(`#requests .part.${kind}`).getBoundingClientRect().width / document.querySelector('#requests .bar').clientWidth)")
        .await;
    let (failed, served) = (widths[0].as_f64().unwrap(), widths[1].as_f64().unwrap());
    assert!(failed > 0.5 && served < 0.5, "the first took most of the time: {failed} and {served}");
    let steps = page.get("document.querySelector('#requests .steps').innerText").await;
    for part in ["A/a1", "retryable_upstream", "B/b1"] {
        assert!(steps.as_str().unwrap().contains(part), "{part}: {steps}");
    }
    page.get("document.querySelector('#requests button').click()").await;
    let details = page.get("document.querySelector('#requests .details').innerText").await;
    assert!(
        details.as_str().unwrap().contains("standard-classifier would retry_same, breaker count"),
        "{details}"
    );
    no_sideways_scrolling(&mut page, &x).await;
    x.end().await;
}

#[tokio::test]
async fn what_others_wrote_is_text_and_never_part_of_the_page() {
    let plugins = json!({"dir": "./plugins.d", "settle": "50ms", "rescan": "1s"});
    let x = Setup::new().set("/plugins", plugins).start().await;
    let mut page = Browser::start();
    page.open(&x, "/").await;
    // The plugin refuses its settings and says which it does not know.
    put(&x, "sly.yaml", json!({"settings": {MARKUP: 1}}).to_string().as_bytes());
    put(&x, "sly.wasm", &std::fs::read("../plugins/weighted-router/weighted-router.wasm").unwrap());
    x.call(MARKUP).await.refused(404, "model_not_found");
    let listed =
        |place: &str| format!("document.querySelector('{place}')?.textContent.includes({})", json!(MARKUP));
    page.until(&listed("#plugins .refused")).await;
    page.until(&listed("#problems")).await;
    page.until(&listed("#requests")).await;
    let elements =
        page.get("document.querySelectorAll('#evil, main img, main script, main style').length").await;
    assert_eq!(elements, 0);
    assert_ne!(page.get("document.title").await, "evil");
    // What would be put there all the same is not run: the policy forbids it.
    let ran = "new Promise((done) => { const script = document.createElement('script'); script.textContent = 'window.ran = true'; \
               document.addEventListener('securitypolicyviolation', () => done(window.ran ?? false)); document.body.append(script); })";
    assert_eq!(page.get(ran).await, false);
    x.end().await;
}

#[tokio::test]
async fn a_large_gateway_is_readable_too() {
    let models: Vec<String> = (0..128).map(|n| format!("model-with-a-name-of-some-length-{n:03}")).collect();
    let named = models.clone();
    let x = Setup::new()
        .edit(move |config, _| {
            config["upstreams"]["A"]["models"] = named.iter().map(|name| (name.clone(), json!({}))).collect();
            config["routes"]["chat"]["targets"] = named.iter().map(|name| format!("A/{name}")).collect();
            config["routes"]["solo"]["targets"] = json!([format!("A/{}", named[0])]);
            config["routes"]["chat3"] = config["routes"]["chat"].clone();
        })
        .set("/routes/chat/max_switches", 8)
        .set("/breaker/consecutive", 1)
        .set("/breaker/open", "60s")
        .set("/breaker/open_max", "60s")
        .start()
        .await;
    for _ in 0..200 {
        x.plain("other").await.answered();
    }
    x.a.play(STATUS(503));
    x.plain("chat").await.refused(503, "retryable_upstream");
    x.a.healthy();
    let mut page = Browser::start();
    page.open(&x, "/").await;
    page.until("/120 of 129 able/.test(document.querySelector('#targets-sum').textContent)").await;
    let first = page.get("[...document.querySelectorAll('#targets tr')].slice(0, 9).every((row) => /open/.test(row.innerText))").await;
    assert_eq!(first, true, "those in trouble come first");
    let problems = page.get("document.querySelector('#problems').innerText").await;
    let problems = problems.as_str().unwrap();
    assert!(
        problems.contains("A 9 targets open") && !problems.contains("model-with"),
        "one cause, one line: {problems}"
    );
    let shown = page.get("document.querySelectorAll('#targets tr').length").await;
    assert!(shown.as_u64().unwrap() < 30, "{shown} targets at once");
    no_sideways_scrolling(&mut page, &x).await;
    page.get(
        "document.querySelector('#targets-more').click(), document.querySelector('#requests-more').click()",
    )
    .await;
    page.until("document.querySelectorAll('#targets tr').length === 129").await;
    page.until("document.querySelectorAll('#requests tr').length === 201").await;
    no_sideways_scrolling(&mut page, &x).await;
    x.end().await;
}
