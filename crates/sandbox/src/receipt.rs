//! What was enforced for a launch, part by part.

use std::fmt;

/// How far a part is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Not at all.
    Unsupported,
    /// With a gap that [`Receipt::unenforced`] names.
    Partial,
    /// As the policy says.
    Full,
}

impl State {
    /// The name on the wire; also the metric label.
    pub const fn name(self) -> &'static str {
        match self {
            State::Unsupported => "unsupported",
            State::Partial => "partial",
            State::Full => "full",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that the policy asks for and nothing here can enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unenforced {
    /// What.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// What was enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// `full`, `partial` or `none`.
    pub status: &'static str,
    /// The Landlock ABI in use; 0 where there is none.
    pub abi: u32,
    /// The profile's name; `custom` for translated permissions.
    pub profile: String,
    /// Each part by its name on the wire.
    pub parts: Vec<(&'static str, State)>,
    /// The gaps.
    pub unenforced: Vec<Unenforced>,
}
