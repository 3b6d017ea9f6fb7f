//! bellrock-agent: Bellrock's daemon on every node. See docs/agent.md.

use bellrock_agent::agent::{self, Mode as Run};
use bellrock_agent::config::Config;
use bellrock_agent::{log, memory, print};
use lexopt::prelude::*;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
bellrock-agent: ships what watched programs did to a Bellrock server.

Usage: bellrock-agent [FLAGS]

  --config FILE        settings (TOML); without it the defaults of agent.sample.toml
  --rings DIR          where watched programs put their ring files
  --spool DIR          where records wait until they are acknowledged
  --server HOST:PORT   Bellrock's ingest: on this machine, or with [tls] in the settings on any; unix:/PATH: its socket
  --node NAME          name of this node in every record
  --root DIR           prefix of /proc and of the paths of rings and logs, to run on a capture
  --lwfs-log FILE      trace log of an LWFS client to read; may be given again, and replaces those of the settings
  --lctl FILE          what `lctl get_param` printed, to print as samples of Lustre (with --print); may be given again, each for a later look
  --once               read what is there, ship it, and end
  --steps              take the time from standard input, a line of ns since 1970 for each look; answer with the same line; at its end, as --once (with --root)
  --print              print what logs and captures hold as JSON lines, and end: without spool, server or rings, which are removed once read
  --check              check the settings, and end
  --version, --help

Flags beat the file. SIGTERM and SIGINT end it: it reads and spools a last time and ships for at most 5 s.

Exit codes: 0 ended as asked; 1 it cannot run (the message says why); 2 wrong flags or settings; 3 another agent uses the
spool; 4 with --once or --steps: not everything was acknowledged, the rest waits in the spool or where it was to be read.

Examples:
  bellrock-agent --config /etc/bellrock/agent.toml
  bellrock-agent --config agent.toml --check
  bellrock-agent --spool /tmp/spool --server 127.0.0.1:5044 --once
  printf '1767225600000000000\n' | bellrock-agent --root capture --spool /tmp/spool --server 127.0.0.1:5044 --steps
  bellrock-agent --lwfs-log /var/log/lwfs/client.log --print
  lctl get_param -R '*' > capture; bellrock-agent --lctl capture --print
";

enum Mode {
    Run(Run),
    Check,
    Print,
}

/// Settings and mode, or what to print instead.
fn parse_flags() -> Result<Result<(Config, Mode), String>, String> {
    let hint = |e: lexopt::Error| format!("{e}; run bellrock-agent --help");
    let mut parser = lexopt::Parser::from_env();
    let (mut file, mut root, mut mode) = (None, None, Mode::Run(Run::Watch));
    let (mut rings, mut spool, mut server, mut node) = (None, None, None, None);
    let (mut logs, mut captures) = (Vec::new(), Vec::new());
    while let Some(flag) = parser.next().map_err(hint)? {
        let wanted: &mut Option<String> = match flag {
            Long("config") => &mut file,
            Long("root") => &mut root,
            Long("rings") => &mut rings,
            Long("spool") => &mut spool,
            Long("server") => &mut server,
            Long("node") => &mut node,
            Long("once") => {
                mode = Mode::Run(Run::Once);
                continue;
            }
            Long("steps") => {
                mode = Mode::Run(Run::Steps);
                continue;
            }
            Long("check") => {
                mode = Mode::Check;
                continue;
            }
            Long("print") => {
                mode = Mode::Print;
                continue;
            }
            Long("lwfs-log") => {
                let path = PathBuf::from(parser.value().map_err(hint)?);
                let whole = std::path::absolute(&path);
                logs.push(whole.map_err(|e| format!("--lwfs-log {}: {e}", path.display()))?);
                continue;
            }
            Long("lctl") => {
                captures.push(PathBuf::from(parser.value().map_err(hint)?));
                continue;
            }
            Long("version") => {
                return Ok(Err(format!(
                    "bellrock-agent {}\n",
                    env!("CARGO_PKG_VERSION")
                )))
            }
            Long("help") | Short('h') => return Ok(Err(HELP.into())),
            other => return Err(hint(other.unexpected())),
        };
        *wanted = Some(parser.value().and_then(|v| v.string()).map_err(hint)?);
    }
    let mut config = Config::load(file.map(PathBuf::from).as_deref())?;
    config.root = root.map_or(config.root, PathBuf::from);
    config.rings = rings.map_or(config.rings, PathBuf::from);
    config.spool = spool.map_or(config.spool, PathBuf::from);
    config.server = server.unwrap_or(config.server);
    config.node = node.unwrap_or(config.node);
    if !logs.is_empty() {
        config.lwfs_client_logs = logs;
    }
    config.lctl = captures;
    if !config.lctl.is_empty() && !matches!(mode, Mode::Print) {
        return Err("--lctl: captures are printed only; give --print, too".into());
    }
    if config.root.as_os_str().is_empty() && matches!(mode, Mode::Run(Run::Steps)) {
        return Err("--steps: the time of this machine is no other; give --root DIR, too".into());
    }
    config.finish()?;
    Ok(Ok((config, mode)))
}

fn main() -> ExitCode {
    memory::tune();
    match parse_flags() {
        Ok(Ok((config, Mode::Check))) => {
            if let Err(e) = agent::check(&config) {
                log::error(&e);
                return ExitCode::from(agent::EXIT_USAGE);
            }
            println!(
                "settings are valid: node {}, rings {}, server {}",
                config.node,
                config.rings.display(),
                config.server
            );
            ExitCode::SUCCESS
        }
        Ok(Ok((config, Mode::Print))) => print::run(config),
        Ok(Ok((config, Mode::Run(mode)))) => agent::run(config, mode),
        Ok(Err(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            log::error(&e);
            ExitCode::from(agent::EXIT_USAGE)
        }
    }
}
