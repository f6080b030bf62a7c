//! An interpreter of classic BPF, as far as these filters use it: linux/bpf_common.h, linux/filter.h, linux/seccomp.h.

use seccompiler::sock_filter;

const LOAD_ABSOLUTE: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const JUMP_GREATER_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;

const RET_ALLOW: u32 = 0x7fff_0000;
const RET_ERRNO: u32 = 0x0005_0000;

#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 0xc000_00b7;

/// The errno that a call gets; 0 where it is allowed. The filter that was installed last is asked first, and of the
/// errnos the first one counts.
pub(super) fn verdict(programs: &[Vec<sock_filter>], nr: i64, args: [u64; 6]) -> i32 {
    let mut errnos = programs.iter().rev().map(|program| one(program, nr, args));
    errnos.find(|errno| *errno != 0).unwrap_or(0)
}

fn one(program: &[sock_filter], nr: i64, args: [u64; 6]) -> i32 {
    let word = |offset: u32| -> u32 {
        match offset {
            0 => nr as u32,
            4 => AUDIT_ARCH,
            16..64 => {
                let arg = args[(offset as usize - 16) / 8];
                if offset.is_multiple_of(8) { arg as u32 } else { (arg >> 32) as u32 }
            }
            other => panic!("load of {other}"),
        }
    };
    let (mut at, mut accumulator) = (0usize, 0u32);
    loop {
        let op = &program[at];
        at += 1;
        let mut branch = |taken: bool| at += usize::from(if taken { op.jt } else { op.jf });
        match op.code {
            LOAD_ABSOLUTE => accumulator = word(op.k),
            AND => accumulator &= op.k,
            JUMP => at += op.k as usize,
            JUMP_EQUAL => branch(accumulator == op.k),
            JUMP_GREATER => branch(accumulator > op.k),
            JUMP_GREATER_EQUAL => branch(accumulator >= op.k),
            RETURN if op.k == RET_ALLOW => return 0,
            RETURN if op.k & 0xffff_0000 == RET_ERRNO => return (op.k & 0xffff) as i32,
            other => panic!("instruction {other:#x} with {:#x}", op.k),
        }
    }
}
