//! Whether the pool's threads help with the runs of a plan. Waking them costs a short run more than they save, by how
//! much depends on the machine and on what else it does: measured, not estimated.

use std::time::Duration;

/// Runs that take longer with helpers are not tried without them: a wake-up is a small part of them, and a run on one
/// thread takes up to as many times longer as there are threads.
const SHORT: Duration = Duration::from_micros(500);

/// Number of runs of each kind before the kinds are compared. The first one touches memory for the first time.
const TRIALS: u32 = 2;

/// Number of runs after which the slower kind is tried again: the machine may have become busy or idle.
const PERIOD: u32 = 256;

/// How long recent runs of a kind took.
#[derive(Clone, Copy, Default)]
struct Recent {
    runs: u32,
    time: Duration,
}

impl Recent {
    /// A slow run counts little: another process may have interrupted it.
    fn add(&mut self, time: Duration) {
        self.time = match self.runs < TRIALS || time < self.time {
            true => time,
            false => self.time + (time - self.time) / 8,
        };
        self.runs = self.runs.saturating_add(1);
    }
}

/// The times of the runs of a plan.
#[derive(Default)]
pub struct Pace {
    helped: Recent,
    alone: Recent,
    /// Number of runs since the slower kind was tried.
    since: u32,
}

impl Pace {
    /// Whether other threads should help with the next run.
    pub fn needs_help(&mut self) -> bool {
        if self.helped.runs < TRIALS || self.helped.time > SHORT {
            return true;
        }
        if self.alone.runs < TRIALS {
            return false;
        }
        self.since = self.since.saturating_add(1);
        let [faster, slower] = [self.helped.time.min(self.alone.time), self.helped.time.max(self.alone.time)];
        let is_trial = self.since >= PERIOD && slower < 2 * faster;
        if is_trial {
            self.since = 0;
        }
        (self.helped.time < self.alone.time) != is_trial
    }

    /// Records how long a run took.
    pub fn add(&mut self, was_helped: bool, time: Duration) {
        match was_helped {
            true => self.helped.add(time),
            false => self.alone.add(time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 1,000 runs are helped where runs take these times in microseconds.
    fn helped([helped, alone]: [u64; 2], pace: &mut Pace) -> u32 {
        let mut count = 0;
        for _ in 0..1000 {
            let needs_help = pace.needs_help();
            count += needs_help as u32;
            pace.add(needs_help, Duration::from_micros(if needs_help { helped } else { alone }));
        }
        count
    }

    #[test]
    fn short_runs_are_helped_only_where_it_pays() {
        let few = 1000 / PERIOD;
        assert_eq!(helped([30, 20], &mut Pace::default()), TRIALS + few);
        assert_eq!(helped([50, 20], &mut Pace::default()), TRIALS, "no trial would change that");
        assert_eq!(helped([120, 200], &mut Pace::default()), 1000 - TRIALS - few);
        assert_eq!(helped([501, 600], &mut Pace::default()), 1000);
    }

    #[test]
    fn the_choice_follows_the_machine() {
        let mut pace = Pace::default();
        helped([120, 200], &mut pace);
        // Another process takes the other cores.
        assert!(helped([400, 200], &mut pace) < 50);
        // It ends.
        assert!(helped([120, 200], &mut pace) > 1000 - 2 * PERIOD);
    }

    #[test]
    fn one_slow_run_changes_nothing() {
        let mut pace = Pace::default();
        helped([120, 200], &mut pace);
        pace.add(true, Duration::from_micros(500));
        assert!(helped([120, 200], &mut pace) > 990);
    }
}
