//! Which troubles there are, since when, and what the operator knows of them: `state/alerts.json`. Pure: a state and
//! an observation give the next state and what to tell. A trouble is told once, and once more when it is over.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::message::Event;
use super::observe::{Idle, Observation, Signal, Trouble};
use crate::state::StateError;

/// So many nights with material that changed nothing are trouble.
pub const NIGHTS_IN_A_ROW: u32 = 3;

const FORMAT: u32 = 1;

/// The unit whose failure is that of a night.
const NIGHT_UNIT: &str = "dreamer.service";

/// A kind of trouble.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Kind {
    /// A night failed.
    Failure,
    /// The loss budget stopped fading or merging.
    LossBudget,
    /// Rows vanished that nobody forgot on purpose.
    VanishedRows,
    /// Several nights in a row had material and changed nothing.
    NothingChanged,
    /// Another unit of systemd failed.
    Unit(String),
}

impl Kind {
    /// The kind that the failure of a unit is.
    pub fn of_unit(unit: &str) -> Self {
        match unit {
            NIGHT_UNIT | "dreamer" => Self::Failure,
            other => Self::Unit(other.to_string()),
        }
    }

    /// The word in files and for programs.
    pub fn word(&self) -> String {
        self.clone().into()
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Failure => "failure".into(),
            Kind::LossBudget => "loss_budget".into(),
            Kind::VanishedRows => "vanished_rows".into(),
            Kind::NothingChanged => "nothing_changed".into(),
            Kind::Unit(unit) => format!("unit:{unit}"),
        }
    }
}

impl From<String> for Kind {
    fn from(word: String) -> Self {
        match word.as_str() {
            "failure" => Self::Failure,
            "loss_budget" => Self::LossBudget,
            "vanished_rows" => Self::VanishedRows,
            "nothing_changed" => Self::NothingChanged,
            other => Self::Unit(other.strip_prefix("unit:").unwrap_or(other).to_string()),
        }
    }
}

/// One trouble, from when it began to when the operator knows that it is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Raised {
    since: DateTime<Utc>,
    /// The operator knows of it.
    told: bool,
    /// It is over, and the operator does not know that yet.
    #[serde(default)]
    over: bool,
}

/// The state of all troubles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alerts {
    format: u32,
    raised: BTreeMap<Kind, Raised>,
    /// Nights in a row that had material and changed nothing.
    #[serde(default)]
    idle_nights: u32,
}

impl Default for Alerts {
    fn default() -> Self {
        Self { format: FORMAT, raised: BTreeMap::new(), idle_nights: 0 }
    }
}

impl Alerts {
    /// Reads the state; without a file there is no trouble. A damaged file starts anew, which repeats a message at
    /// worst.
    ///
    /// # Errors
    /// When a later version wrote it.
    pub fn read(bytes: Option<&[u8]>, path: &Path) -> Result<Self, StateError> {
        let Some(bytes) = bytes else { return Ok(Self::default()) };
        let Ok(alerts) = serde_json::from_slice::<Self>(bytes) else {
            tracing::warn!("{} cannot be read and starts anew", path.display());
            return Ok(Self::default());
        };
        if alerts.format > FORMAT {
            let detail = format!("format {} is of a later version", alerts.format);
            return Err(StateError::Malformed { path: path.to_path_buf(), detail });
        }
        Ok(alerts)
    }

    /// The file's content.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("plain data can be written");
        bytes.push(b'\n');
        bytes
    }

    /// Takes an observation in and says what the operator has to hear now. Call [`Alerts::note_told`] for each that
    /// was delivered.
    pub fn take_in(&mut self, observation: &Observation, now: DateTime<Utc>) -> Vec<Event> {
        let mut signals = observation.signals.clone();
        signals.push((Kind::NothingChanged, self.count_idle(&observation.idle)));
        let mut events = Vec::new();
        for (kind, signal) in signals {
            let event = match signal {
                Signal::Raised(trouble) => self.raise(kind, trouble, now),
                Signal::Clear => self.clear(kind),
                Signal::Unknown => None,
            };
            events.extend(event.map(|event| Event {
                run: observation.run.clone(),
                dream_log: observation.dream_log.clone(),
                ..event
            }));
        }
        events
    }

    fn count_idle(&mut self, idle: &Idle) -> Signal {
        match idle {
            Idle::Unknown => Signal::Unknown,
            Idle::No => {
                self.idle_nights = 0;
                Signal::Clear
            }
            Idle::Yes(trouble) => {
                self.idle_nights = self.idle_nights.saturating_add(1);
                match self.idle_nights >= NIGHTS_IN_A_ROW {
                    true => Signal::Raised(trouble.clone()),
                    false => Signal::Unknown,
                }
            }
        }
    }

    fn raise(&mut self, kind: Kind, trouble: Trouble, now: DateTime<Utc>) -> Option<Event> {
        let raised =
            self.raised.entry(kind.clone()).or_insert(Raised { since: now, told: false, over: false });
        // It came back before the operator could be told that it was over: for them it never ended.
        raised.over = false;
        let since = raised.since;
        (!raised.told).then_some(Event { kind, since, trouble: Some(trouble), run: None, dream_log: None })
    }

    fn clear(&mut self, kind: Kind) -> Option<Event> {
        let raised = self.raised.get_mut(&kind)?;
        if !raised.told {
            // Nobody heard of it, so nobody needs to hear that it is over.
            self.raised.remove(&kind);
            return None;
        }
        raised.over = true;
        let since = raised.since;
        Some(Event { kind, since, trouble: None, run: None, dream_log: None })
    }

    /// Notes that the operator has heard of an event.
    pub fn note_told(&mut self, event: &Event) {
        if event.trouble.is_none() {
            self.raised.remove(&event.kind);
        } else if let Some(raised) = self.raised.get_mut(&event.kind) {
            raised.told = true;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn night(day: u32) -> DateTime<Utc> {
        format!("2026-03-{day:02}T03:00:00Z").parse().unwrap()
    }

    fn saw(kind: Kind, signal: Signal) -> Observation {
        Observation { signals: vec![(kind, signal)], ..Observation::default() }
    }

    fn trouble() -> Trouble {
        Trouble { what: "x".into(), ..Trouble::default() }
    }

    fn failing() -> Observation {
        saw(Kind::Failure, Signal::Raised(trouble()))
    }

    fn fine() -> Observation {
        saw(Kind::Failure, Signal::Clear)
    }

    /// Runs nights one after the other and gives what was told on each: `+` raised, `-` over. Nights in `undelivered`
    /// reach nobody. The state goes through its file each night.
    fn told(nights: &[Observation], undelivered: &[u32]) -> Vec<String> {
        let mut bytes: Option<Vec<u8>> = None;
        let mut told = Vec::new();
        for (day, observation) in (1..).zip(nights) {
            let mut alerts = Alerts::read(bytes.as_deref(), Path::new("alerts.json")).unwrap();
            for event in alerts.take_in(observation, night(day)) {
                if undelivered.contains(&day) {
                    continue;
                }
                alerts.note_told(&event);
                let sign = if event.trouble.is_some() { '+' } else { '-' };
                told.push(format!("{day}: {sign}{} since {}", event.kind.word(), event.since.format("%d")));
            }
            bytes = Some(alerts.to_bytes());
        }
        told
    }

    #[test]
    fn a_failing_week_sends_two_messages() {
        let week = [vec![fine()], vec![failing(); 7], vec![fine(), fine()]].concat();
        assert_eq!(told(&week, &[]), ["2: +failure since 02", "9: -failure since 02"]);
    }

    #[test]
    fn nights_that_say_nothing_neither_raise_nor_clear() {
        let nights = [failing(), Observation::default(), failing(), Observation::default(), fine()];
        assert_eq!(told(&nights, &[]), ["1: +failure since 01", "5: -failure since 01"]);
    }

    #[test]
    fn a_second_failing_week_is_told_anew() {
        let nights = [failing(), fine(), failing(), fine()];
        assert_eq!(
            told(&nights, &[]),
            ["1: +failure since 01", "2: -failure since 01", "3: +failure since 03", "4: -failure since 03"]
        );
    }

    #[test]
    fn what_could_not_be_delivered_is_told_the_next_time_it_holds() {
        let nights = [failing(), failing(), failing(), fine()];
        assert_eq!(told(&nights, &[1]), ["2: +failure since 01", "4: -failure since 01"]);
        assert_eq!(
            told(&[failing(), fine(), fine()], &[1]),
            Vec::<String>::new(),
            "nobody knew, nobody asks"
        );
        let late = [failing(), fine(), fine(), fine()];
        assert_eq!(told(&late, &[2]), ["1: +failure since 01", "3: -failure since 01"]);
        let again = [failing(), fine(), failing(), fine()];
        assert_eq!(told(&again, &[2]), ["1: +failure since 01", "4: -failure since 01"]);
    }

    #[test]
    fn three_idle_nights_in_a_row_are_told_once_and_a_night_without_material_does_not_count() {
        let idle = |idle| Observation { idle, ..Observation::default() };
        let (yes, no, unknown) = (idle(Idle::Yes(trouble())), idle(Idle::No), idle(Idle::Unknown));
        for (nights, expected) in [
            (vec![&yes, &yes, &no, &yes, &yes, &no], vec![]),
            (
                vec![&yes, &yes, &yes, &yes, &no, &no],
                vec!["3: +nothing_changed since 03", "5: -nothing_changed since 03"],
            ),
            (vec![&yes, &unknown, &yes, &unknown, &yes], vec!["5: +nothing_changed since 05"]),
        ] {
            let nights: Vec<Observation> = nights.into_iter().cloned().collect();
            assert_eq!(told(&nights, &[]), expected);
        }
    }

    #[test]
    fn kinds_do_not_disturb_each_other() {
        let both = |a: Signal, b: Signal| Observation {
            signals: vec![(Kind::LossBudget, a), (Kind::VanishedRows, b)],
            ..Observation::default()
        };
        let up = || Signal::Raised(trouble());
        let nights = [
            both(up(), Signal::Clear),
            both(up(), up()),
            both(Signal::Clear, up()),
            both(up(), Signal::Clear),
        ];
        assert_eq!(
            told(&nights, &[]),
            [
                "1: +loss_budget since 01",
                "2: +vanished_rows since 02",
                "3: -loss_budget since 01",
                "4: +loss_budget since 04",
                "4: -vanished_rows since 02"
            ]
        );
    }

    #[test]
    fn a_unit_that_failed_after_its_own_alert_tells_nothing_more() {
        let unit = Observation::of_unit("dreamer.service", false, None);
        assert_eq!(told(&[failing(), unit, fine()], &[]), ["1: +failure since 01", "3: -failure since 01"]);
        let flush = |is_over| Observation::of_unit("session-flush.service", is_over, None);
        let nights = [flush(true), flush(false), fine(), flush(false), flush(true), flush(true)];
        let name = "unit:session-flush.service since 02";
        assert_eq!(told(&nights, &[]), [format!("2: +{name}"), format!("5: -{name}")]);
    }

    #[test]
    fn the_file_is_stable_and_a_damaged_one_starts_anew() {
        let mut alerts = Alerts::default();
        let events = alerts.take_in(&failing(), night(1));
        alerts.note_told(&events[0]);
        alerts.take_in(&Observation::of_unit("x.service", false, None), night(2));
        insta::assert_snapshot!(String::from_utf8(alerts.to_bytes()).unwrap(), @r#"
        {
          "format": 1,
          "raised": {
            "failure": {
              "since": "2026-03-01T03:00:00Z",
              "told": true,
              "over": false
            },
            "unit:x.service": {
              "since": "2026-03-02T03:00:00Z",
              "told": false,
              "over": false
            }
          },
          "idle_nights": 0
        }
        "#);
        let path = Path::new("alerts.json");
        assert_eq!(Alerts::read(Some(&alerts.to_bytes()), path).unwrap(), alerts);
        assert_eq!(Alerts::read(Some(b"{\"format\":1,"), path).unwrap(), Alerts::default());
        assert!(Alerts::read(Some(b"{\"format\":2,\"raised\":{}}"), path).is_err());
    }
}
