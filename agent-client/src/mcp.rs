//! A server of the Model Context Protocol: commands and files of the sidecar, as tools for any agent that speaks it.
//!
//! | module | what it owns |
//! |---|---|
//! | `catalog` | the tools as a client sees them |
//! | `arguments` | what each tool takes |
//! | `commands` | exec_command and write_stdin, their progress and their cancellation |
//! | `files` | read_file, write_file, list_dir |
//! | `edits` | apply_patch and search |
//! | `notice` | what a client tells of its own sandbox, and of the call |
//! | `place` | paths as a model writes them |
//! | `answer` | results and failures |
//!
//! It decides nothing about what a command may do. What a client tells of its own sandbox can tighten that, never loosen it.

mod answer;
mod arguments;
mod catalog;
mod commands;
mod edits;
mod files;
mod notice;
mod place;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use sidecar_protocol::process::Sandbox;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::environment::Environment;
use crate::error::Error;
use crate::tools::Tools;
use answer::Failure;
use notice::Notice;
use place::Place;

/// What is told of a sandbox that a client enforces on its own tools, and asks this server to keep to.
const SANDBOX_STATE: &str = "codex/sandbox-state";
/// The request by which older clients tell it.
const SANDBOX_STATE_UPDATE: &str = "codex/sandbox-state/update";

/// How the server is to behave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The profile of every call that names none; the sidecar's default where it is `None`.
    pub profile: Option<String>,
    /// Profiles that a call may name. Without any, calls cannot.
    pub allowed_profiles: Vec<String>,
    /// Variables of every command.
    pub env: BTreeMap<String, String>,
}

/// Serves one client, until it goes or `stop` comes. Its commands end with the environment.
///
/// # Errors
/// [`Error::WorkspaceRootUnknown`]; [`Error::ClientProtocol`]: the handshake failed.
pub async fn serve(
    environment: &Environment,
    options: Options,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let server = Server::new(environment, options)?;
    let starting = server.serve((reader, writer));
    let mut stop = std::pin::pin!(stop);
    let running = tokio::select! {
        started = starting => started.map_err(|error| Error::ClientProtocol(error.to_string()))?,
        () = &mut stop => return Ok(()),
    };
    let cancellation = running.cancellation_token();
    let mut ended = std::pin::pin!(running.waiting());
    let quit = tokio::select! {
        quit = &mut ended => quit,
        () = stop => {
            cancellation.cancel();
            ended.await
        }
    };
    tracing::info!("the MCP client has gone: {quit:?}");
    Ok(())
}

/// What a call has beside its arguments.
struct Call {
    sandbox: Option<Sandbox>,
    metadata: Option<Value>,
    context: RequestContext<RoleServer>,
}

struct Server {
    tools: Tools,
    place: Place,
    options: Options,
    catalog: Vec<Tool>,
    /// What an older client told last; of newer ones each call tells.
    notice: Mutex<Option<Result<Notice, Failure>>>,
}

impl Server {
    fn new(environment: &Environment, options: Options) -> Result<Self, Error> {
        let place = Place::new(environment)?;
        let tools = Tools::new(environment.backend(), environment.shell(), place.local_root());
        let catalog = catalog::tools(&options);
        Ok(Self { tools, place, options, catalog, notice: Mutex::default() })
    }

    async fn call(
        &self,
        name: &str,
        mut arguments: JsonObject,
        context: RequestContext<RoleServer>,
    ) -> answer::Answer {
        let profile = self.take_profile(&mut arguments)?;
        let told = match context.meta.get(SANDBOX_STATE) {
            Some(state) => Some(Notice::parse(state)?),
            None => self.notice.lock().unwrap_or_else(PoisonError::into_inner).clone().transpose()?,
        };
        let call = Call {
            sandbox: notice::sandbox(profile, told.as_ref(), &self.place)?,
            metadata: notice::metadata(name, &context),
            context,
        };
        match name {
            catalog::EXEC_COMMAND => self.exec_command(arguments::parse(arguments)?, call).await,
            catalog::WRITE_STDIN => self.write_stdin(arguments::parse(arguments)?, call).await,
            catalog::READ_FILE => self.read_file(arguments::parse(arguments)?, &call).await,
            catalog::WRITE_FILE => self.write_file(arguments::parse(arguments)?, &call).await,
            catalog::APPLY_PATCH => self.apply_patch(arguments::parse(arguments)?, &call).await,
            catalog::LIST_DIR => self.list_dir(arguments::parse(arguments)?, &call).await,
            catalog::SEARCH => self.search(arguments::parse(arguments)?, &call).await,
            _ => Err(Failure::new(format!("there is no tool {name:?}"))),
        }
    }

    /// The profile of a call. It is no argument of any one tool: each has it, where calls may name one.
    fn take_profile(&self, arguments: &mut JsonObject) -> Result<Option<String>, Failure> {
        let Some(named) = arguments.remove(catalog::PROFILE).filter(|named| !named.is_null()) else {
            return Ok(self.options.profile.clone());
        };
        let allowed = &self.options.allowed_profiles;
        match named.as_str() {
            Some(name) if allowed.iter().any(|allowed| allowed == name) => Ok(Some(name.to_owned())),
            _ if allowed.is_empty() => Err(Failure::new(
                "profile: calls to this server cannot name one; leave it out (its user allows some by --allow-profile)",
            )),
            _ => Err(Failure::new(format!("profile {named}: expected one of {}", allowed.join(", ")))),
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        let state = json!({"version": "1.0.0"}).as_object().cloned().unwrap_or_default();
        capabilities.experimental = Some(BTreeMap::from([(SANDBOX_STATE.to_owned(), state)]));
        let mut info = ServerConfig::new(capabilities).with_instructions(self.place.instructions());
        info.server_info = Implementation::new("agent-client", env!("CARGO_PKG_VERSION"));
        info.server_info.title = Some("Sandbox sidecar".to_owned());
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.catalog.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.catalog.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.get_tool(&request.name).is_none() {
            let names: Vec<_> = self.catalog.iter().map(|tool| tool.name.as_ref()).collect();
            let message = format!("there is no tool {:?}; there are {}", request.name, names.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        }
        let answer = self.call(&request.name, request.arguments.unwrap_or_default(), context).await;
        Ok(answer.unwrap_or_else(Failure::into_result).into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != SANDBOX_STATE_UPDATE {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        }
        let notice = Notice::parse(&request.params.unwrap_or_default());
        let answer = match &notice {
            Ok(_) => Ok(CustomResult::new(json!({}))),
            Err(failure) => Err(ErrorData::invalid_params(failure.to_string(), None)),
        };
        // One that cannot be read is kept too: no call may go on as if it had never come.
        *self.notice.lock().unwrap_or_else(PoisonError::into_inner) = Some(notice);
        answer
    }
}
