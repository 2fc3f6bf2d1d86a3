//! Room on the disk: how much a night is going to write, generously, and whether there is that much. A disk that fills
//! up half-way through is what makes a night fail in the worst place.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::plan::DreamPlan;

const MB: u64 = 1024 * 1024;
/// What every night needs, whatever it does: manifests, transactions, journal, log.
const FLOOR: u64 = 32 * MB;
/// A row without text and vector, and a trace.
const ROW: u64 = 1024;
const TRACE: u64 = 2 * 1024;
/// A number of a vector as Arrow, and as JSON in the plan.
const STORED_NUMBER: u64 = 4;
const PRINTED_NUMBER: u64 = 14;

/// There is too little room; nothing was written.
#[derive(Debug, thiserror::Error)]
#[error(
    "dream: the disk of {folder} has {free} bytes ({} MB) free, and {needed} bytes ({} MB) are needed, of which \
     DREAMER_MIN_FREE_MB={keep} stay free; nothing was written; make room, or lower DREAMER_MIN_FREE_MB (0 switches this off)",
    free / MB, needed.div_ceil(MB)
)]
pub struct NoSpace {
    /// What was to be written to.
    pub folder: PathBuf,
    /// Bytes that are needed, with those that are to stay free.
    pub needed: u64,
    /// Bytes that are free.
    pub free: u64,
    /// `DREAMER_MIN_FREE_MB`.
    pub keep: u64,
}

/// A file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// What tells it from others.
    pub id: u64,
    /// Bytes that this user may still write.
    pub free: u64,
}

/// Bytes a night writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Under `DREAMER_HOME`, the database aside.
    pub home: u64,
    /// To the database.
    pub database: u64,
}

impl Needs {
    /// Before the plan is known: what every night needs.
    pub fn at_least() -> Self {
        Self { home: FLOOR, database: FLOOR }
    }

    /// What executing a plan writes, with vectors of `dim` numbers.
    pub fn of(plan: &DreamPlan, dim: usize) -> Self {
        let dim = dim as u64;
        let bytes = |texts: &mut dyn Iterator<Item = usize>| texts.map(|len| len as u64).sum::<u64>();
        let new = plan.inserts.len() + plan.merged_drafts.len();
        let leaving = plan.leaving.len() + plan.unarchive.len();
        let new_text = bytes(&mut plan.inserts.iter().map(|row| row.memory.text.len()))
            + bytes(&mut plan.merged_drafts.iter().map(|draft| draft.row.memory.text.len()));
        let leaving_text = bytes(&mut plan.leaving.iter().map(|leaving| leaving.text.len()));
        let raw_text = bytes(&mut plan.raw.iter().map(|raw| raw.text.len()));
        let changed_text = bytes(&mut plan.importance.iter().map(|change| change.text.len()));
        let (new, leaving, raw) = (new as u64, leaving as u64, plan.raw.len() as u64);
        let (traces, changed) = (plan.traces.len() as u64, plan.importance.len() as u64);

        let text = new_text + leaving_text + raw_text;
        let row = ROW + dim * STORED_NUMBER;
        // Before-images, the plan with its vectors in words, journal and copies for people.
        let home = (leaving * row + traces * TRACE)
            + (new + raw) * (ROW + dim * PRINTED_NUMBER)
            + (leaving + changed) * ROW
            + traces * TRACE
            + 2 * (text + changed_text);
        // New rows, archive copies, raw memories, traces; the importance of every row twice.
        let database = (new + leaving + raw) * row + text + traces * TRACE + changed * 2 * 16 + changed_text;
        Self { home: FLOOR + 2 * home, database: FLOOR + 2 * database }
    }
}

/// Refuses a night for which there is too little room, where that can be found out.
///
/// # Errors
/// [`NoSpace`], with the folder, what is needed and what is there.
pub fn check(config: &Config, needs: Needs, disk: impl Fn(&Path) -> io::Result<Disk>) -> Result<(), NoSpace> {
    if config.min_free_mb == 0 {
        return Ok(());
    }
    let looked_at = |folder: &Path| match disk(folder) {
        Ok(disk) => Some(disk),
        Err(error) => {
            tracing::debug!("the free space of {} is not known: {error}", folder.display());
            None
        }
    };
    let database = PathBuf::from(&config.lancedb_uri);
    let (of_home, of_database) = (looked_at(&config.home), looked_at(&database));
    let same = of_home.zip(of_database).is_some_and(|(home, database)| home.id == database.id);
    let demands = match same {
        true => vec![(&config.home, of_home, needs.home + needs.database)],
        false => vec![(&config.home, of_home, needs.home), (&database, of_database, needs.database)],
    };
    for (folder, disk, demand) in demands {
        let needed = demand + config.min_free_mb * MB;
        if let Some(disk) = disk.filter(|disk| disk.free < needed) {
            let keep = config.min_free_mb;
            return Err(NoSpace { folder: folder.clone(), needed, free: disk.free, keep });
        }
    }
    Ok(())
}

/// The file system a folder lies on.
///
/// # Errors
/// When the folder is not there, or this system does not tell.
#[cfg(unix)]
pub fn disk_of(folder: &Path) -> io::Result<Disk> {
    use std::os::unix::fs::MetadataExt;
    let id = std::fs::metadata(folder)?.dev();
    let stat = rustix::fs::statvfs(folder)?;
    Ok(Disk { id, free: stat.f_bavail.saturating_mul(stat.f_frsize) })
}

/// The file system a folder lies on.
///
/// # Errors
/// Always: this system does not tell.
#[cfg(not(unix))]
pub fn disk_of(_folder: &Path) -> io::Result<Disk> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::Layers;

    const HOME: &str = "/srv/home";

    fn config(database: &str, min_free: &str) -> Config {
        let set =
            [("DREAMER_HOME", HOME), ("DREAMER_LANCEDB_URI", database), ("DREAMER_MIN_FREE_MB", min_free)];
        Config::resolve(&Layers::of(&set)).unwrap().0
    }

    /// Disks of `home` and `database` MB; one disk where both are the same.
    fn disks(home: u64, database: Option<u64>) -> impl Fn(&Path) -> io::Result<Disk> {
        move |folder| {
            Ok(match database.filter(|_| !folder.starts_with(HOME)) {
                Some(free) => Disk { id: 2, free: free * MB },
                None => Disk { id: 1, free: home * MB },
            })
        }
    }

    #[test]
    fn a_night_needs_its_writes_and_what_is_to_stay_free() {
        let needs = Needs { home: 40 * MB, database: 60 * MB };
        for (home, database, min_free, short) in [
            (200, None, "100", None),
            (199, None, "100", Some((HOME, 200, 199))),
            (140, Some(160), "100", None),
            (139, Some(160), "100", Some((HOME, 140, 139))),
            (140, Some(159), "100", Some(("/mnt/db", 160, 159))),
            (101, None, "1", None),
            (0, None, "0", None),
        ] {
            let config = config(database.map_or("/srv/home/lancedb", |_| "/mnt/db"), min_free);
            let found = check(&config, needs, disks(home, database)).err();
            let found = found.map(|no| (no.folder.display().to_string(), no.needed, no.free));
            let expected = short.map(|(folder, needed, free)| (folder.to_owned(), needed * MB, free * MB));
            assert_eq!(found, expected, "{home} {database:?} {min_free}");
        }
    }

    #[test]
    fn the_error_names_folder_and_bytes() {
        let error = check(&config("/mnt/db", "100"), Needs::at_least(), disks(500, Some(7))).unwrap_err();
        let told = error.to_string();
        for part in ["/mnt/db", "7340032 bytes (7 MB)", "138412032 bytes (132 MB)", "DREAMER_MIN_FREE_MB"] {
            assert!(told.contains(part), "{told:?} lacks {part:?}");
        }
    }

    #[test]
    fn what_cannot_be_found_out_stops_nothing() {
        let unknown = |_: &Path| Err(io::ErrorKind::Unsupported.into());
        assert!(check(&config("/mnt/db", "100"), Needs::at_least(), unknown).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn a_real_folder_has_a_disk() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(disk_of(folder.path()).unwrap().id, disk_of(&std::env::temp_dir()).unwrap().id);
        assert!(disk_of(&folder.path().join("none")).is_err());
    }
}
