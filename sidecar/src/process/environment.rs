//! The environment of a launch: what the request gives, and how much of the server's own it starts from.

use std::collections::BTreeMap;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use sidecar_protocol::RpcError;
use sidecar_protocol::process::{EnvPolicy, Inherit};

/// Names that look like secrets.
const DEFAULT_EXCLUDES: [&str; 3] = ["*KEY*", "*SECRET*", "*TOKEN*"];

/// What `inherit: core` keeps.
const CORE: [&str; 11] =
    ["HOME", "LANG", "LC_*", "LOGNAME", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR", "TZ", "USER"];

/// `env` alone where there is no policy; on top of the server's environment, cut down by the policy, otherwise.
/// `server` holds nothing of the sidecar's own.
pub(crate) fn build(
    server: &BTreeMap<String, String>,
    policy: Option<&EnvPolicy>,
    env: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, RpcError> {
    let Some(policy) = policy else { return Ok(env.clone()) };
    let mut out = match policy.inherit {
        Inherit::None => BTreeMap::new(),
        Inherit::All => server.clone(),
        Inherit::Core => {
            let core = globs(CORE)?;
            server
                .iter()
                .filter(|(name, _)| core.is_match(name))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect()
        }
    };
    if !policy.ignore_default_excludes {
        let secrets = globs(DEFAULT_EXCLUDES)?;
        out.retain(|name, _| !secrets.is_match(name));
    }
    let excluded = globs(policy.exclude.iter().map(String::as_str))?;
    out.retain(|name, _| !excluded.is_match(name));
    out.extend(policy.set.clone());
    if !policy.include_only.is_empty() {
        let included = globs(policy.include_only.iter().map(String::as_str))?;
        out.retain(|name, _| included.is_match(name));
    }
    out.extend(env.clone());
    Ok(out)
}

fn globs<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<GlobSet, RpcError> {
    let bad = |e: globset::Error| RpcError::invalid_params(format!("envPolicy: bad pattern: {e}"));
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(GlobBuilder::new(pattern).case_insensitive(true).build().map_err(bad)?);
    }
    set.build().map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn names(policy: &str, env: &[(&str, &str)]) -> Vec<String> {
        let server = map(&[
            ("PATH", "/bin"),
            ("HOME", "/h"),
            ("LC_ALL", "C"),
            ("api_key", "x"),
            ("GH_TOKEN", "x"),
            ("MySecret", "x"),
            ("EDITOR", "vi"),
        ]);
        let policy: Option<EnvPolicy> = serde_json::from_str(policy).expect(policy);
        let built = build(&server, policy.as_ref(), &map(env)).expect("valid");
        built.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn without_a_policy_env_is_all() {
        assert_eq!(names("null", &[("A", "1")]), ["A=1"]);
    }

    #[test]
    fn inherit() {
        assert_eq!(names(r#"{"inherit":"none"}"#, &[("A", "1")]), ["A=1"]);
        assert_eq!(names(r#"{"inherit":"core"}"#, &[]), ["HOME=/h", "LC_ALL=C", "PATH=/bin"]);
        assert_eq!(names("{}", &[]), ["EDITOR=vi", "HOME=/h", "LC_ALL=C", "PATH=/bin"]);
        assert_eq!(names(r#"{"ignoreDefaultExcludes":true}"#, &[]).len(), 7);
    }

    #[test]
    fn the_order_of_the_steps() {
        // exclude comes before set, includeOnly after it, and env is on top of all.
        assert_eq!(
            names(
                r#"{"exclude":["path","e*"],"set":{"PATH":"/set","X_TOKEN":"t","OTHER":"o"},"includeOnly":["*PATH","x*"]}"#,
                &[("OTHER", "env"), ("PATH", "/env")]
            ),
            ["OTHER=env", "PATH=/env", "X_TOKEN=t"]
        );
    }

    #[test]
    fn a_bad_pattern_is_the_clients_fault() {
        let policy = EnvPolicy { exclude: vec!["[".into()], ..EnvPolicy::default() };
        let error = build(&BTreeMap::new(), Some(&policy), &BTreeMap::new()).expect_err("bad");
        assert_eq!(error.code, sidecar_protocol::error::INVALID_PARAMS);
    }
}
