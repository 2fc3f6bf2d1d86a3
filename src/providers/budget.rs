//! The budget of a run: how many requests go to models, until when, how many at once, and how many retries.
//! One [`Budget`] is shared by every provider of a run, so that a broken server cannot cost a night twice.
//! What counts as worth a retry is `http.rs`'s business.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The limits of a run, shared by all its providers.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// `DREAMER_MAX_CALLS`: HTTP requests to models, embedding and retries included.
    pub max_calls: u32,
    /// The run's start plus `DREAMER_MAX_MINUTES`: no request starts after it; one on its way may end.
    pub deadline: Instant,
    /// `DREAMER_CONCURRENCY`: requests on their way at once, at least 1.
    pub concurrency: usize,
    /// Retries in the whole run. Once they are used up, every request has one try.
    pub retries: u32,
    /// `DREAMER_MAX_TOKENS`: tokens of prompts, embedded texts and replies together; none for no limit.
    pub max_tokens: Option<u64>,
}

impl Limits {
    /// The limits the settings give to a run that starts at `start`, with 30 retries.
    pub fn new(max_calls: u32, max_minutes: u64, concurrency: usize, start: Instant) -> Self {
        // A year stands for "no limit": `start + u64::MAX minutes` would overflow.
        let minutes = max_minutes.min(365 * 24 * 60);
        let deadline = start + Duration::from_secs(minutes * 60);
        Self { max_calls, deadline, concurrency, retries: 30, max_tokens: None }
    }

    /// The same with a limit of tokens.
    #[must_use]
    pub fn with_tokens(self, max_tokens: Option<u64>) -> Self {
        Self { max_tokens, ..self }
    }
}

/// How long one request may take, and how long to wait before it is tried again.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Time to connect.
    pub connect: Duration,
    /// Time for a whole request, reply included. A small model on a laptop needs minutes for a long reply.
    pub request: Duration,
    /// What the slowest server on this machine or in its network writes that is still waited for, in tokens a second:
    /// there, a request may take as long as its longest reply needs at that rate, while the run has time left.
    pub least_tokens_a_second: u32,
    /// Time for a whole request while a model may still have to be loaded from disk, on servers that do that.
    pub cold: Duration,
    /// Tries of one request, at least 1.
    pub tries: u32,
    /// The first wait; each next one is twice as long, plus jitter of up to its own length.
    pub first_delay: Duration,
    /// The longest of these waits, before jitter.
    pub longest_delay: Duration,
    /// A `Retry-After` up to this is honoured; a longer one ends the request at once.
    pub longest_retry_after: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            request: Duration::from_secs(180),
            least_tokens_a_second: 10,
            cold: Duration::from_secs(600),
            tries: 4,
            first_delay: Duration::from_millis(500),
            longest_delay: Duration::from_secs(20),
            longest_retry_after: Duration::from_secs(60),
        }
    }
}

/// What a run has spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// HTTP requests to models.
    pub calls: u32,
    /// Tokens of prompts and embedded texts, as the providers counted.
    pub input_tokens: u64,
    /// Tokens of replies, failed and cut-off ones included.
    pub output_tokens: u64,
}

/// A limit that was reached: the name of its variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached(pub &'static str);

const MAX_CALLS: Reached = Reached("DREAMER_MAX_CALLS");
const MAX_MINUTES: Reached = Reached("DREAMER_MAX_MINUTES");
const MAX_TOKENS: Reached = Reached("DREAMER_MAX_TOKENS");

/// A place on the wire. Gives it back, with the tokens that were set aside for the request, when it is dropped.
#[derive(Debug)]
pub struct Permit<'a> {
    _place: SemaphorePermit<'a>,
    set_aside: u64,
    budget: &'a Budget,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.budget.set_aside.fetch_sub(self.set_aside, Ordering::Relaxed);
    }
}

/// Up to where the run may spend for now: all of its limits, or the share of whoever's turn it is.
#[derive(Debug, Clone, Copy)]
struct Turn {
    max_calls: u32,
    max_tokens: Option<u64>,
    deadline: Instant,
    left_for_embedding: u64,
}

/// The one budget of a run.
#[derive(Debug)]
pub struct Budget {
    limits: Limits,
    turn: Mutex<Turn>,
    patience: Patience,
    /// The one place where concurrency is bounded: every request to any model holds a permit.
    places: Semaphore,
    calls: AtomicU32,
    retries: AtomicU32,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
    /// What the requests on their way may cost at most, as estimated.
    set_aside: AtomicU64,
}

impl Budget {
    /// A budget with the usual patience.
    pub fn new(limits: Limits) -> Arc<Self> {
        Self::with_patience(limits, Patience::default())
    }

    /// A budget with its own waits and time-outs, such as milliseconds in tests.
    pub fn with_patience(limits: Limits, patience: Patience) -> Arc<Self> {
        Arc::new(Self {
            limits,
            turn: Mutex::new(Turn {
                max_calls: limits.max_calls,
                max_tokens: limits.max_tokens,
                deadline: limits.deadline,
                left_for_embedding: limits.max_tokens.unwrap_or(0) / 20,
            }),
            patience,
            places: Semaphore::new(limits.concurrency.clamp(1, Semaphore::MAX_PERMITS)),
            calls: AtomicU32::new(0),
            retries: AtomicU32::new(0),
            input_tokens: AtomicU64::new(0),
            output_tokens: AtomicU64::new(0),
            set_aside: AtomicU64::new(0),
        })
    }

    /// How long a request may take.
    pub fn patience(&self) -> Patience {
        self.patience
    }

    /// How many requests may be on their way at once.
    pub fn concurrency(&self) -> usize {
        self.limits.concurrency.max(1)
    }

    /// Begins the turn of the first of `waiting` parties that share what is left: requests, tokens and minutes. What it
    /// leaves goes to the next. Call it while no request is on its way.
    pub fn share(&self, waiting: usize) {
        let parties = waiting.max(1) as u64;
        let now = Instant::now();
        let calls = u64::from(self.calls.load(Ordering::Relaxed));
        let calls_left = u64::from(self.limits.max_calls).saturating_sub(calls).div_ceil(parties);
        let tokens = self.tokens();
        let tokens_left = self.limits.max_tokens.map(|most| most.saturating_sub(tokens) / parties);
        let time = self.limits.deadline.saturating_duration_since(now) / parties as u32;
        *self.turn() = Turn {
            max_calls: (calls + calls_left) as u32,
            max_tokens: tokens_left.map(|left| tokens + left),
            deadline: if parties == 1 { self.limits.deadline } else { now + time },
            left_for_embedding: tokens_left.unwrap_or(0) / 20,
        };
    }

    /// What is left of this turn's minutes.
    pub fn time_left(&self) -> Duration {
        self.turn().deadline.saturating_duration_since(Instant::now())
    }

    /// Tokens that may still be spent in this turn; none for no limit.
    pub fn tokens_left(&self) -> Option<u64> {
        self.turn().max_tokens.map(|most| most.saturating_sub(self.tokens()))
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was spent so far.
    pub fn spent(&self) -> Spent {
        Spent {
            calls: self.calls.load(Ordering::Relaxed),
            input_tokens: self.input_tokens.load(Ordering::Relaxed),
            output_tokens: self.output_tokens.load(Ordering::Relaxed),
        }
    }

    /// The limit that keeps new requests from starting, if one is reached: stages ask before they prepare work.
    pub fn reached(&self) -> Option<Reached> {
        let turn = *self.turn();
        if Instant::now() >= turn.deadline {
            Some(MAX_MINUTES)
        } else if self.calls.load(Ordering::Relaxed) >= turn.max_calls {
            Some(MAX_CALLS)
        } else if turn.max_tokens.is_some_and(|most| self.tokens() >= most) {
            Some(MAX_TOKENS)
        } else {
            None
        }
    }

    /// Tokens that a request for words leaves free: what it says is worth nothing until it is embedded.
    pub fn left_for_embedding(&self) -> u64 {
        self.turn().left_for_embedding
    }

    /// Tokens spent so far, both ways.
    fn tokens(&self) -> u64 {
        self.input_tokens.load(Ordering::Relaxed) + self.output_tokens.load(Ordering::Relaxed)
    }

    /// Waits for a place and counts one request that costs at most `estimate` tokens, both ways. Hold the permit until
    /// the reply is read.
    ///
    /// # Errors
    /// When a limit is reached, or would be by this request; it must not be sent.
    pub async fn start(&self, estimate: u64) -> Result<Permit<'_>, Reached> {
        let permit = self.places.acquire().await.expect("the semaphore is never closed");
        // After the wait: it may have taken longer than the night has left.
        let turn = *self.turn();
        if Instant::now() >= turn.deadline {
            return Err(MAX_MINUTES);
        }
        let on_the_way = self.set_aside.fetch_add(estimate, Ordering::Relaxed);
        let permit = Permit { _place: permit, set_aside: estimate, budget: self };
        if turn.max_tokens.is_some_and(|most| self.tokens() + on_the_way + estimate > most) {
            return Err(MAX_TOKENS);
        }
        take_one(&self.calls, turn.max_calls).then_some(permit).ok_or(MAX_CALLS)
    }

    /// Takes one retry from the run's pool; false when none is left.
    pub fn take_retry(&self) -> bool {
        take_one(&self.retries, self.limits.retries)
    }

    /// Waits before a retry.
    ///
    /// # Errors
    /// At once, when the wait would end after the deadline.
    pub async fn pause(&self, wait: Duration) -> Result<(), Reached> {
        if Instant::now() + wait >= self.turn().deadline {
            return Err(MAX_MINUTES);
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// The waits between the tries of one request: exponential with jitter, one fewer than its tries.
    pub fn waits(&self) -> ExponentialBackoff {
        ExponentialBuilder::new()
            .with_min_delay(self.patience.first_delay)
            .with_max_delay(self.patience.longest_delay)
            .with_max_times(self.patience.tries.saturating_sub(1) as usize)
            .with_jitter()
            // backon without std would start every process with the same jitter.
            .with_jitter_seed(rand::random())
            .build()
    }

    /// Adds what a provider counted for one reply.
    pub fn add_tokens(&self, input: u64, output: u64) {
        self.input_tokens.fetch_add(input, Ordering::Relaxed);
        self.output_tokens.fetch_add(output, Ordering::Relaxed);
    }
}

/// Counts one up unless that would exceed `limit`.
fn take_one(counter: &AtomicU32, limit: u32) -> bool {
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < limit).then(|| n + 1)).is_ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn limits(max_calls: u32) -> Limits {
        Limits { retries: 2, ..Limits::new(max_calls, 60, 2, Instant::now()) }
    }

    #[tokio::test]
    async fn no_request_starts_beyond_the_limit() {
        let budget = Budget::new(limits(2));
        drop(budget.start(0).await.unwrap());
        assert_eq!(budget.reached(), None);
        drop(budget.start(0).await.unwrap());
        assert_eq!(budget.start(0).await.unwrap_err(), MAX_CALLS);
        assert_eq!(budget.reached(), Some(MAX_CALLS));
        assert_eq!(budget.spent().calls, 2);
    }

    #[tokio::test]
    async fn no_request_starts_and_no_wait_begins_after_the_deadline() {
        let budget = Budget::new(Limits { deadline: Instant::now(), ..limits(9) });
        assert_eq!(budget.start(0).await.unwrap_err(), MAX_MINUTES);
        assert_eq!(budget.pause(Duration::ZERO).await, Err(MAX_MINUTES));
        assert_eq!(budget.spent().calls, 0);
        let soon = Budget::new(Limits { deadline: Instant::now() + Duration::from_secs(5), ..limits(9) });
        assert_eq!(soon.pause(Duration::from_secs(3600)).await, Err(MAX_MINUTES));
    }

    #[tokio::test]
    async fn only_so_many_requests_are_on_their_way_at_once() {
        let budget = Budget::new(limits(9));
        let (_first, _second) = (budget.start(0).await.unwrap(), budget.start(0).await.unwrap());
        assert_eq!(budget.places.available_permits(), 0);
    }

    #[tokio::test]
    async fn a_request_that_could_pass_the_limit_of_tokens_is_not_sent() {
        let budget = Budget::new(limits(9).with_tokens(Some(1_000)));
        let first = budget.start(600).await.unwrap();
        assert_eq!(budget.start(500).await.unwrap_err(), MAX_TOKENS, "600 are on their way");
        budget.add_tokens(200, 100);
        drop(first);
        // What a reply really cost counts, not what it could have cost; a refused request sets nothing aside.
        drop(budget.start(700).await.unwrap());
        assert_eq!(budget.start(701).await.unwrap_err(), MAX_TOKENS);
        assert_eq!((budget.reached(), budget.spent().calls), (None, 2));
        budget.add_tokens(700, 0);
        assert_eq!(budget.reached(), Some(MAX_TOKENS));
    }

    #[tokio::test]
    async fn parties_share_what_is_left_and_hand_on_what_they_do_not_need() {
        let budget = Budget::new(limits(9).with_tokens(Some(900)));
        budget.share(3);
        assert_eq!(budget.tokens_left(), Some(300));
        drop(budget.start(300).await.unwrap());
        assert_eq!(budget.start(301).await.unwrap_err(), MAX_TOKENS);
        budget.add_tokens(100, 0);
        budget.share(2);
        assert_eq!(budget.tokens_left(), Some(400), "the first left 200");
        for _ in 0..4 {
            drop(budget.start(0).await.unwrap());
        }
        assert_eq!(budget.start(0).await.unwrap_err(), MAX_CALLS, "four of the eight that were left");
        budget.share(1);
        assert_eq!((budget.reached(), budget.tokens_left()), (None, Some(800)));
        for _ in 0..4 {
            drop(budget.start(0).await.unwrap());
        }
        assert_eq!(budget.reached(), Some(MAX_CALLS));
    }

    #[test]
    fn nobody_can_use_up_the_minutes_of_the_others() {
        let budget = Budget::new(limits(9));
        budget.share(2);
        assert!(budget.turn().deadline <= Instant::now() + Duration::from_secs(30 * 60));
        budget.share(1);
        assert_eq!(budget.turn().deadline, budget.limits.deadline);
    }

    #[test]
    fn the_pool_of_retries_runs_dry() {
        let budget = Budget::new(limits(9));
        assert_eq!([(); 3].map(|()| budget.take_retry()), [true, true, false]);
    }

    #[test]
    fn waits_grow_and_end() {
        let budget = Budget::new(limits(9));
        let waits: Vec<Duration> = budget.waits().collect();
        assert_eq!(waits.len(), 3);
        for (n, wait) in waits.iter().enumerate() {
            let least = Duration::from_millis(500 << n);
            assert!(*wait >= least && *wait <= 2 * least, "wait {n} is {wait:?}");
        }
    }

    #[test]
    fn an_endless_night_does_not_overflow() {
        assert!(Limits::new(1, u64::MAX, 1, Instant::now()).deadline > Instant::now());
    }
}
