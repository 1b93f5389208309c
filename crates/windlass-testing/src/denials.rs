//! Fails a test whose operator sends requests that its roles do not allow.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use windlass_runtime::access::{Denial, Denials};

/// The denied requests of an operator. They fail the test once. Clones share them.
#[derive(Clone)]
pub(crate) struct DenialCheck {
    operator: String,
    denials: Denials,
    /// Whether the test has failed because of them, or expects them.
    settled: Arc<AtomicBool>,
}

impl DenialCheck {
    pub(crate) fn new(operator: &str, denials: Denials) -> Self {
        Self { operator: operator.to_owned(), denials, settled: Arc::default() }
    }

    pub(crate) fn all(&self) -> Vec<Denial> {
        self.denials.all()
    }

    /// Never fails the test.
    pub(crate) fn ignore(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Returns whether there are denials that have not failed the test yet.
    pub(crate) fn is_pending(&self) -> bool {
        !self.settled.load(Ordering::Relaxed) && !self.denials.all().is_empty()
    }

    /// Fails the test if a request was denied, or just prints what was denied if it is failing already.
    pub(crate) fn check(&self) {
        let denials = self.denials.all();
        if denials.is_empty() || self.settled.swap(true, Ordering::Relaxed) {
            return;
        }
        let text = format!(
            "{}\n{}",
            self.headline(),
            denials.iter().map(|denial| format!("\n{denial}\n")).collect::<String>()
        );
        if std::thread::panicking() {
            // A second panic would abort the process.
            #[allow(clippy::print_stderr, reason = "test output goes to stderr")]
            {
                eprintln!("{text}");
            }
            return;
        }
        panic!("{text}");
    }

    fn headline(&self) -> String {
        format!("the generated roles of {} are too small:", self.operator)
    }
}
