//! After the table, without `--once`: the edge stays up, its counters are shown as they move,
//! and a person is told how to send a request by hand.

use super::counters::Counters;
use super::interrupt::Interrupt;
use super::report::print;
use super::scene::Scene;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// How often the counters are read.
const REFRESH: Duration = Duration::from_millis(500);

/// Shows the counters until somebody asks to end.
///
/// # Errors
/// When a daemon ends by itself, or its counters cannot be read.
pub(super) fn stay(scene: &mut Scene, interrupt: &Interrupt, quiet: bool) -> anyhow::Result<()> {
    if !quiet {
        print(&by_hand(scene))?;
    }
    let terminal = std::io::stdout().is_terminal();
    let start = scene.admin.counters(scene.stage.server())?;
    let mut last = String::new();
    loop {
        scene.check_alive()?;
        let now = scene.admin.counters(scene.stage.server())?.since(&start);
        let text = format!("since the table: {}", tell(&now));
        // The counters of every packet move all the time and are not told.
        if text != last && !quiet {
            if terminal {
                let mut out = std::io::stdout().lock();
                write!(out, "\r\x1b[2K{text}")?;
                out.flush()?;
            } else {
                print(&text)?;
            }
            last = text;
        }
        if interrupt.sleep(REFRESH).is_err() {
            if terminal && !quiet {
                print("")?;
            }
            return Ok(());
        }
    }
}

fn tell(counters: &Counters) -> String {
    let mut words = vec![format!("{} connections accepted", counters.accepted)];
    for (half, counts) in [
        ("kernel", &counters.kernel),
        ("userspace", &counters.userspace),
    ] {
        for (name, count) in counts {
            // Of the kernel's counters only those about hellos: every packet has one.
            let noise = [
                "packets",
                "no_payload",
                "not_hello",
                "other_protocol",
                "other_port",
                "other_ether_type",
            ];
            if !noise.contains(&name.as_str()) {
                words.push(format!("{half} {name} {count}"));
            }
        }
    }
    words.join(", ")
}

fn by_hand(scene: &Scene) -> String {
    let enter = scene.stage.client().prefix();
    let (name, ca) = (scene.clients.name, scene.clients.ca.display());
    let (v4, port) = (scene.v4, scene.v4.port());
    let ip = v4.ip();
    let token = scene.edge.token_command(&scene.key);
    let key = scene.key.file.display();
    let edge_demo = scene.clients.edge_demo.display();
    let body = r#"{"model":"claude-demo","max_tokens":64,"stream":true,"messages":[{"role":"user","content":"hello"}]}"#;
    format!(
        r#"
The edge stays up until Ctrl-C. To try it by hand, in another terminal:

  # the legacy lane, as any client: no token, the key in a header
  {enter}curl --cacert {ca} --resolve {name}:{port}:{ip} https://{name}:{port}/v1/messages \
    -H "x-api-key: $(cat {key})" -H "anthropic-version: 2023-06-01" -H "content-type: application/json" \
    -d '{body}'

  # the zero lane: a token in the ClientHello (good for 30 seconds), made by `edge token`
  {enter}{edge_demo} client --to {v4} --name {name} --ca {ca} --alpn h2,http/1.1,$({token}) \
    --api-key-file {key} --anthropic-version 2023-06-01 --body '{body}'

  # a token that nobody issued: {refuses}
  {enter}openssl s_client -connect {v4} -servername {name} -CAfile {ca} -alpn http/1.1,{unissued}

  # what the edge counted
  {server}curl -s http://{admin}/status
"#,
        refuses = if scene.stage.kernel_half() {
            "the kernel answers, the daemon never hears of it"
        } else {
            "the daemon answers"
        },
        unissued = format_args!("ezl1-{:056}", 0),
        server = scene.stage.server().prefix(),
        admin = scene.admin.edge,
    )
}
