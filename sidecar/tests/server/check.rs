//! The proof that the sandbox holds, made here with the shell: this test's own binary knows no probe.

use sandbox_sidecar::check;
use serde_json::Value;
use sidecar_sandbox::Profile;

use crate::common::Fixture;

fn steps(report: &Value, profile: &str) -> Vec<String> {
    let profiles = report["profiles"].as_array().expect("profiles");
    let profile = profiles.iter().find(|p| p["profile"] == profile).expect("the profile");
    let steps = profile["steps"].as_array().expect("steps").iter();
    steps
        .map(|s| {
            format!("{} {}", s["got"].as_str().unwrap_or_default(), s["step"].as_str().unwrap_or_default())
        })
        .collect()
}

#[tokio::test]
async fn each_profile_is_proved_by_what_it_may_and_must_not_do() {
    let fixture = Fixture::start().await;
    let sandbox = fixture.server.sandbox().clone();
    let report = tokio::task::spawn_blocking(move || check::run(&sandbox, None)).await.expect("a report");
    let json = report.to_json();
    assert!(report.verdict.holds, "{report}");
    assert_eq!(json["verdict"]["holds"], true);
    assert_eq!(json["profiles"].as_array().expect("profiles").len(), 3, "none above the ceiling");
    for (profile, write) in [("readOnly", "denied"), ("workspaceWrite", "allowed")] {
        let steps = steps(&json, profile);
        assert_eq!(
            steps[..3],
            ["allowed list the workspace", "denied list /", &format!("{write} write to the workspace")]
        );
        assert!(steps[3].starts_with("denied write to /"), "{steps:?}");
    }
    assert!(std::fs::read_dir(fixture.ws("")).expect("listed").next().is_none(), "nothing is left behind");
    assert!(report.to_string().contains("the ceiling workspaceWrite holds"), "{report}");
}

#[tokio::test]
async fn a_program_that_launches_may_not_execute_gives_way_to_the_shell() {
    let fixture = Fixture::start().await;
    let outside = fixture.outside("prober");
    std::fs::copy("/bin/true", &outside).expect("copied");
    let sandbox = fixture.server.sandbox().clone();
    // /bin/true would let every act seem allowed.
    let report =
        tokio::task::spawn_blocking(move || check::run(&sandbox, Some(outside))).await.expect("a report");
    assert!(report.verdict.holds, "{report}");
}

#[tokio::test]
async fn an_act_that_is_not_denied_fails_the_proof() {
    let fixture = Fixture::start().await;
    let sandbox = fixture.server.sandbox().clone();
    let liar = Some("/bin/true".into());
    let report = tokio::task::spawn_blocking(move || check::run(&sandbox, liar)).await.expect("a report");
    assert!(!report.verdict.holds);
    assert_eq!(
        report.verdict.reason,
        format!("{}: list /: it was to be denied, and was not", Profile::ReadOnly)
    );
}
