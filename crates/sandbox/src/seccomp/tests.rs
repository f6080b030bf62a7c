//! No missing rule, no redundant rule, no wrong number: the compiled filters are judged by an interpreter and by the
//! kernel, over the same cases.

mod bpf;
mod cases;
mod numbers;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::*;
use bpf::verdict;
use cases::{Case, SERVER, cases};

/// Each switch of a class in both positions, and each range of ABIs that has rules of its own.
fn classes() -> impl Iterator<Item = Class> {
    let sockets = [Sockets::Unix, Sockets::Tcp, Sockets::All];
    let switches = (0..4).map(|bits| (bits & 1 == 0, bits & 2 == 0));
    sockets.into_iter().flat_map(move |sockets| {
        switches.clone().flat_map(move |(read_only, debug)| // ABI 6 without the scope is a vendor kernel's.
            [(7, true), (6, false), (2, false)].map(|(abi, signal_scope)| Class {
                sockets,
                read_only,
                debug,
                abi,
                signal_scope,
            }))
    })
}

#[test]
fn every_class_compiles_for_every_abi() {
    for class in classes() {
        for abi in 0..=10 {
            for program in compile(Class { abi, ..class }, SERVER).unwrap() {
                // BPF_MAXINSNS of linux/bpf_common.h.
                assert!(program.len() < 4096, "{class:?}");
            }
        }
    }
}

#[test]
fn the_lists_hold_nothing_twice() {
    let sorted = |list: &[i64]| list.iter().copied().collect::<BTreeSet<_>>().len();
    for list in [syscalls::DENIED, syscalls::ABSENT, syscalls::METADATA] {
        assert_eq!(sorted(list), list.len());
    }
    let requests: BTreeSet<_> = syscalls::DENIED_IOCTLS.iter().chain(syscalls::METADATA_IOCTLS).collect();
    assert_eq!(requests.len(), syscalls::DENIED_IOCTLS.len() + syscalls::METADATA_IOCTLS.len());
}

#[test]
fn each_case_gets_its_errno() {
    for class in classes() {
        let programs = compile(class, SERVER).unwrap();
        for case in cases(class) {
            assert_eq!(verdict(&programs, case.nr, case.args), case.errno, "{class:?}: {case:?}");
        }
    }
}

#[test]
fn without_any_one_rule_a_case_comes_out_otherwise() {
    for class in classes() {
        let cases = cases(class);
        let permission = permission_rules(class, SERVER).unwrap();
        let absent = absent_rules(class);
        for (rules, errno) in [(&permission, libc::EPERM), (&absent, libc::ENOSYS)] {
            for (nr, rule, fewer) in all_but_one(rules) {
                let fewer = program(fewer, errno).unwrap();
                let changed = |case: &&Case| {
                    case.nr == nr
                        && case.errno == errno
                        && verdict(std::slice::from_ref(&fewer), nr, case.args) == 0
                };
                assert!(
                    cases.iter().any(|case| changed(&case)),
                    "{class:?}: rule {rule} of call {nr} is not needed"
                );
            }
        }
    }
}

/// The rules with one of them left out: the call, which of its rules, the rest.
fn all_but_one(rules: &Rules) -> Vec<(i64, usize, Rules)> {
    let mut out = Vec::new();
    for (nr, of_call) in rules {
        // None means always.
        for rule in 0..of_call.len().max(1) {
            let mut fewer = rules.clone();
            if of_call.len() < 2 {
                fewer.remove(nr);
            } else {
                fewer.get_mut(nr).unwrap().remove(rule);
            }
            // A filter of no rule at all does not compile.
            fewer.entry(i64::from(i32::MAX)).or_default();
            out.push((*nr, rule, fewer));
        }
    }
    out
}

#[test]
fn the_calls_that_are_always_denied_are_those_documented() {
    let known = numbers::of_this_machine();
    let denied = |class: Class| -> BTreeSet<&str> {
        let programs = compile(class, SERVER).unwrap();
        let always = |nr: i64| {
            // Arguments of which each rule about arguments lets one pass.
            let tries = [[0; 6], [1, 0, 0, 0, 0, 0], [3, 8, 8, 0, 8, 8]];
            tries.iter().all(|args| verdict(&programs, nr, *args) != 0)
        };
        known.iter().filter(|(_, nr)| always(**nr)).map(|(name, _)| name.as_str()).collect()
    };
    let names = |text: &'static str| -> BTreeSet<&str> {
        text.split_whitespace().filter(|name| known.contains_key(*name)).collect()
    };
    let common = Class { sockets: Sockets::All, read_only: false, debug: true, abi: 7, signal_scope: true };
    let base = names(cases::ALWAYS);
    assert_eq!(denied(common), base);
    let more = |class: Class| -> BTreeSet<&str> { denied(class).difference(&base).copied().collect() };
    assert_eq!(more(Class { read_only: true, ..common }), names(cases::READ_ONLY));
    assert_eq!(more(Class { debug: false, ..common }), names("ptrace process_vm_readv process_vm_writev"));
    assert_eq!(more(Class { signal_scope: false, ..common }), names("pidfd_send_signal"));
    assert_eq!(more(Class { abi: 2, ..common }), names("truncate openat2"));
}

/// Runs each case for real: python3 makes the calls, under the filters of this thread.
#[test]
fn the_kernel_agrees() {
    const PYTHON: &str = "
import ctypes, sys
call = ctypes.CDLL(None, use_errno=True).syscall
for line in sys.stdin:
    numbers = [ctypes.c_ulong(int(n)) for n in line.split()]
    ctypes.set_errno(0)
    print(ctypes.get_errno() if call(*numbers) < 0 else 0, flush=True)
";
    for class in classes() {
        let cases: Vec<Case> = cases(class).into_iter().filter(|case| case.harmless).collect();
        let programs = compile(class, SERVER).unwrap();
        let input: String = cases.iter().map(Case::line).collect();
        let run = std::thread::spawn(move || {
            nix::sys::prctl::set_no_new_privs().unwrap();
            for program in &programs {
                seccompiler::apply_filter(program).unwrap();
            }
            let mut python = Command::new("python3")
                .args(["-c", PYTHON])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdin = python.stdin.take().unwrap();
            let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
            let output = python.wait_with_output().unwrap();
            writer.join().unwrap().unwrap();
            output
        });
        let output = run.join().unwrap();
        let seen: Vec<i32> =
            String::from_utf8(output.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect();
        assert_eq!(seen.len(), cases.len(), "{class:?}: {:?}", output.status);
        for (case, errno) in cases.iter().zip(seen) {
            match case.errno {
                // What the kernel makes of it is its own business.
                0 => {
                    assert!(errno != libc::EPERM && errno != libc::ENOSYS, "{class:?}: {case:?} gave {errno}")
                }
                expected => assert_eq!(errno, expected, "{class:?}: {case:?}"),
            }
        }
    }
}

#[test]
fn the_other_architectures_numbers_are_the_kernels() {
    let (used, checked) = numbers::of_aarch64();
    assert!(used.len() > 60, "{used:?}");
    assert_eq!(used, checked.keys().cloned().collect(), "each name of aarch64.rs has its number beside it");
    let header = numbers::generic();
    // Newer than the headers of older distributions.
    let unknown: Vec<&String> = checked.keys().filter(|name| !header.contains_key(*name)).collect();
    assert!(unknown.len() <= 5, "{unknown:?}");
    for (name, number) in checked {
        let kernels = header.get(&name).copied().unwrap_or(number);
        assert_eq!(number, kernels, "{name}");
    }
}

#[test]
fn both_architectures_deny_the_same() {
    let generic = numbers::generic();
    let lists = |text: &str| -> BTreeMap<String, ()> {
        let known = |name: &String| generic.contains_key(name);
        numbers::names(text).into_iter().filter(known).map(|name| (name, ())).collect()
    };
    let (x86_64, aarch64) =
        (lists(include_str!("../syscalls/x86_64.rs")), lists(include_str!("../syscalls/aarch64.rs")));
    assert_eq!(x86_64, aarch64, "but for the calls that only x86_64 has");
}
