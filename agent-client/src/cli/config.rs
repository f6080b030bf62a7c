//! `agent-client config`: what holds, and where it came from.

use std::path::Path;

use agent_client::config::{Config, Layer, Origin};
use serde_json::{Map, Value, json};

use super::connection::Connection;
use super::place;
use super::table::{self, Table, harmless};

/// Print the settings that hold, and where each came from.
///
/// Values of variables whose names hint at a secret are masked. No connection is made.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agent-client config --json")]
pub(super) struct Args {
    /// Print them as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn run(args: Args) -> anyhow::Result<u8> {
    let layers = args.connection.layers()?;
    let here = place::here()?;
    let config = Config::resolve(&layers, &here)?;
    let rows = rows(&layers, &config, &here)?;
    if args.json {
        table::json(&rows)?;
        return Ok(0);
    }
    let mut table = Table::new(&["KEY", "VALUE", "FROM"]);
    for (key, row) in &rows {
        let value = match &row["value"] {
            Value::String(text) => harmless(text),
            Value::Null => "-".to_owned(),
            value => value.to_string(),
        };
        table.row(vec![key.clone(), value, row["from"].as_str().unwrap_or_default().to_owned()]);
    }
    table.print()?;
    Ok(0)
}

/// Each key of a layer, as the strongest layer that has it says.
fn rows(layers: &[Layer], config: &Config, here: &Path) -> anyhow::Result<Map<String, Value>> {
    let defaults = json!({
        "local_root": here,
        "client_name": config.client_name,
        "connect_timeout": humantime::format_duration(config.connect_timeout).to_string(),
        "initialize_timeout": humantime::format_duration(config.initialize_timeout).to_string(),
    });
    let mut rows = Map::new();
    for (key, _) in object(&Layer::default())? {
        let mut row = json!({ "value": defaults[&key], "from": "default" });
        for layer in layers {
            let value = object(layer)?.remove(&key).filter(|value| !value.is_null());
            if key == "env" {
                for (name, value) in value.as_ref().and_then(Value::as_object).into_iter().flatten() {
                    let row = json!({ "value": masked(name, value), "from": origin(&layer.origin, &key) });
                    rows.entry(format!("env.{name}")).or_insert(row);
                }
            } else if let Some(value) = value {
                row = json!({ "value": value, "from": origin(&layer.origin, &key) });
                break;
            }
        }
        if key != "env" {
            rows.insert(key, row);
        }
    }
    Ok(rows)
}

fn object(layer: &Layer) -> anyhow::Result<Map<String, Value>> {
    match serde_json::to_value(layer)? {
        Value::Object(object) => Ok(object),
        other => anyhow::bail!("a layer is no object: {other}"),
    }
}

/// Where the value stands, as its writer calls that place.
fn origin(origin: &Origin, key: &str) -> String {
    match origin {
        Origin::File(path) => path.display().to_string(),
        origin => origin.setting(key),
    }
}

fn masked(name: &str, value: &Value) -> Value {
    let name = name.to_uppercase();
    let is_secret = ["KEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD"].iter().any(|part| name.contains(part));
    if is_secret { json!("***") } else { value.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_its_origin_and_secrets_are_masked() {
        let flags = Layer { client_name: Some("flag".into()), ..Layer::default() };
        let text = "client_name = 'file'\ntoken_file = 't'\n[env]\nA = '1'\nMY_API_KEY = 's3cret'";
        let layers = [flags, Layer::from_toml(Path::new("/x/agent-client.toml"), text).unwrap()];
        let config = Config::resolve(&layers, Path::new("/home/me")).unwrap();
        let rows = rows(&layers, &config, Path::new("/home/me")).unwrap();
        for (key, value, from) in [
            ("client_name", json!("flag"), "--client-name"),
            ("token_file", json!("t"), "/x/agent-client.toml"),
            ("local_root", json!("/home/me"), "default"),
            ("connect_timeout", json!("10s"), "default"),
            ("sidecar_url", Value::Null, "default"),
            ("env.A", json!("1"), "/x/agent-client.toml"),
            ("env.MY_API_KEY", json!("***"), "/x/agent-client.toml"),
        ] {
            assert_eq!(rows[key], json!({ "value": value, "from": from }), "{key}");
        }
    }
}
