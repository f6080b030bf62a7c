//! How many failures to authenticate are answered, logged and recorded one by one. Those beyond are only counted: a flood
//! of wrong tokens fills neither the logs nor the audit trail, and costs little.
//!
//! It never decides about a right token. Everything in a pod comes from 127.0.0.1: whoever locked out an address would
//! lock out the agent with the launch that guesses.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures are counted anew after this.
const WINDOW: Duration = Duration::from_secs(60);

const PER_ORIGIN: &str = "limits.authFailures";
const IN_ALL: &str = "limits.authFailuresInAll";

/// Where failures come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// An IPv4 address, or the network that one IPv6 host has to itself.
    Network(IpAddr),
    /// A user, on a unix socket.
    User(u32),
}

impl Origin {
    /// One host may use every address of its /64.
    pub(crate) fn of(address: IpAddr) -> Origin {
        Origin::Network(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & (u128::MAX << 64);
                IpAddr::V6(network.into())
            }
            v4 => v4,
        })
    }
}

/// What becomes of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It is within the limits. So many that came before it were not told.
    Told {
        /// How many; 0 but for the first after a flood.
        untold: u64,
    },
    /// The first that is too many.
    TooMany {
        /// The key of the limit.
        limit: &'static str,
        /// Until failures are counted anew.
        left: Duration,
    },
    /// Another one.
    More {
        /// Until failures are counted anew.
        left: Duration,
    },
}

/// Counts failures. Holds at most as many origins as failures may be told in all.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// Told per origin and window.
    each: usize,
    /// Told per window.
    all: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Counts {
    since: Instant,
    told: usize,
    /// Whether it was said that these are too many in all.
    is_full: bool,
    /// What was told of each origin, and 1 for having said that these are too many.
    by_origin: HashMap<Origin, usize>,
    untold: u64,
}

impl Throttle {
    /// `each` per origin and minute, `all` per minute.
    pub(crate) fn new(each: usize, all: usize) -> Throttle {
        Throttle { each, all, counts: Mutex::new(Counts::new(Instant::now(), 0)) }
    }

    /// Counts a failure.
    pub(crate) fn fail(&self, origin: Origin) -> Failure {
        self.fail_at(origin, Instant::now())
    }

    fn fail_at(&self, origin: Origin, now: Instant) -> Failure {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(counts.since) >= WINDOW {
            *counts = Counts::new(now, counts.untold);
        }
        let left = WINDOW.saturating_sub(now.duration_since(counts.since));
        let (limit, is_first) = if counts.told >= self.all {
            // Nobody new is remembered, so many origins cost no memory.
            (IN_ALL, !std::mem::replace(&mut counts.is_full, true))
        } else {
            let each = counts.by_origin.entry(origin).or_default();
            if *each < self.each {
                *each += 1;
                counts.told += 1;
                return Failure::Told { untold: std::mem::take(&mut counts.untold) };
            }
            let is_first = *each == self.each;
            *each = self.each + 1;
            (PER_ORIGIN, is_first)
        };
        counts.untold += 1;
        if is_first { Failure::TooMany { limit, left } } else { Failure::More { left } }
    }
}

impl Counts {
    fn new(since: Instant, untold: u64) -> Counts {
        Counts { since, told: 0, is_full: false, by_origin: HashMap::new(), untold }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u8) -> Origin {
        Origin::of(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn each_origin_has_a_share_and_all_have_a_limit() {
        let throttle = Throttle::new(2, 3);
        let start = throttle.counts.lock().expect("not poisoned").since;
        let fail = |origin| throttle.fail_at(origin, start);
        let left = WINDOW;
        let told = Failure::Told { untold: 0 };
        assert_eq!([fail(host(1)), fail(host(1))], [told, told]);
        assert_eq!(fail(host(1)), Failure::TooMany { limit: PER_ORIGIN, left });
        assert_eq!(fail(host(1)), Failure::More { left });
        assert_eq!(fail(host(2)), Failure::Told { untold: 2 }, "another one's flood is not its own");
        assert_eq!(fail(host(3)), Failure::TooMany { limit: IN_ALL, left });
        assert_eq!(fail(host(1)), Failure::More { left });
        let later = start + WINDOW;
        assert_eq!(throttle.fail_at(host(1), later), Failure::Told { untold: 2 });
        assert_eq!(throttle.fail_at(host(1), later), told);
    }

    #[test]
    fn many_origins_cost_no_memory() {
        let throttle = Throttle::new(2, 10);
        let now = Instant::now();
        for host in 0..1000_u32 {
            throttle.fail_at(Origin::of(IpAddr::V4(host.into())), now);
        }
        let counts = throttle.counts.lock().expect("not poisoned");
        assert_eq!((counts.by_origin.len(), counts.untold), (10, 990));
    }

    #[test]
    fn one_host_has_one_share() {
        let origin = |text: &str| Origin::of(text.parse().expect("an address"));
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:2"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
        assert_ne!(origin("10.0.0.2"), origin("10.0.0.1"));
    }
}
