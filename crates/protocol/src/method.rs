//! The one table of methods. The names are also the metric labels.

/// Which handshake message an early call gets, and which handler serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// `initialize`
    Session,
    /// `process/*`, `environment/*` and `session/end`
    Exec,
    /// `fs/*`
    Filesystem,
}

macro_rules! methods {
    ($($variant:ident = $name:literal, $group:ident;)*) => {
        /// A method that the server answers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Method {
            /// Every method, in the table's order.
            pub const ALL: &'static [Method] = &[$(Method::$variant,)*];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Method::$variant => $name,)* }
            }

            /// The method of that name.
            pub fn from_name(name: &str) -> Option<Method> {
                match name { $($name => Some(Method::$variant),)* _ => None }
            }

            /// The group that it belongs to.
            pub const fn group(self) -> Group {
                match self { $(Method::$variant => Group::$group,)* }
            }
        }
    };
}

methods! {
    Initialize = "initialize", Session;
    EnvironmentInfo = "environment/info", Exec;
    EnvironmentStatus = "environment/status", Exec;
    SessionEnd = "session/end", Exec;
    ProcessStart = "process/start", Exec;
    ProcessRead = "process/read", Exec;
    ProcessWrite = "process/write", Exec;
    ProcessSignal = "process/signal", Exec;
    ProcessTerminate = "process/terminate", Exec;
    ProcessCloseStdin = "process/closeStdin", Exec;
    ProcessResize = "process/resize", Exec;
    ProcessWait = "process/wait", Exec;
    ProcessList = "process/list", Exec;
    ProcessSnapshot = "process/snapshot", Exec;
    FsReadFile = "fs/readFile", Filesystem;
    FsWriteFile = "fs/writeFile", Filesystem;
    FsCreateDirectory = "fs/createDirectory", Filesystem;
    FsGetMetadata = "fs/getMetadata", Filesystem;
    FsReadDirectory = "fs/readDirectory", Filesystem;
    FsRemove = "fs/remove", Filesystem;
    FsCopy = "fs/copy", Filesystem;
    FsRename = "fs/rename", Filesystem;
    FsCreateSymlink = "fs/createSymlink", Filesystem;
    FsCanonicalize = "fs/canonicalize", Filesystem;
    FsWalk = "fs/walk", Filesystem;
    FsOpen = "fs/open", Filesystem;
    FsReadBlock = "fs/readBlock", Filesystem;
    FsWriteBlock = "fs/writeBlock", Filesystem;
    FsClose = "fs/close", Filesystem;
    FsWatchMissing = "fs/watchMissing", Filesystem;
    FsWatch = "fs/watch", Filesystem;
    FsUnwatch = "fs/unwatch", Filesystem;
}

/// The client's notification that ends the handshake.
pub const INITIALIZED: &str = "initialized";
/// The client's notification of what it has received. An addition of ours.
pub const PROCESS_ACK: &str = "process/ack";
/// The server's notification of new output.
pub const PROCESS_OUTPUT: &str = "process/output";
/// The server's notification that the process itself has ended.
pub const PROCESS_EXITED: &str = "process/exited";
/// The server's notification that all output was delivered.
pub const PROCESS_CLOSED: &str = "process/closed";
/// The server's notification that a path has appeared, or gone.
pub const FS_MISSING_CHANGED: &str = "fs/missingChanged";
/// The server's notification of what has changed below a directory. An addition of ours.
pub const FS_CHANGED: &str = "fs/changed";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for m in Method::ALL {
            assert_eq!(Method::from_name(m.name()), Some(*m));
        }
        assert_eq!(Method::from_name("http/request"), None);
    }
}
