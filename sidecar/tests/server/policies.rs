//! What a request's `sandbox` comes to, over the wire: profiles, the stock client's permissions, receipts, refusals.

use serde_json::json;
use sidecar_sandbox::{Network, Ports};

use crate::common::{Fixture, with};

#[tokio::test]
async fn a_receipt_tells_the_ports() {
    let fixture = Fixture::with(|config| {
        let connect = Some([443, 8080].into());
        config.sandbox.network = Network::Ports(Ports { connect, bind: None, udp: false });
    })
    .await;
    let mut client = fixture.client().await;
    let start = |id, mode| with(fixture.shell(id, "true"), "sandbox", json!({ "mode": mode }));
    let started = client.call("process/start", start("a", "workspaceWrite")).await;
    assert_eq!(started["enforcement"]["network"], json!({ "tcpConnect": [443, 8080], "udp": false }));
    let started = client.call("process/start", start("b", "hostDefault")).await;
    assert_eq!(started["enforcement"].get("network"), None, "it has no network at all");
}
