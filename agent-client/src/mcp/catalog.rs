//! The tools as a client sees them: names, descriptions, schemas, and annotations that are true.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::{Options, arguments, edits, files};
use crate::tools::Window;

pub(super) const EXEC_COMMAND: &str = "exec_command";
pub(super) const WRITE_STDIN: &str = "write_stdin";
pub(super) const READ_FILE: &str = "read_file";
pub(super) const WRITE_FILE: &str = "write_file";
pub(super) const APPLY_PATCH: &str = "apply_patch";
pub(super) const LIST_DIR: &str = "list_dir";
pub(super) const SEARCH: &str = "search";

/// The argument that every tool but `write_stdin` has where calls may name a profile.
pub(super) const PROFILE: &str = "profile";

/// The tools.
pub(super) fn tools(options: &Options) -> Vec<Tool> {
    let changes = |destructive, idempotent, open| {
        ToolAnnotations::new()
            .read_only(false)
            .destructive(destructive)
            .idempotent(idempotent)
            .open_world(open)
    };
    let looks =
        || ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false);
    let mut tools = vec![
        tool::<arguments::ExecCommand, Window>(
            EXEC_COMMAND,
            "Run a command",
            "Runs a command in the sandbox and returns its output (stdout and stderr together) with its exit_code, as soon as \
             it has ended. One that still runs after yield_time_ms is left running: the result has a session_id instead, \
             for write_stdin. Commands do not share a shell: use workdir rather than cd.",
            changes(true, false, true),
        ),
        tool::<arguments::WriteStdin, Window>(
            WRITE_STDIN,
            "Write to a running command",
            "Types into a command that runs on (started with tty: true), or with empty chars only looks at what it has written \
             since. Returns the new output, and exit_code once it has ended. \"\\u0003\" interrupts it.",
            changes(true, false, true),
        ),
        tool::<arguments::ReadFile, files::FileRead>(
            READ_FILE,
            "Read a file",
            "Reads lines of a text file, or shows an image (PNG, JPEG, GIF, WebP). Longer files come in pieces: go on with \
             offset = next_offset.",
            looks(),
        ),
        tool::<arguments::WriteFile, files::Written>(
            WRITE_FILE,
            "Write a file",
            "Creates a file, or replaces all of one. To change a part of a file, apply_patch is safer and shorter.",
            changes(true, true, false),
        ),
        tool::<arguments::ApplyPatch, edits::Patched>(
            APPLY_PATCH,
            "Apply a patch",
            APPLY_PATCH_DESCRIPTION,
            changes(true, false, false),
        ),
        tool::<arguments::ListDir, files::Listed>(
            LIST_DIR,
            "List a directory",
            "Lists the entries of a directory, sorted by path: directories end with \"/\", symlinks show their target.",
            looks(),
        ),
        tool::<arguments::Search, edits::Matches>(
            SEARCH,
            "Search in files",
            "Finds lines that match a regular expression, in a file or a tree. Leaves out binary files, .git and what \
             .gitignore names.",
            looks(),
        ),
    ];
    if !options.allowed_profiles.is_empty() {
        for tool in tools.iter_mut().filter(|tool| tool.name != WRITE_STDIN) {
            offer_profiles(tool, options);
        }
    }
    tools
}

const APPLY_PATCH_DESCRIPTION: &str = "Changes files by a patch: all of it, or nothing. Format:

*** Begin Patch
*** Add File: path/new.txt
+every line of a new file starts with +
*** Update File: path/old.py
*** Move to: path/new_name.py
@@ def the_function_it_is_in():
 three lines of context above, as they are in the file
-a line that goes
+a line that comes
 three lines of context below
*** Delete File: path/gone.txt
*** End Patch

\"*** Move to:\" and \"@@\" are optional. Lines that stay start with a space. Several hunks of a file go from the top down, each \
after its own \"@@\". \"*** End of File\" after a hunk ties it to the end. Paths are relative to the workspace root.";

fn tool<I: JsonSchema, O: JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    annotations: ToolAnnotations,
) -> Tool {
    Tool::new(name, description, Arc::new(schema::<I>(SchemaSettings::draft2020_12())))
        .with_title(title)
        .with_raw_output_schema(Arc::new(schema::<O>(SchemaSettings::draft2020_12().for_serialize())))
        .with_annotations(annotations)
}

/// A schema that plain parsers read too: nothing is referred to, what is optional is left out rather than null.
fn schema<T: JsonSchema>(mut settings: SchemaSettings) -> JsonObject {
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    plain(&mut schema);
    let Value::Object(mut object) = schema else { return JsonObject::new() };
    for key in ["title", "description"] {
        object.remove(key);
    }
    object
}

fn plain(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [kind] = types.as_mut_slice() {
                    let kind = kind.take();
                    object.insert("type".to_owned(), kind);
                }
            }
            // Widths of Rust's numbers say nothing to a model, and some parsers refuse what they do not know.
            object.remove("format");
            object.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

fn offer_profiles(tool: &mut Tool, options: &Options) {
    let mut schema = (*tool.input_schema).clone();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let default = options.profile.as_deref().unwrap_or("the sandbox's own");
        properties.insert(
            PROFILE.to_owned(),
            json!({
                "type": "string",
                "enum": options.allowed_profiles,
                "description": format!("Sandbox profile of this call. Default: {default}."),
            }),
        );
    }
    tool.input_schema = Arc::new(schema);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_plain() {
        let options = Options { allowed_profiles: vec!["readOnly".to_owned()], ..Options::default() };
        for tool in tools(&options) {
            let input = Value::Object((*tool.input_schema).clone());
            assert_eq!(
                (&input["type"], &input["additionalProperties"]),
                (&json!("object"), &json!(false)),
                "{input}"
            );
            for (name, property) in input["properties"].as_object().expect("properties") {
                assert!(property["type"].is_string(), "{}.{name}: {property}", tool.name);
                assert!(property["description"].is_string(), "{}.{name}: {property}", tool.name);
            }
            assert_eq!(input["properties"].get(PROFILE).is_some(), tool.name != WRITE_STDIN);
            let output = Value::Object((*tool.output_schema.clone().expect("output")).clone());
            assert_eq!(output["type"], "object", "{output}");
            assert!(!output.to_string().contains("$ref"), "{output}");
        }
        let without = tools(&Options::default());
        assert!(without.iter().all(|tool| tool.input_schema["properties"].get(PROFILE).is_none()));
    }
}
