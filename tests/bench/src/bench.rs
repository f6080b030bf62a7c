//! What all measurements share: the servers, and how much is done.

use e2e::{Scratch, Server};

use crate::subject::{self, Stock};

/// One run.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) ours: Server,
    /// Or why there is none.
    stock: Result<Stock, String>,
    pub(crate) scale: Scale,
    /// The stock server's folders.
    _scratch: Scratch,
}

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// What figures are taken from.
    Full,
    /// Just so much that each figure is produced.
    Smoke,
}

impl Scale {
    pub(crate) fn rounds(self, rounds: usize) -> usize {
        match self {
            Scale::Full => rounds,
            Scale::Smoke => rounds.min(2),
        }
    }

    /// Of connections, processes, files, bytes.
    pub(crate) fn amount(self, amount: usize) -> usize {
        match self {
            Scale::Full => amount,
            Scale::Smoke => (amount / 64).max(2),
        }
    }
}

impl Bench {
    pub(crate) fn start(scale: Scale) -> anyhow::Result<Self> {
        let scratch = Scratch::new();
        let stock = Stock::start(&scratch).map_err(|error| format!("no stock server: {error:#}"));
        Ok(Self { ours: subject::ours()?, stock, scale, _scratch: scratch })
    }

    pub(crate) fn stock(&self) -> anyhow::Result<&Stock> {
        self.stock.as_ref().map_err(|why| anyhow::anyhow!(why.clone()))
    }
}
