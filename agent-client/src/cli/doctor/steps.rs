//! The steps themselves. The first fault ends the examination.

use agent_client::config::{Config, Layer};
use agent_client::protocol::ErrorKind;
use agent_client::protocol::error::NOT_FOUND;
use agent_client::{Environment, Error};

use super::probe::{self, Answer};
use super::{Fault, Findings};
use crate::cli::connection::Connection;
use crate::cli::{place, status};

/// Goes from the config to a launch.
pub(super) async fn examine(connection: Connection, findings: &mut Findings) -> Result<(), Fault> {
    let config = config(connection).await?;
    let place = config.elsewhere();
    findings.ok(
        "config",
        place
            .clone()
            .unwrap_or_else(|| "no sidecar_url and no kube: a sidecar runs in this process".to_owned()),
    );
    reachability(place.as_deref(), &config, findings).await?;
    let environment = connect(&config, place.is_none(), findings).await?;
    let examined = within(&environment, &config, findings).await;
    environment.close().await;
    examined
}

fn url_of(layers: &[Layer]) -> Option<String> {
    layers.iter().find_map(|layer| layer.sidecar_url.clone())
}

async fn config(connection: Connection) -> Result<Config, Fault> {
    let fault = |error: Error| {
        Fault::new(
            "config",
            error,
            "correct what it names; `agent-client config` prints what holds and where it came from",
        )
    };
    let layers = connection.layers().map_err(fault)?;
    let here =
        place::here().map_err(|error| Fault::new("config", error, "change to a directory that exists"))?;
    let error = match Config::resolve(&layers, &here) {
        Ok(config) => return Ok(config),
        Err(error) => error,
    };
    // A TLS URL that leads to a plain port is told apart from one that cannot be used at all.
    if let Some(url) = url_of(&layers)
        && let Some(("wss", host, port)) = probe::parts(&url)
        && let Answer::Http { .. } = probe::ask(&host, port, std::time::Duration::from_secs(5)).await
    {
        return Err(tls_to_a_plain_port(&url, &error));
    }
    Err(fault(error))
}

fn tls_to_a_plain_port(url: &str, error: &dyn std::fmt::Display) -> Fault {
    let plain = url.replacen("wss://", "ws://", 1);
    let detail = format!("{url} asks for TLS, and the port speaks plain HTTP ({error})");
    Fault::new("config", detail, format!("set sidecar_url to {plain}"))
}

/// Whether anybody listens, and what it is.
async fn reachability(place: Option<&str>, config: &Config, findings: &mut Findings) -> Result<(), Fault> {
    let check = "reachability";
    let Some(url) = place else {
        findings.ok(check, "in this process");
        return Ok(());
    };
    let Some((scheme, host, port)) = probe::parts(url) else {
        findings.ok(check, "not a TCP address; tried with the handshake");
        return Ok(());
    };
    match probe::ask(&host, port, config.connect_timeout).await {
        Answer::Http { .. } if scheme == "wss" => {
            Err(tls_to_a_plain_port(url, &"an HTTP answer came")).map_err(|fault| Fault { check, ..fault })
        }
        Answer::Http { status: 200, .. } => {
            findings.ok(check, format!("{host}:{port} is ready"));
            Ok(())
        }
        Answer::Http { status: 503, body } => {
            // Why it is not ready, the launch will tell.
            findings.ok(check, format!("{host}:{port} answers, and is not ready: {body}"));
            Ok(())
        }
        Answer::Http { status, .. } => Err(Fault::new(
            check,
            format!(
                "{host}:{port} is a web server that knows no /readyz ({status}); it is no sandbox-sidecar"
            ),
            "set sidecar_url to the URL that sandbox-sidecar prints when it starts",
        )),
        Answer::Tls if scheme == "wss" => {
            findings.ok(check, format!("{host}:{port} speaks TLS"));
            Ok(())
        }
        Answer::Tls => Err(Fault::new(
            check,
            format!("{host}:{port} speaks TLS, and {url} does not"),
            "set sidecar_url to the same with wss://, or to a tunnel that ends TLS before it",
        )),
        Answer::Other => Err(Fault::new(
            check,
            format!("what listens at {host}:{port} does not speak HTTP; it is no sandbox-sidecar"),
            "set sidecar_url to the URL that sandbox-sidecar prints when it starts",
        )),
        Answer::Nobody(why) => Err(Fault::new(
            check,
            format!("nobody answers at {host}:{port}: {why}"),
            format!(
                "start `sandbox-sidecar serve --listen ws://{host}:{port}` there, or set sidecar_url to the URL that it \
                 printed; what lies between must let TCP through"
            ),
        )),
    }
}

async fn connect(config: &Config, is_embedded: bool, findings: &mut Findings) -> Result<Environment, Fault> {
    let environment = match Environment::connect(config).await {
        Ok(environment) => environment,
        Err(error @ (Error::Unauthorized { .. } | Error::TokenRead { .. } | Error::TokenContent { .. })) => {
            return Err(Fault::new(
                "auth",
                error,
                "set token_file to a copy of the token that the server uses: the file of its --token-file, or the one that \
                 it names on stderr when it starts",
            ));
        }
        Err(error) if is_embedded => {
            return Err(Fault::new(
                "handshake",
                error,
                format!(
                    "make local_root ({}) a directory that exists, or set sidecar_url",
                    config.local_root.display()
                ),
            ));
        }
        Err(error) => {
            findings.ok("auth", "nothing was refused");
            let fix = match &config.kube {
                Some(_) => {
                    "check that kubectl exec gets into that pod, and that a sandbox-sidecar runs there by its config"
                }
                None => "check that sidecar_url leads to a sandbox-sidecar, and look into its log",
            };
            return Err(Fault::new("handshake", error, fix));
        }
    };
    let token = match &config.token_file {
        _ if is_embedded => "none is needed in this process".to_owned(),
        _ if config.kube.is_some() => "the pod lets in who may enter it".to_owned(),
        Some(path) => format!("the token of {} is good", path.display()),
        None => "the server asks for no token".to_owned(),
    };
    findings.ok("auth", token);
    let version = environment.info().map_or("a server that tells no version", |info| &info.executor_version);
    findings.ok("handshake", version);
    Ok(environment)
}

async fn within(environment: &Environment, config: &Config, findings: &mut Findings) -> Result<(), Fault> {
    let missing_root = |root: &str, error: &dyn std::fmt::Display| {
        Fault::new(
            "mapping",
            format!("the workspace root {root} is missing on the sidecar's side: {error}"),
            "make it there (mount the volume), or set workspace_root to the directory that holds your files",
        )
    };
    let here =
        place::here().map_err(|error| Fault::new("mapping", error, "change to a directory that exists"))?;
    let there = environment.mapping().to_workspace(&here).map_err(|error| {
        let fix = format!(
            "run it below {}, or set local_root to a directory that holds {}",
            config.local_root.display(),
            here.display()
        );
        Fault::new("mapping", error, fix)
    })?;
    let root = environment.mapping().to_workspace(&config.local_root).unwrap_or_else(|_| there.clone());
    match environment.files().unmapped().metadata(&root).await {
        Ok(metadata) if metadata.is_directory => {}
        Ok(_) => return Err(missing_root(&root.display().to_string(), &"it is no directory")),
        Err(Error::Rpc { error, .. }) if error.code == NOT_FOUND => {
            return Err(missing_root(&root.display().to_string(), &error.message));
        }
        // A sandbox that is not there: the launch says more.
        Err(error) if kind(&error) == Some(ErrorKind::SandboxUnavailable) => {}
        Err(error) => return Err(missing_root(&root.display().to_string(), &error)),
    }
    findings.ok("mapping", format!("{} is {} there", here.display(), there.display()));
    match status::enforcement(environment, config).await {
        Ok(Some(receipt)) => {
            let detail = format!(
                "sandboxed: {} under {}, Landlock ABI {}",
                receipt.status, receipt.profile, receipt.abi
            );
            findings.ok("launch", detail);
            Ok(())
        }
        Ok(None) => Err(Fault::new(
            "launch",
            "the server launched a command and told nothing of a sandbox",
            "set sidecar_url to a sandbox-sidecar, which tells what it enforces",
        )),
        Err(error) => Err(launch_fault(&error)),
    }
}

fn kind(error: &Error) -> Option<ErrorKind> {
    error.data().and_then(|data| data.kind)
}

fn launch_fault(error: &anyhow::Error) -> Fault {
    let own = error.downcast_ref::<Error>();
    let detail = match own {
        Some(Error::Rpc { error, .. }) => error.message.clone(),
        _ => format!("{error:#}"),
    };
    let fix = match own.and_then(kind) {
        Some(ErrorKind::SandboxUnavailable) => {
            "run the sidecar on Linux 5.13 or newer with Landlock among its LSMs, and let the container runtime's seccomp \
             profile pass the landlock calls; `sandbox-sidecar check` there tells what is missing"
        }
        Some(ErrorKind::CwdNotFound) => {
            "make the workspace root on the sidecar's side, or set workspace_root"
        }
        Some(ErrorKind::SpawnNotFound) => "the server names a shell that is not there; its image lacks it",
        _ => "look into the sidecar's log; `sandbox-sidecar check` there tells what it can enforce",
    };
    Fault::new("launch", detail, fix)
}
