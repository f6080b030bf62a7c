//! `attack [--max-abi N] [--without-signal-scope] [--title TEXT] [--only PART] [--brief]`: runs the attack suite once,
//! as this user, here, and prints its table. Exits with 1 where a row does not hold.
//!
//! The programs that it starts are in `$E2E_BIN_DIR`.

use std::process::ExitCode;

use e2e::attack::arena::Conditions;
use e2e::attack::report::Report;
use e2e::attack::run;

#[tokio::main]
async fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let mut conditions = Conditions::default();
    let (mut title, mut only, mut all) = ("here".to_owned(), None, true);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--without-signal-scope" => conditions.without_signal_scope = true,
            "--brief" => all = false,
            "--max-abi" | "--title" | "--only" => {
                let Some(value) = words.next() else { return usage(&format!("{word} lacks its value")) };
                match (word.as_str(), value.parse()) {
                    ("--title", _) => title = value,
                    ("--only", _) => only = Some(value),
                    (_, Ok(abi)) => conditions.max_abi = Some(abi),
                    (_, Err(e)) => return usage(&format!("--max-abi {value}: {e}")),
                }
            }
            _ => return usage(&format!("{word} is no flag")),
        }
    }
    let mut report = Report::new(&title, all);
    run::run(&conditions, only.as_deref(), &mut report).await;
    let (passed, failed) = report.tally();
    println!("{title}: {passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage(why: &str) -> ExitCode {
    eprintln!("attack: {why}");
    ExitCode::from(64)
}
