//! Between the wire's sandbox and the sandbox crate's: what a request asks for, why it is refused, what was enforced.

use std::path::Path;

use sidecar_protocol::process::{
    Access, Enforcement, EntryPath, FileSystem, FileSystemEntry, LimitedNetwork, NetworkAccess, Permissions,
    Sandbox, Unenforced,
};
use sidecar_protocol::{ErrorData, ErrorKind, RpcError};
use sidecar_sandbox as policy;
use sidecar_sandbox::{Network, Options, Receipt, Request};

/// What the request's `sandbox` asks for. `cwd` is what it is relative to where it does not say.
pub(crate) fn request(sandbox: Option<&Sandbox>, cwd: &Path, options: &Options) -> Result<Request, RpcError> {
    let Some(sandbox) = sandbox else { return Ok(Request::Default) };
    let profile = sandbox.mode.as_deref().map(|mode| mode_of(mode, options)).transpose()?;
    Ok(match (profile, permissions(sandbox, cwd)) {
        (Some(Request::Default), Some(permissions)) => Request::Within(options.default.clone(), permissions),
        (Some(Request::Profile(profile)), Some(permissions)) => Request::Within(profile, permissions),
        (_, Some(permissions)) => Request::Permissions(permissions),
        (Some(profile), None) => profile,
        (None, None) if sandbox.permissions.is_some() => Request::Ceiling,
        (None, None) => Request::Default,
    })
}

fn mode_of(mode: &str, options: &Options) -> Result<Request, RpcError> {
    match mode {
        "none" => Ok(Request::Ceiling),
        "hostDefault" => Ok(Request::Default),
        name => options.profile(name).map(Request::Profile).map_err(|e| {
            RpcError::invalid_params(format!("sandbox.mode {name:?}: expected {e}; or hostDefault"))
        }),
    }
}

/// The permissions that are to be enforced here.
fn permissions(sandbox: &Sandbox, cwd: &Path) -> Option<policy::Permissions> {
    let Some(Permissions::Managed { file_system, network }) = &sandbox.permissions else { return None };
    let entries = match file_system {
        FileSystem::Unrestricted => None,
        FileSystem::Restricted { entries } => Some(entries.iter().map(entry).collect()),
    };
    Some(policy::Permissions {
        entries,
        network: *network == NetworkAccess::Enabled,
        cwd: sandbox.cwd.as_ref().map_or(cwd, AsRef::as_ref).to_owned(),
        workspace_roots: sandbox.workspace_roots.iter().map(|root| root.as_path().to_owned()).collect(),
    })
}

fn entry(entry: &FileSystemEntry) -> policy::Entry {
    policy::Entry {
        place: match &entry.path {
            EntryPath::Path { path } => policy::Place::Path(path.as_path().to_owned()),
            EntryPath::GlobPattern { pattern } => policy::Place::Glob(pattern.clone()),
            EntryPath::Special { value } => {
                policy::Place::Special { kind: value.kind.clone(), subpath: value.subpath.clone() }
            }
        },
        access: match entry.access {
            Access::Read => policy::EntryAccess::Read,
            Access::Write => policy::EntryAccess::Write,
            Access::Deny => policy::EntryAccess::Deny,
        },
        skip_missing: entry.missing_path_behavior.as_deref() == Some("skip"),
    }
}

/// The answer to a request whose policy cannot be prepared.
pub(crate) fn refusal(error: &policy::Error) -> RpcError {
    let message = error.to_string();
    let data = ErrorData { stage: Some(String::from("prepare")), ..ErrorData::default() };
    match error {
        policy::Error::Refused(_) | policy::Error::Abi { .. } => {
            RpcError::invalid_request(message).with_data(&data)
        }
        policy::Error::Unavailable(_) => RpcError::internal(message)
            .with_data(&ErrorData { kind: Some(ErrorKind::SandboxUnavailable), ..data }),
        policy::Error::Root { path, source, .. } => {
            RpcError::invalid_request(message).with_data(&ErrorData {
                kind: Some(match source.kind() {
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => ErrorKind::NotFound,
                    std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
                    _ => ErrorKind::Os,
                }),
                errno: source.raw_os_error(),
                path: Some(path.display().to_string()),
                ..data
            })
        }
        policy::Error::Kernel { source, .. } => RpcError::internal(message).with_data(&ErrorData {
            kind: Some(ErrorKind::SandboxUnavailable),
            errno: source.raw_os_error(),
            ..data
        }),
    }
}

/// The receipt as it goes out.
pub(crate) fn enforcement(receipt: &Receipt) -> Enforcement {
    Enforcement {
        status: receipt.status.to_owned(),
        abi: receipt.abi,
        profile: receipt.profile.clone(),
        parts: receipt
            .parts
            .iter()
            .map(|(part, state)| ((*part).to_owned(), state.name().to_owned()))
            .collect(),
        network: match &receipt.network {
            Network::None | Network::Open => None,
            Network::Ports(ports) => Some(LimitedNetwork {
                tcp_connect: ports.connect.as_ref().map(|ports| ports.iter().copied().collect()),
                tcp_bind: ports.bind.as_ref().map(|ports| ports.iter().copied().collect()),
                udp: ports.udp,
            }),
        },
        unenforced: receipt
            .unenforced
            .iter()
            .map(|gap| Unenforced { what: gap.what.clone(), why: gap.why.clone() })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecar_sandbox::Profile;

    fn parse(json: &str) -> Result<Request, RpcError> {
        let sandbox: Option<Sandbox> = serde_json::from_str(json).expect(json);
        let config = crate::config::Config::embedded("/".into()).expect("valid");
        request(sandbox.as_ref(), Path::new("/ws"), &config.sandbox)
    }

    #[test]
    fn modes() {
        assert_eq!(parse("null"), Ok(Request::Default));
        assert_eq!(parse("{}"), Ok(Request::Default));
        assert_eq!(parse(r#"{"mode":"hostDefault"}"#), Ok(Request::Default));
        assert_eq!(parse(r#"{"mode":"none"}"#), Ok(Request::Ceiling));
        assert_eq!(parse(r#"{"mode":"readOnly"}"#), Ok(Request::Profile(Profile::ReadOnly)));
        let error = parse(r#"{"mode":"readonly"}"#).expect_err("unknown");
        assert_eq!(error.code, sidecar_protocol::error::INVALID_PARAMS);
        assert!(error.message.contains("\"readonly\"") && error.message.contains("readOnly"));
    }

    #[test]
    fn a_profile_and_permissions_both_hold() {
        let both = |mode: &str| {
            parse(&format!(
                r#"{{"mode":"{mode}","permissions":{{"type":"managed","file_system":{{"type":"unrestricted"}}}}}}"#
            ))
        };
        assert!(matches!(both("readOnly"), Ok(Request::Within(Profile::ReadOnly, _))));
        assert!(matches!(both("hostDefault"), Ok(Request::Within(Profile::WorkspaceWriteNoNetwork, _))));
        assert!(matches!(both("none"), Ok(Request::Permissions(_))));
        assert!(both("nonsense").is_err());
        let disabled = r#"{"mode":"readOnly","permissions":{"type":"disabled"}}"#;
        assert_eq!(parse(disabled), Ok(Request::Profile(Profile::ReadOnly)));
    }

    #[test]
    fn permissions_of_the_stock_client() {
        for kind in ["disabled", "external"] {
            assert_eq!(parse(&format!(r#"{{"permissions":{{"type":"{kind}"}}}}"#)), Ok(Request::Ceiling));
        }
        let unrestricted = parse(
            r#"{"permissions":{"type":"managed","file_system":{"type":"unrestricted"},"network":"enabled"},"cwd":"file:///c"}"#,
        );
        let Ok(Request::Permissions(p)) = unrestricted else { panic!("{unrestricted:?}") };
        assert_eq!((p.entries, p.network, p.cwd.as_path()), (None, true, Path::new("/c")));
        let restricted = parse(
            r#"{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[
                {"path":{"type":"special","value":{"kind":"project_roots","subpath":".git"}},"access":"read","missing_path_behavior":"skip"},
                {"path":{"type":"path","path":"/a"},"access":"none"},
                {"path":{"type":"glob_pattern","pattern":"**/*.pem"},"access":"write"}]}}}"#,
        );
        let Ok(Request::Permissions(p)) = restricted else { panic!("{restricted:?}") };
        let entries = p.entries.expect("restricted");
        assert!(!p.network);
        assert_eq!(p.cwd, Path::new("/ws"));
        assert!(entries[0].skip_missing && !entries[1].skip_missing);
        assert_eq!(entries[1].access, policy::EntryAccess::Deny);
        assert_eq!(entries[2].place, policy::Place::Glob("**/*.pem".into()));
    }
}
