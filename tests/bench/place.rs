//! Where a part runs and what it has used: cores, CPU time, memory, and the one clock that processes share.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// The core of the proxies, and the core of upstream and load.
pub const PROXY: usize = 0;
/// See [`PROXY`].
pub const LOAD: usize = 1;

/// `program` on one core.
pub fn on(core: usize, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program);
    command
}

/// Tells the leader where a part listens.
pub fn say(addr: SocketAddr) {
    use std::io::Write as _;
    let mut out = std::io::stdout();
    writeln!(out, "{addr}").and_then(|()| out.flush()).expect("the leader reads it");
}

/// The clock that upstream and load share, nanoseconds.
#[expect(clippy::disallowed_methods, reason = "two processes share this clock and no other")]
pub fn nanoseconds() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos())
}

/// CPU time that a process and its threads have used, seconds, in steps of 10 ms.
pub fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process runs");
    let (_, fields) = stat.rsplit_once(')').expect("a line of that file");
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number of ticks");
    (ticks(11) + ticks(12)) / 100.0
}

/// Resident memory of a process, bytes.
pub fn resident(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of that file");
    line.trim().trim_end_matches("kB").trim().parse::<f64>().expect("a number of kB") * 1024.0
}
