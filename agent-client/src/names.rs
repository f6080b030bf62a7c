//! Names of tools that carry their server's name: `mcp__<server>__<tool>`.

use std::collections::BTreeMap;

/// What qualified names start with.
const PREFIX: &str = "mcp";
const SEPARATOR: &str = "__";

/// Splits a qualified name into its server and its tool, at the first two `__`; the rest is the tool's name, whatever it
/// holds. `None` for any other name, and where either part is empty.
pub fn split(name: &str) -> Option<(&str, &str)> {
    let rest = name.strip_prefix(PREFIX)?.strip_prefix(SEPARATOR)?;
    let (server, tool) = rest.split_once(SEPARATOR)?;
    (!server.is_empty() && !tool.is_empty()).then_some((server, tool))
}

/// The qualified name of a server's tool.
pub fn join(server: &str, tool: &str) -> String {
    [PREFIX, server, tool].join(SEPARATOR)
}

/// Groups names by their server, in the order given; those that are not qualified are under `None`.
pub fn group<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeMap<Option<&'a str>, Vec<&'a str>> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for name in names {
        let (server, tool) = split(name).map_or((None, name), |(server, tool)| (Some(server), tool));
        groups.entry(server).or_default().push(tool);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_separators_split() {
        for (name, expected) in [
            ("mcp__box__exec_command", Some(("box", "exec_command"))),
            ("mcp__box__a__b", Some(("box", "a__b"))),
            ("mcp__my_box__read", Some(("my_box", "read"))),
            ("mcp__box___x", Some(("box", "_x"))),
            ("mcp__box__", None),
            ("mcp____x", None),
            ("mcp__box", None),
            ("exec_command", None),
            ("xmcp__a__b", None),
            ("", None),
        ] {
            assert_eq!(split(name), expected, "{name}");
        }
        assert_eq!(split(&join("box", "a__b")), Some(("box", "a__b")));
    }

    #[test]
    fn groups_keep_their_order() {
        let groups = group(["mcp__b__z", "shell", "mcp__a__x", "mcp__b__a"]);
        let expected =
            BTreeMap::from([(None, vec!["shell"]), (Some("a"), vec!["x"]), (Some("b"), vec!["z", "a"])]);
        assert_eq!(groups, expected);
    }
}
