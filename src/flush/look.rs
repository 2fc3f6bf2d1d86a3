//! Looking at a session before it is ended: whether it is there, whether the user said something, whether the agent is
//! still at work. What is decided is pure.

use std::time::Duration;

use tokio::time::Instant;

use crate::openclaw::gateway::session::{self, Described, History, Session};
use crate::openclaw::gateway::{Gateway, GatewayError};

/// What to do with a session, after looking.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// There is no such session.
    Unknown,
    /// Nothing was said.
    Nothing,
    /// Something goes on in it.
    Busy(String),
    /// End it.
    End(Session),
}

/// Decides from what the gateway says.
fn decide(described: &Described, history: &History, key: &str) -> Step {
    let session = match described {
        Described::Known(session) => session.clone(),
        Described::Unknown => return Step::Unknown,
        Described::Unsaid => match &history.session_id {
            Some(id) => Session { key: key.to_string(), id: id.clone() },
            None => return Step::Unknown,
        },
    };
    // Where not all was looked at, the user's words may be further back.
    if history.by_user == 0 && history.waiting == 0 && !history.is_cut {
        return Step::Nothing;
    }
    match (history.is_active, history.waiting) {
        (true, _) => Step::Busy("the agent is at work in it".into()),
        (false, 0) => Step::End(session),
        (false, 1) => Step::Busy("a message waits for the agent".into()),
        (false, waiting) => Step::Busy(format!("{waiting} messages wait for the agent")),
    }
}

/// Looks until the session is idle, for as long as `wait`.
pub(super) async fn look(
    key: &str,
    wait: Duration,
    gateway: &mut dyn Gateway,
) -> Result<(Step, History), GatewayError> {
    let deadline = Instant::now() + wait;
    let mut told = String::new();
    loop {
        let described = session::describe(gateway, key).await?;
        let history = match &described {
            Described::Unknown => History::default(),
            _ => session::history(gateway, key).await?,
        };
        let step = decide(&described, &history, key);
        let Step::Busy(what) = &step else { return Ok((step, history)) };
        if Instant::now() >= deadline {
            return Ok((step, history));
        }
        if told != *what {
            tracing::info!("{key}: {what}; waiting");
            told.clone_from(what);
        }
        tokio::time::sleep(pause(wait, Duration::from_secs(2))).await;
    }
}

/// How long to wait before looking again: often enough for a short wait, at most `longest`.
pub(super) fn pause(wait: Duration, longest: Duration) -> Duration {
    (wait / 20).clamp(Duration::from_millis(10), longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_gateway_says_decides() {
        let session = Session { key: "agent:main:main".into(), id: "s-1".into() };
        let known = Described::Known(session.clone());
        let said = History { by_user: 2, messages: 4, ..History::default() };
        let with = |change: fn(&mut History)| {
            let mut history = said.clone();
            change(&mut history);
            history
        };
        assert_eq!(decide(&known, &said, "main"), Step::End(session));
        assert_eq!(decide(&Described::Unknown, &said, "main"), Step::Unknown);
        assert_eq!(decide(&Described::Unsaid, &said, "main"), Step::Unknown);
        let old = with(|h| h.session_id = Some("s-2".into()));
        let of_old = Session { key: "main".into(), id: "s-2".into() };
        assert_eq!(decide(&Described::Unsaid, &old, "main"), Step::End(of_old));
        assert_eq!(decide(&known, &with(|h| h.by_user = 0), "main"), Step::Nothing);
        // A heartbeat at work is no reason to wait where nobody said anything.
        assert_eq!(decide(&known, &with(|h| (h.by_user, h.is_active) = (0, true)), "main"), Step::Nothing);
        assert!(matches!(decide(&known, &with(|h| (h.by_user, h.is_cut) = (0, true)), "main"), Step::End(_)));
        for busy in
            [with(|h| h.is_active = true), with(|h| h.waiting = 1), with(|h| (h.by_user, h.waiting) = (0, 2))]
        {
            assert!(matches!(decide(&known, &busy, "main"), Step::Busy(_)), "{busy:?}");
        }
    }

    #[test]
    fn a_short_wait_is_looked_at_often_and_a_long_one_not_too_often() {
        let longest = Duration::from_millis(250);
        assert_eq!(pause(Duration::from_millis(300), longest), Duration::from_millis(15));
        assert_eq!(pause(Duration::ZERO, longest), Duration::from_millis(10));
        assert_eq!(pause(Duration::from_secs(30), longest), longest);
    }
}
