//! Standard input and output: one client, whoever started the server. Messages go as lines.

use std::sync::Arc;

use super::lines;
use crate::caller::Caller;
use crate::server::Shared;

/// Serves the client to its end.
pub(crate) async fn serve(shared: Arc<Shared>) {
    lines::serve(shared, tokio::io::stdin(), tokio::io::stdout(), false, Caller::stdio()).await;
}
