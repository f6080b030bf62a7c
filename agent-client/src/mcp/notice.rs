//! What a client tells of its own sandbox, and of the call.

use rmcp::service::{RequestContext, RoleServer};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};
use sidecar_protocol::process::{Permissions, Sandbox};

use super::SANDBOX_STATE;
use super::answer::Failure;
use super::place::Place;

/// Longest text of `_meta` that goes to the audit trail, bytes: ids are shorter.
const MAX_NOTE: usize = 256;
/// Most texts of it that do.
const MAX_NOTES: usize = 16;

/// The sandbox that a client enforces on its own tools. It is kept to beside ours, so it can tighten ours alone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Notice {
    /// The stock client's permissions, and what they are relative to, by paths on the client's side; `None` where it enforces
    /// nothing.
    restricted: Option<Value>,
}

impl Notice {
    /// Reads a notice of either kind: with a permission profile, or with an older client's policy.
    ///
    /// # Errors
    /// [`Failure`]: it says something that is not known, so it cannot be kept to.
    pub(super) fn parse(state: &Value) -> Result<Self, Failure> {
        let permissions = match (state.get("permissionProfile"), state.get("sandboxPolicy")) {
            (Some(profile), _) => profile.clone(),
            (None, Some(policy)) => of_policy(policy)?,
            (None, None) => return Err(unknown("it has neither permissionProfile nor sandboxPolicy")),
        };
        let restricted = match serde_json::from_value(permissions.clone()) {
            Ok(Permissions::Disabled | Permissions::External) => None,
            Ok(Permissions::Managed { .. }) => {
                let mut sandbox = json!({"permissions": permissions});
                if let Some(cwd) = state.get("sandboxCwd").filter(|cwd| cwd.is_string()) {
                    sandbox["cwd"] = cwd.clone();
                }
                Some(sandbox)
            }
            Err(error) => return Err(unknown(&error.to_string())),
        };
        Ok(Self { restricted })
    }
}

fn unknown(why: &str) -> Failure {
    Failure::new(format!(
        "{SANDBOX_STATE}: {why}; what the client's sandbox allows cannot be told, so nothing is done. \
         Update agent-client, or turn the client's sandbox off for this server"
    ))
}

/// The permissions that an older client's policy stands for.
fn of_policy(policy: &Value) -> Result<Value, Failure> {
    let flag = |key: &str| policy.get(key).and_then(Value::as_bool).unwrap_or(false);
    let special = |kind: &str, access: &str| json!({"path": {"type": "special", "value": {"kind": kind}}, "access": access});
    let mut entries = vec![special("root", "read")];
    match policy.get("type").or_else(|| policy.get("mode")).and_then(Value::as_str) {
        Some("danger-full-access") => return Ok(json!({"type": "disabled"})),
        Some("external-sandbox") => return Ok(json!({"type": "external"})),
        Some("read-only") => {}
        Some("workspace-write") => {
            entries.push(special("current_working_directory", "write"));
            if !flag("exclude_tmpdir_env_var") || !flag("exclude_slash_tmp") {
                entries.push(special("slash_tmp", "write"));
            }
            let roots = policy.get("writable_roots").and_then(Value::as_array).cloned().unwrap_or_default();
            entries.extend(roots.into_iter().map(|root| {
                json!({"path": {"type": "path", "path": root}, "access": "write", "missing_path_behavior": "skip"})
            }));
        }
        other => return Err(unknown(&format!("sandboxPolicy is {other:?}"))),
    }
    let network = if flag("network_access") { "enabled" } else { "restricted" };
    Ok(json!({
        "type": "managed",
        "file_system": {"type": "restricted", "entries": entries},
        "network": network,
    }))
}

/// What a call asks for: the profile, and within it what the client's own sandbox allows.
///
/// # Errors
/// [`Failure`]: the client's sandbox names a place that this one cannot see to deny it.
pub(super) fn sandbox(
    profile: Option<String>,
    notice: Option<&Notice>,
    place: &Place,
) -> Result<Option<Sandbox>, Failure> {
    let Some(restricted) = notice.and_then(|notice| notice.restricted.as_ref()) else {
        return Ok(profile.map(Sandbox::profile));
    };
    let read = |error: serde_json::Error| unknown(&error.to_string());
    let raw = to_raw_value(restricted).map_err(read)?;
    let translated = place.translator().sandbox_alone(&raw).map_err(|error| unknown(&error.message))?;
    let sandbox: Sandbox = serde_json::from_str(translated.get()).map_err(read)?;
    Ok(Some(Sandbox { mode: Some(profile.unwrap_or_else(|| "hostDefault".to_owned())), ..sandbox }))
}

/// What the audit trail is to know of a call: which client, which tool, and the ids that the client gives.
pub(super) fn metadata(tool: &str, context: &RequestContext<RoleServer>) -> Option<Value> {
    let mut notes = ids(&context.meta);
    notes.insert("tool".to_owned(), tool.into());
    if let Some(client) = context.peer.peer_info() {
        notes.insert("client".to_owned(), client.client_info.name.clone().into());
    }
    Some(json!({"mcp": notes}))
}

/// The short texts of `_meta`.
fn ids(meta: &Map<String, Value>) -> Map<String, Value> {
    let is_id = |value: &Value| value.as_str().is_some_and(|text| text.len() <= MAX_NOTE);
    let ids =
        meta.iter().filter(|(key, value)| *key != SANDBOX_STATE && *key != "progressToken" && is_id(value));
    ids.take(MAX_NOTES).map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restricted(state: Value) -> Option<Value> {
        Notice::parse(&state).unwrap_or_else(|failure| panic!("{failure}")).restricted
    }

    #[test]
    fn what_restricts_and_what_does_not() {
        for state in [
            json!({"permissionProfile": {"type": "disabled"}, "sandboxCwd": "file:///x"}),
            json!({"permissionProfile": {"type": "external"}}),
            json!({"sandboxPolicy": {"type": "danger-full-access"}, "sandboxCwd": "/x"}),
        ] {
            assert_eq!(restricted(state.clone()), None, "{state}");
        }
        let managed =
            json!({"type": "managed", "file_system": {"type": "unrestricted"}, "network": "enabled"});
        let kept = restricted(json!({"permissionProfile": managed, "sandboxCwd": "file:///x"}));
        assert_eq!(kept, Some(json!({"permissions": managed, "cwd": "file:///x"})));
    }

    #[test]
    fn older_policies() {
        let entries = |state: Value| {
            let restricted =
                restricted(json!({"sandboxPolicy": state, "sandboxCwd": "/x"})).expect("restricted");
            let permissions = &restricted["permissions"];
            (
                permissions["file_system"]["entries"].as_array().expect("entries").clone(),
                permissions["network"].clone(),
            )
        };
        let (read_only, network) = entries(json!({"type": "read-only"}));
        assert_eq!((read_only.len(), network), (1, json!("restricted")));
        let (write, network) = entries(json!({
            "type": "workspace-write", "writable_roots": ["/y"], "network_access": true,
            "exclude_tmpdir_env_var": true, "exclude_slash_tmp": true
        }));
        assert_eq!(network, json!("enabled"));
        assert_eq!(write[1]["path"]["value"]["kind"], "current_working_directory");
        assert_eq!(write[2]["path"]["path"], "/y");
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for state in [
            json!({}),
            json!(null),
            json!({"permissionProfile": {"type": "new"}}),
            json!({"sandboxPolicy": {"type": "new"}}),
            json!({"sandboxPolicy": {"type": "workspace-write", "writable_roots": ["relative"]}}),
        ] {
            assert!(Notice::parse(&state).is_err(), "{state}");
        }
    }

    #[test]
    fn ids_go_to_the_audit_trail_and_nothing_long() {
        let meta = json!({
            "callId": "c1", "threadId": "t1", "progressToken": "p", "n": 1, "long": "x".repeat(300),
            SANDBOX_STATE: {"permissionProfile": {}}
        });
        let Value::Object(meta) = meta else { panic!() };
        assert_eq!(Value::Object(ids(&meta)), json!({"callId": "c1", "threadId": "t1"}));
    }
}
