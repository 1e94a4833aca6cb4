//! TLS on the gateway's own listeners, with real handshakes: what is agreed on, what a stranger is told, and how a
//! certificate is changed under running calls.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use harness::client::get;
use harness::prelude::*;
use harness::tls::Identity;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::author_support::sluice;
use crate::expect::{GONE, LATE};
use crate::sdks::BOTH;

const PAIR: [&str; 2] = ["tls/cert.pem", "tls/key.pem"];

fn section() -> Value {
    json!({"cert_file": PAIR[0], "key_file": PAIR[1]})
}

fn identity() -> Identity {
    Identity::new("127.0.0.1")
}

/// A gateway whose listeners at `keys` are this identity.
fn speaks_tls(identity: &Identity, keys: &[&str]) -> Setup {
    let setup = Setup::new()
        .file(PAIR[0], identity.pem())
        .file(PAIR[1], identity.key_pem())
        .set("/plugins/rescan", "10m");
    keys.iter().fold(setup, |setup, key| setup.set(&format!("/{key}"), section()))
}

async fn client(addr: SocketAddr, identity: &Identity) -> std::io::Result<Client> {
    Client::open_tls(addr, &identity.connector(&["http/1.1"])).await
}

/// Both listeners speak plain text again, which is what the end of every case does.
async fn end(mut x: Case) {
    let before = x.gateway.events("config_reloaded").len();
    for key in ["tls", "admin_tls"] {
        x.config.as_object_mut().unwrap().remove(key);
    }
    x.gateway.rewrite(&x.config);
    assert!(x.poll(harness::PATIENCE, async || x.gateway.events("config_reloaded").len() > before).await);
    x.end().await;
}

#[tokio::test]
async fn a_client_gets_the_protocol_that_it_asks_for() {
    let identity = identity();
    let x = speaks_tls(&identity, &["tls"]).start().await;
    for (offered, agreed) in
        [(&["http/1.1"][..], Some(&b"http/1.1"[..])), (&["h2", "http/1.1"], Some(b"h2")), (&[], None)]
    {
        let stream = TcpStream::connect(x.gateway.addr()).await.unwrap();
        let name = ServerName::from(x.gateway.addr().ip());
        let stream = identity.connector(offered).connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), agreed, "{offered:?}");
        if agreed != Some(b"h2") {
            continue;
        }
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(connection);
        let body = json!({"model": "chat", "messages": [{"role": "user", "content": "hello"}]}).to_string();
        let uri = format!("https://{}/v1/chat/completions", x.gateway.addr());
        let request = Request::post(uri).body(Full::new(Bytes::from(body))).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["choices"][0]["message"]["content"], HEALTHY_TEXT);
    }
    let mut one = client(x.gateway.addr(), &identity).await.unwrap().logged(&x.ledger);
    x.call("chat").on(&mut one).await.answered().tags("A/a1", false);
    x.plain("chat").on(&mut one).await.answered();
    x.calls([3, 0, 0]);
    end(x).await;
}

#[tokio::test]
async fn plain_text_where_tls_is_spoken_is_told_so_and_served_nothing() {
    let identity = identity();
    let x = speaks_tls(&identity, &["tls", "admin_tls"]).start().await;
    let r = x.call("chat").await;
    assert_eq!(r.status, 400, "{r:?}");
    assert!(r.json()["error"]["message"].as_str().unwrap().contains("https://"), "{r:?}");
    let r = x.gateway.admin_page("/debug/config").await;
    assert_eq!((r.status, r.json()["error"]["code"].as_str()), (400, Some("invalid_request")), "{r:?}");
    x.calls([0, 0, 0]);
    // Neither a handshake nor HTTP: no byte comes back that is not an alert, and the connection goes.
    for said in [&b"\x00\x01\x02garbage"[..], b"\x16\x03\x01\x00\x05hello", &[0x80, 0x2e, 1, 3, 1]] {
        let mut stream = TcpStream::connect(x.gateway.addr()).await.unwrap();
        stream.write_all(said).await.unwrap();
        let mut got = Vec::new();
        let ended = tokio::time::timeout(harness::PATIENCE / 2, stream.read_to_end(&mut got)).await;
        assert!(ended.is_ok(), "{said:?} is waited for");
        assert!(got.is_empty() || got[0] == 21, "{said:?} got {got:?}");
    }
    let mut one = client(x.gateway.addr(), &identity).await.unwrap().logged(&x.ledger);
    x.call("chat").on(&mut one).await.answered();
    end(x).await;
}

#[tokio::test]
async fn clients_that_say_nothing_hold_up_neither_others_nor_the_end() {
    let identity = identity();
    let mut x = speaks_tls(&identity, &["tls"]).start().await;
    let mut silent = Vec::new();
    for said in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"].repeat(20) {
        let mut stream = TcpStream::connect(x.gateway.addr()).await.unwrap();
        stream.write_all(said).await.unwrap();
        silent.push(stream);
    }
    let mut one = client(x.gateway.addr(), &identity).await.unwrap().logged(&x.ledger);
    x.call("chat").on(&mut one).await.answered();
    drop(one);
    let told = now();
    assert_eq!(x.gateway.stop().await, 0);
    assert!(now() - told < ms(1000) + LATE, "the end took {:?}", now() - told);
}

#[tokio::test]
async fn a_client_that_leaves_or_reads_nothing_is_noticed_behind_tls_too() {
    let identity = identity();
    let x = speaks_tls(&identity, &["tls"]).set("/defaults/client_write", ms(400)).start().await;
    x.a.play([ROLE, TXT("one "), SILENT]);
    let mut one = client(x.gateway.addr(), &identity).await.unwrap().logged(&x.ledger);
    one.send(&x.call("chat").bytes()).await;
    one.contents(1).await;
    let left = now();
    one.close();
    assert!(x.closed_after(&x.a, 0, left).await < GONE + LATE);
    // Bytes behind the request, so that nobody reads the end of the connection.
    let mut two = client(x.gateway.addr(), &identity).await.unwrap().logged(&x.ledger);
    two.send(&[&x.call("chat").bytes()[..], b"\r\nGET"].concat()).await;
    two.contents(1).await;
    let left = now();
    two.close();
    assert!(x.closed_after(&x.a, 1, left).await < GONE + LATE);
    x.a.play([&[ROLE], &vec![TXT(&"x".repeat(64 << 10)); 2000][..]].concat());
    let mut unread = client(x.gateway.addr(), &identity).await.unwrap().logged(&x.ledger);
    unread.send(&x.call("chat").bytes()).await;
    unread.head().await;
    x.a.closed_within(2, harness::PATIENCE).await;
    x.outcome("client_cancelled", 3).await;
    drop(unread);
    end(x).await;
}

#[tokio::test]
async fn another_certificate_is_shown_from_the_next_connection_on_and_a_bad_one_never() {
    let (first, second, third) = (identity(), identity(), identity());
    let mut x = speaks_tls(&first, &["tls"]).set("/defaults/idle", "off").start().await;
    let addr = x.gateway.addr();
    let [cert, key] = PAIR.map(|file| x.gateway.dir().join(file));
    let latch = Latch::new();
    x.a.queue([ROLE, TXT("one "), HOLD(&latch), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    let mut running = client(addr, &first).await.unwrap().logged(&x.ledger);
    running.send(&x.call("chat").bytes()).await;
    running.contents(1).await;

    fs::write(&cert, second.pem()).unwrap();
    let told = x.gateway.wait_for_event("config_rejected", |_| true).await;
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("tls.key_file: the key is not that of the first certificate"), "{told}");
    client(addr, &first).await.expect("the old pair keeps serving");
    client(addr, &second).await.expect_err("half a change is none");
    fs::write(&key, second.key_pem()).unwrap();
    x.reloaded(1).await;
    let mut new = client(addr, &second).await.expect("the new pair").logged(&x.ledger);
    client(addr, &first).await.expect_err("the old one is not shown any more");
    x.call("solo").on(&mut new).await.answered();

    fs::write(&cert, "nothing").unwrap();
    x.gateway.hang_up().await;
    x.gateway
        .wait_for_event("config_rejected", |told| told["message"].as_str().unwrap().contains("cert_file"))
        .await;
    client(addr, &second).await.expect("a file that is no certificate changes nothing");
    // A configuration that names other files.
    fs::write(x.gateway.dir().join("other.pem"), [third.pem(), third.key_pem()].concat()).unwrap();
    x.change("/tls", json!({"cert_file": "other.pem", "key_file": "other.pem"}));
    x.reloaded(2).await;
    client(addr, &third).await.expect("the pair of the new paths");
    let until = x.metric("sluice_tls_certificate_expires_timestamp_seconds", &[("listener", "main")]).await;
    // What the certificates of the tests are made with: the end of the year 4095.
    assert!((until - 67_090_118_400.0).abs() < 86_400.0 * 366.0, "{until}");

    latch.open();
    running.finish().await.answered();
    x.call("solo").on(&mut running).await.answered();
    drop((running, new));
    end(x).await;
}

/// A request on a connection that stays.
fn stays(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: sluice\r\n\r\n").into_bytes()
}

#[tokio::test]
async fn tls_switched_on_or_off_ends_the_connections_that_speak_otherwise() {
    let identity = identity();
    let mut x = speaks_tls(&identity, &[]).set("/defaults/idle", "off").start().await;
    let (main, admin) = (x.gateway.addr(), x.gateway.admin_addr());
    for on in [true, false] {
        let open = async |addr| match on {
            true => Client::open(addr).await,
            false => client(addr, &identity).await.unwrap(),
        };
        let mut idle = [open(main).await, open(admin).await];
        for idle in &mut idle {
            idle.send(&stays("/livez")).await;
            assert_eq!(idle.finish().await.status, 200);
        }
        let latch = Latch::new();
        x.a.queue([ROLE, TXT("one "), HOLD(&latch), TXT("two "), TXT("three"), FIN("stop"), DONE]);
        let mut busy = open(main).await.logged(&x.ledger);
        busy.send(&x.call("chat").bytes()).await;
        busy.contents(1).await;

        let before = x.gateway.events("config_reloaded").len();
        for key in ["tls", "admin_tls"] {
            let config = x.config.as_object_mut().unwrap();
            if on {
                config.insert(key.to_owned(), section())
            } else {
                config.remove(key)
            };
        }
        x.gateway.rewrite(&x.config);
        for idle in &mut idle {
            assert!(idle.closes(harness::PATIENCE).await, "on: {on}: an idle connection stays");
        }
        let told = x.poll(harness::PATIENCE, async || x.gateway.events("config_reloaded").len() > before);
        assert!(told.await, "{}", x.gateway.log());
        latch.open();
        busy.finish().await.answered();
        assert!(busy.closes(harness::PATIENCE).await, "on: {on}: one whose call is over stays");
        let mut new = if on { client(main, &identity).await.unwrap() } else { x.connect().await };
        x.call("solo").on(&mut new).await.answered();
    }
    x.end().await;
}

#[tokio::test]
async fn a_pair_that_cannot_serve_is_no_start() {
    let one = identity();
    let setup = speaks_tls(&one, &["tls", "admin_tls"]).file(PAIR[1], identity().key_pem());
    let Err(refused) = setup.try_start().await else { panic!("it started") };
    assert_eq!(refused.code, Some(2), "{}", refused.log);
    let lines: Vec<_> = refused.log.lines().filter(|line| line.contains("tls.key_file: ")).collect();
    assert_eq!(lines.len(), 2, "{}", refused.log);
    assert!(!refused.log.contains("PRIVATE"), "{}", refused.log);
}

#[tokio::test]
async fn the_admin_pages_and_the_commands_that_read_them_speak_tls() {
    let identity = identity();
    let x = speaks_tls(&identity, &["admin_tls"]).start().await;
    x.call("chat").await.answered();
    let admin = x.gateway.admin_addr();
    let mut one = client(admin, &identity).await.unwrap();
    one.send(&get("/readyz")).await;
    assert_eq!(one.finish().await.status, 200);
    let here = x.gateway.dir();
    let url = format!("https://{admin}/");
    let said = sluice(here, &["plugins", "--admin", &url, "--ca-file", PAIR[0]]).await;
    assert!(said.code == 0 && said.out.contains("weighted-router"), "{}", said.all());
    let plain = admin.to_string();
    for (args, words) in [
        (&["--admin", &url][..], "no TLS connection"),
        (&["--admin", &url, "--ca-file", PAIR[1]], "found none"),
        (&["--admin", &url, "--ca-file", "absent.pem"], "absent.pem"),
        (&["--admin", &plain], "does it speak TLS"),
    ] {
        let said = sluice(here, &[&["plugins"], args].concat()).await;
        assert!(said.code == 1 && said.err.contains(words), "{args:?}: {}", said.all());
    }
    end(x).await;
}

#[tokio::test]
async fn a_certificate_of_an_authority_is_told_from_one_that_is_not_trusted() {
    let identity = Identity::of_authority("127.0.0.1");
    let x = speaks_tls(&identity, &["admin_tls"]).start().await;
    let (here, url) = (x.gateway.dir(), format!("https://{}", x.gateway.admin_addr()));
    let said = sluice(here, &["plugins", "--admin", &url, "--ca-file", PAIR[0]]).await;
    assert_eq!(said.code, 1, "{}", said.all());
    assert!(said.err.contains("basicConstraints=critical,CA:FALSE"), "{}", said.all());
    assert!(!said.err.contains("--ca-file"), "it does not help: {}", said.all());
    let warned = "admin_tls.cert_file: warning: the certificate is marked as an authority's";
    assert!(x.gateway.log().contains(warned), "{}", x.gateway.log());
    // Whom it does not know it still says so.
    let stranger = self::identity();
    fs::write(here.join("stranger.pem"), stranger.pem()).unwrap();
    let [cert, key] = PAIR.map(|file| here.join(file));
    fs::write(cert, stranger.pem()).unwrap();
    fs::write(key, stranger.key_pem()).unwrap();
    x.gateway.wait_for_event("config_reloaded", |_| true).await;
    fs::write(here.join("first.pem"), identity.pem()).unwrap();
    let said = sluice(here, &["plugins", "--admin", &url, "--ca-file", "first.pem"]).await;
    assert!(said.err.contains("--ca-file FILE names whom to trust"), "{}", said.all());
    let said = sluice(here, &["plugins", "--admin", &url, "--ca-file", "stranger.pem"]).await;
    assert_eq!(said.code, 0, "{}", said.all());
    end(x).await;
}

#[tokio::test]
async fn a_certificate_is_told_of_before_its_end_and_when_that_is_there() {
    let day = Duration::from_secs(86_400);
    let x = speaks_tls(&Identity::for_so_long("127.0.0.1", 6 * day), &["tls"]).start().await;
    let soon = "tls.cert_file: warning: the certificate expires soon, at ";
    assert!(x.gateway.log().contains(soon), "{}", x.gateway.log());
    let bare = json!({
        "tls": section(), "upstreams": {"a": {"base_url": "http://127.0.0.1:9/v1", "models": {"m": {}}}},
        "routes": {"chat": {"targets": ["a/m"]}},
    });
    fs::write(x.gateway.dir().join("bare.yaml"), bare.to_string()).unwrap();
    let check = async || sluice(x.gateway.dir(), &["check", "-c", "bare.yaml"]).await;
    let said = check().await;
    assert!(said.code == 0 && said.out.contains(soon), "{}", said.all());

    let put = |identity: &Identity| {
        let [cert, key] = PAIR.map(|file| x.gateway.dir().join(file));
        fs::write(key, identity.key_pem()).unwrap();
        fs::write(cert, identity.pem()).unwrap();
    };
    // Its end comes while it is in use, and nothing else happens.
    put(&Identity::for_so_long("127.0.0.1", Duration::from_secs(4)));
    x.gateway.wait_for_event("certificate_expired", |told| told["listener"] == "main").await;
    assert!(check().await.out.contains("tls.cert_file: warning: the certificate expired at "));

    put(&Identity::for_so_long("127.0.0.1", 8 * day));
    x.gateway.wait_for_event("config_reloaded", |told| told["generation"] == 3).await;
    let said = check().await;
    assert!(!said.out.contains("warning: the certificate"), "{}", said.all());
    end(x).await;
}

#[tokio::test]
async fn both_sdks_call_over_https() {
    let identity = identity();
    let x = speaks_tls(&identity, &["tls"]).start().await;
    let trusted = x.gateway.dir().join(PAIR[0]);
    for sdk in BOTH {
        for mode in ["plain", "stream"] {
            sdk.sees_over_tls(&x, &trusted, "chat", mode, &["--expect", "answer", "--text", HEALTHY_TEXT])
                .await;
        }
    }
    x.calls([4, 0, 0]);
    end(x).await;
}
