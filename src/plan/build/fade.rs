//! Fading as writes: the importance of today for every live row, and the rows that leave within the loss budget.

use std::collections::BTreeMap;

use super::Building;
use crate::memory::Departure;
use crate::plan::ImportanceChange;
use crate::rem::fading::{self, Fading};
use crate::report::{Faded, Joined};

impl Building<'_> {
    /// Every live row gets its importance of today; those below the threshold leave, within the loss budget.
    pub(super) fn fade(&mut self) {
        let known = self.found.known;
        let threshold = self.night.config.fade_threshold;
        let mut below: BTreeMap<String, Vec<Fading>> = BTreeMap::new();
        for row in known.rows.values().filter(|row| !self.leaving.contains(&row.id)) {
            let importance = self.traces.importance_today(&row.id).unwrap_or(row.importance);
            if importance < threshold && self.traces.may_fade(&row.id) && !self.is_in_a_resolution(&row.id) {
                let fading = Fading { memory: row.clone(), importance };
                below.entry(row.partition.agent.clone()).or_default().push(fading);
            }
        }
        for (agent, below) in below {
            let budget = crate::rem::loss_budget(known, self.night, &agent).fading;
            let (leave, wait) = fading::within_budget(below, budget);
            self.plan.report.waiting.fading += wait.len();
            for fading in leave {
                let memory = self.shown_row(&fading.memory.id);
                self.leave(&fading.memory.id, Departure::Faded, None);
                self.plan.report.rem.faded += 1;
                self.plan.report.faded.push(Faded { memory, importance: fading.importance });
            }
        }
        self.change_importance();
    }

    pub(super) fn change_importance(&mut self) {
        for row in self.found.known.rows.values() {
            let Some(to) = self.traces.importance_today(&row.id) else { continue };
            // Without a reinforcement importance only falls: a clock that went back gives nothing back.
            let to = if self.traces.is_reinforced(&row.id) { to } else { to.min(row.importance) };
            let stays = !self.leaving.contains(&row.id);
            if (to - row.importance).abs() > f64::EPSILON {
                if to < row.importance {
                    self.plan.report.rem.decayed += usize::from(stays);
                }
                if stays {
                    let (id, text, from) = (row.id.clone(), row.text.clone(), row.importance);
                    self.plan.importance.push(ImportanceChange { id, text, from, to });
                    self.traces.note_written(&row.id, to);
                }
            }
        }
    }

    pub(super) fn is_in_a_resolution(&self, id: &str) -> bool {
        let kept = |joined: &Joined| joined.after.iter().any(|shown| shown.id == id);
        self.plan.report.joined.iter().any(kept)
            || self.plan.report.strengthened.iter().any(|again| again.memory.id == id)
    }
}
