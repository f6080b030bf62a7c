//! Paths in params and replies, from this side to the sidecar's and back. What is not a path of a known method stays as
//! it came, and so does a path that is none: the server says what is wrong with it.

use std::borrow::Cow;

use serde_json::value::RawValue;
use sidecar_protocol::process::Access;
use sidecar_protocol::{ErrorData, ErrorKind, Method, RpcError, WirePath, error};

use super::raw::{Object, text, value};
use crate::error::Error;
use crate::mapping::Mapping;

/// Params on their way to the sidecar.
pub(super) type Params<'a> = Cow<'a, RawValue>;

/// Translates for one pair of roots.
#[derive(Debug, Clone)]
pub(crate) struct Translator {
    mapping: Mapping,
}

/// What a path that has no counterpart comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outside {
    /// It is not there: a client looks for files in every ancestor of its cwd.
    NotFound,
    /// The request is refused.
    Refused,
}

impl Translator {
    pub(crate) fn new(mapping: Mapping) -> Self {
        Self { mapping }
    }

    /// The params as the sidecar is to get them.
    ///
    /// # Errors
    /// The answer to a request about a path that has no counterpart there.
    pub(super) fn params<'a>(&self, method: &str, params: &'a RawValue) -> Result<Params<'a>, RpcError> {
        let Some(method) = Method::from_name(method) else { return Ok(Cow::Borrowed(params)) };
        let is_about_paths = method == Method::ProcessStart || method.name().starts_with("fs/");
        if !is_about_paths {
            return Ok(Cow::Borrowed(params));
        }
        let Some(mut object) = Object::parse(params) else { return Ok(Cow::Borrowed(params)) };
        let outside = outside(method, &object);
        let mut changed = false;
        for key in ["cwd", "path", "sourcePath", "destinationPath"] {
            let Some(path) = object.text(key) else { continue };
            if let Some(there) = self.there(&path, outside)? {
                object.set(key, value(&there));
                changed = true;
            }
        }
        for key in ["missing", "present"] {
            let Some(paths) = object.get(key).and_then(strings) else { continue };
            object.set(key, value(&self.those_inside(&paths)));
            changed = true;
        }
        if let Some(sandbox) = object.get("sandbox").and_then(Object::parse) {
            let sandbox = value(&self.sandbox(sandbox)?);
            object.set("sandbox", sandbox);
            changed = true;
        }
        Ok(if changed { Cow::Owned(value(&object)) } else { Cow::Borrowed(params) })
    }

    /// A `sandbox` that is not part of a request yet, as the sidecar is to get it.
    ///
    /// # Errors
    /// A path that has no counterpart there is denied, or is the cwd.
    pub(crate) fn sandbox_alone(&self, sandbox: &RawValue) -> Result<Box<RawValue>, RpcError> {
        let Some(object) = Object::parse(sandbox) else { return Ok(sandbox.to_owned()) };
        Ok(value(&self.sandbox(object)?))
    }

    /// The sandbox of a request. A grant of what has no counterpart grants nothing and is left out; a denial is not.
    fn sandbox<'a>(&self, mut sandbox: Object<'a>) -> Result<Object<'a>, RpcError> {
        if let Some(cwd) = sandbox.text("cwd")
            && let Some(there) = self.there(&cwd, Outside::Refused)?
        {
            sandbox.set("cwd", value(&there));
        }
        if let Some(roots) = sandbox.get("workspaceRoots").and_then(strings) {
            sandbox.set("workspaceRoots", value(&self.those_inside(&roots)));
        }
        if let Some(permissions) = sandbox.get("permissions").and_then(Object::parse) {
            let permissions = value(&self.permissions(permissions)?);
            sandbox.set("permissions", permissions);
        }
        Ok(sandbox)
    }

    fn permissions<'a>(&self, mut permissions: Object<'a>) -> Result<Object<'a>, RpcError> {
        let Some(mut files) = permissions.get("file_system").and_then(Object::parse) else {
            return Ok(permissions);
        };
        let Some(entries) = files.get("entries").and_then(objects) else { return Ok(permissions) };
        let mut kept = Vec::with_capacity(entries.len());
        for entry in entries {
            kept.extend(self.entry(entry)?);
        }
        let kept = value(&kept);
        files.set("entries", kept);
        let files = value(&files);
        permissions.set("file_system", files);
        Ok(permissions)
    }

    /// One entry of the permissions; `None` leaves it out.
    fn entry<'a>(&self, mut entry: Object<'a>) -> Result<Option<Object<'a>>, RpcError> {
        let Some(mut place) = entry.get("path").and_then(Object::parse) else { return Ok(Some(entry)) };
        if place.text("type").as_deref() != Some("path") {
            return Ok(Some(entry));
        }
        let Some(path) = place.text("path") else { return Ok(Some(entry)) };
        let there = match self.there(&path, Outside::Refused) {
            Ok(None) => return Ok(Some(entry)),
            Ok(Some(there)) => there,
            Err(refusal) => {
                let access = entry.get("access").and_then(|raw| serde_json::from_str(raw.get()).ok());
                return match access {
                    Some(Access::Read | Access::Write) => Ok(None),
                    Some(Access::Deny) | None => Err(refusal),
                };
            }
        };
        place.set("path", value(&there));
        let place = value(&place);
        entry.set("path", place);
        Ok(Some(entry))
    }

    /// A path there; `None` for what is no path.
    fn there(&self, text: &str, outside: Outside) -> Result<Option<String>, RpcError> {
        let Ok(path) = WirePath::parse(text) else { return Ok(None) };
        match self.mapping.to_workspace(path.as_path()) {
            Ok(there) => Ok(Some(path.spelling().write(&there))),
            Err(e) => Err(refusal(text, &e, outside)),
        }
    }

    /// Those that have a counterpart, there. Of the others nothing can be seen, asked for or granted.
    fn those_inside(&self, paths: &[Cow<'_, str>]) -> Vec<String> {
        let there = |path: &Cow<'_, str>| match self.there(path, Outside::NotFound) {
            Ok(there) => Some(there.unwrap_or_else(|| path.to_string())),
            Err(_) => None,
        };
        paths.iter().filter_map(there).collect()
    }

    /// A path here. What has no counterpart is told as it is there.
    fn here(&self, text: &str) -> Option<String> {
        let path = WirePath::parse(text).ok()?;
        let here = self.mapping.to_local(path.as_path())?;
        Some(path.spelling().write(&here))
    }

    /// A result as the client is to get it.
    pub(super) fn result<'a>(&self, method: &str, result: &'a RawValue) -> Cow<'a, RawValue> {
        let translated = match Method::from_name(method) {
            Some(Method::EnvironmentInfo) => Object::parse(result).map(|info| value(&self.info(info))),
            Some(Method::FsCanonicalize) => self.members(result, &["path"]),
            Some(Method::FsGetMetadata) => self.members(result, &["symlinkTarget"]),
            Some(Method::FsWalk) => self.walk(result),
            _ => None,
        };
        translated.map_or(Cow::Borrowed(result), Cow::Owned)
    }

    /// The result of `initialize`.
    pub(super) fn greeting(&self, result: &RawValue) -> Box<RawValue> {
        let Some(mut greeting) = Object::parse(result) else { return result.to_owned() };
        let Some(info) = greeting.get("environmentInfo").and_then(Object::parse) else {
            return result.to_owned();
        };
        let info = value(&self.info(info));
        greeting.set("environmentInfo", info);
        value(&greeting)
    }

    fn info<'a>(&self, mut info: Object<'a>) -> Object<'a> {
        for key in ["cwd", "userHomeDir", "tempDir"] {
            self.member(&mut info, key);
        }
        for key in ["temporaryDirectories", "prependPathDirs"] {
            if let Some(paths) = info.get(key).and_then(strings) {
                let here = value(&self.all_here(&paths));
                info.set(key, here);
            }
        }
        if let Some(mut sidecar) = info.get("sidecar").and_then(Object::parse) {
            self.member(&mut sidecar, "workspaceRoot");
            let sidecar = value(&sidecar);
            info.set("sidecar", sidecar);
        }
        info
    }

    fn walk(&self, result: &RawValue) -> Option<Box<RawValue>> {
        let mut walk = Object::parse(result)?;
        for key in ["entries", "errors"] {
            let Some(mut items) = walk.get(key).and_then(objects) else { continue };
            items.iter_mut().for_each(|item| self.member(item, "path"));
            let items = value(&items);
            walk.set(key, items);
        }
        Some(value(&walk))
    }

    /// The error of a server.
    pub(super) fn error(&self, mut error: RpcError) -> RpcError {
        if let Some(path) = error.data.as_mut().and_then(|data| data.get_mut("path"))
            && let Some(here) = path.as_str().and_then(|path| self.here(path))
        {
            *path = here.into();
        }
        error
    }

    /// The params of `fs/changed`.
    pub(super) fn changed(&self, params: &RawValue) -> Option<Box<RawValue>> {
        let mut change = Object::parse(params)?;
        let paths = value(&self.all_here(&strings(change.get("paths")?)?));
        change.set("paths", paths);
        Some(value(&change))
    }

    fn all_here(&self, paths: &[Cow<'_, str>]) -> Vec<String> {
        paths.iter().map(|path| self.here(path).unwrap_or_else(|| path.to_string())).collect()
    }

    fn members(&self, raw: &RawValue, keys: &[&'static str]) -> Option<Box<RawValue>> {
        let mut object = Object::parse(raw)?;
        keys.iter().for_each(|key| self.member(&mut object, key));
        Some(value(&object))
    }

    fn member(&self, object: &mut Object<'_>, key: &'static str) {
        if let Some(here) = object.text(key).and_then(|path| self.here(&path)) {
            object.set(key, value(&here));
        }
    }
}

/// What a path without a counterpart means to a method.
fn outside(method: Method, params: &Object<'_>) -> Outside {
    match method {
        Method::FsReadFile
        | Method::FsGetMetadata
        | Method::FsReadDirectory
        | Method::FsCanonicalize
        | Method::FsWalk
        | Method::FsWatchMissing => Outside::NotFound,
        Method::FsOpen if params.text("mode").as_deref() != Some("replace") => Outside::NotFound,
        _ => Outside::Refused,
    }
}

fn refusal(path: &str, error: &Error, outside: Outside) -> RpcError {
    let code = match outside {
        Outside::NotFound => error::NOT_FOUND,
        Outside::Refused => error::INVALID_REQUEST,
    };
    let kind = (outside == Outside::NotFound).then_some(ErrorKind::NotFound);
    let data = ErrorData { kind, path: Some(path.to_owned()), ..ErrorData::default() };
    RpcError::new(code, error.to_string()).with_data(&data)
}

fn strings(raw: &RawValue) -> Option<Vec<Cow<'_, str>>> {
    let items: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
    items.into_iter().map(text).collect()
}

fn objects(raw: &RawValue) -> Option<Vec<Object<'_>>> {
    serde_json::from_str(raw.get()).ok()
}

#[cfg(test)]
#[path = "translate/tests.rs"]
mod tests;
