//! What must come before what.

use serde_json::json;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::common::{Fixture, uri};

#[tokio::test]
async fn the_result_is_the_union_of_three_generations() {
    let fixture = Fixture::start().await;
    let mut client = fixture.bare_client().await;
    let result = client.call("initialize", json!({ "clientName": "x", "resumeSessionId": null })).await;
    assert_eq!(result["protocolVersion"], "exec-server.v0");
    assert_eq!(result["sessionId"].as_str().expect("an id").len(), 41, "8 of this run, 32 of the session");
    let info = &result["environmentInfo"];
    let root = fixture.ws("").canonicalize().expect("real");
    assert_eq!(info["cwd"], uri(&root));
    assert_eq!(info["platformOs"], "linux");
    assert!(["bash", "sh"].contains(&info["shell"]["name"].as_str().expect("a shell")));
    assert_eq!(info["tempDir"], "file:///tmp");
    let capabilities = info["capabilities"].as_object().expect("capabilities");
    let mut offered: Vec<&str> =
        capabilities.iter().filter(|(_, is)| **is == true).map(|(name, _)| name.as_str()).collect();
    offered.sort_unstable();
    assert_eq!(offered, ["fileWriteStreaming", "fsWatchMissing", "sandboxedFileStreaming"]);
    assert_eq!(info["sidecar"]["workspaceRoot"], info["cwd"]);
    assert_eq!(info["sidecar"]["profiles"], json!(["readOnly", "workspaceWriteNoNetwork", "workspaceWrite"]));
    client.notify("initialized", json!({})).await;
    assert_eq!(&client.call("environment/info", json!({})).await, info);
    assert_eq!(client.call("environment/status", json!({})).await["status"], "ready");
}

#[tokio::test]
async fn calls_before_the_handshake() {
    let fixture = Fixture::start().await;
    let mut client = fixture.bare_client().await;
    for (method, group) in
        [("process/read", "exec"), ("environment/info", "exec"), ("fs/readFile", "filesystem")]
    {
        let error = client.refused(method, json!({})).await;
        assert_eq!(error["code"], -32600);
        assert_eq!(error["message"], format!("client must call initialize before using {group} methods"));
    }
    client.call("initialize", json!({ "clientName": "x" })).await;
    for (method, group) in [("process/start", "exec"), ("fs/copy", "filesystem")] {
        let error = client.refused(method, json!({})).await;
        assert_eq!(error["code"], -32600);
        assert_eq!(error["message"], format!("client must send initialized before using {group} methods"));
    }
    let error = client.refused("initialize", json!({})).await;
    assert_eq!(error["code"], -32600);
    client.notify("initialized", json!({})).await;
    assert_eq!(client.refused("initialize", json!({})).await["code"], -32600);
    assert_eq!(client.call("environment/status", json!({})).await["status"], "ready");
}

#[tokio::test]
async fn an_unknown_session_cannot_be_resumed() {
    let fixture = Fixture::start().await;
    let mut client = fixture.bare_client().await;
    let error = client.refused("initialize", json!({ "clientName": "x", "resumeSessionId": "gone" })).await;
    assert_eq!(error["code"], -32600);
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("gone") && message.contains("unknown or expired"), "{message}");
    client.call("initialize", json!({ "clientName": "x", "resumeSessionId": null })).await;
}

#[tokio::test]
async fn what_ends_a_connection_says_why() {
    let fixture = Fixture::start().await;
    for (message, why) in [
        (json!({ "method": "initialized" }), "before initialize"),
        (json!({ "method": "nonsense", "params": {} }), "nonsense"),
        (json!({ "id": 7, "result": {} }), "id 7"),
    ] {
        let mut client = fixture.bare_client().await;
        client.send_text(&message.to_string()).await;
        let close = client.closed().await.expect("a close frame");
        assert_eq!(close.code, CloseCode::Protocol);
        assert!(close.reason.contains(why), "{close:?}");
    }
}

#[tokio::test]
async fn acks_are_tolerated() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    client.notify("process/ack", json!({ "processId": "p", "seq": 1 })).await;
    client.notify("initialized", json!({})).await;
    client.call("environment/status", json!({})).await;
}
