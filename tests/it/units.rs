//! The units as an operator gets them: what `scripts/install-units` writes, checked by systemd itself, and the examples
//! for those who have no systemd.
#![allow(clippy::unwrap_used, clippy::print_stderr)]
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SERVICES: [&str; 2] = ["dreamer.service", "session-flush.service"];
const UNITS: [&str; 5] = [
    "dreamer-alert@.service",
    "dreamer.service",
    "dreamer.timer",
    "session-flush.service",
    "session-flush.timer",
];

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A home with the example, programs in a folder of their own, and a folder for units.
struct Machine {
    dir: tempfile::TempDir,
    home: PathBuf,
}

impl Machine {
    /// `settings` are added to the home's.
    fn new(home: &str, settings: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap().join(home);
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        for program in ["dreamer", "session-flush"] {
            // The flush may be a program of another build; for the units it counts that it is there.
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dreamer"), dir.path().join("bin").join(program))
                .unwrap();
        }
        let machine = Self { dir, home };
        let set_up =
            machine.run(machine.path("bin/dreamer"), &["--home", machine.home(), "setup", "--example"]);
        assert!(set_up.status.success(), "{}", text(&set_up.stderr));
        let path = machine.home.join(".env");
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + settings).unwrap();
        machine
    }

    /// Like most: episodes and database are the gateway's.
    fn with_gateway() -> Self {
        let machine = Self::new(".dreamer", "");
        let path = machine.home.join(".env");
        let (episodes, database) = (machine.path("ws/memory"), machine.path("db & 100% more"));
        let more = format!(
            "DREAMER_EPISODES_DIR={}\nDREAMER_LANCEDB_URI=\"{}\"\nDREAMER_MAX_MINUTES=45\n",
            episodes.display(),
            database.display()
        );
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + &more).unwrap();
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    fn home(&self) -> &str {
        self.home.to_str().unwrap()
    }

    fn run(&self, program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Output {
        Command::new(program)
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.dir.path())
            .env("SYSTEMD_UNIT_PATH", format!("{}:", self.path("units").display()))
            .env("SYSTEMD_PAGER", "")
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn script(&self, args: &[&str]) -> Output {
        let units = self.path("units");
        let all = [args, &["--dir", units.to_str().unwrap()]].concat();
        self.run(repository("scripts/install-units"), &all)
    }

    fn install(&self) -> String {
        let user = text(&self.run("id", &["-un"]).stdout);
        let bin = self.path("bin");
        let args = ["--user", user.trim(), "--home", self.home(), "--bin", bin.to_str().unwrap()];
        let output = self.script(&args);
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    fn units(&self) -> Vec<String> {
        let mut units: Vec<String> = std::fs::read_dir(self.path("units"))
            .map(|entries| entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect())
            .unwrap_or_default();
        units.sort();
        units
    }

    fn unit(&self, name: &str) -> String {
        std::fs::read_to_string(self.path("units").join(name)).unwrap()
    }

    /// What a unit sets, the last line with that name.
    fn value(&self, unit: &str, name: &str) -> String {
        let unit = self.unit(unit);
        let found = unit.lines().filter_map(|line| line.strip_prefix(&format!("{name}="))).next_back();
        found.unwrap_or_else(|| panic!("no {name} in {unit}")).to_string()
    }

    /// Runs the command of a unit as systemd would, without its sandbox.
    fn exec(&self, unit: &str, name: &str, instance: &str) -> Output {
        let line = self.value(unit, name).replace("%i", instance).replace("%n", unit).replace("%%", "%");
        let words: Vec<String> =
            line.trim_start_matches('-').split('"').enumerate().fold(Vec::new(), |mut words, (at, part)| {
                match at % 2 {
                    1 => words.push(part.to_string()),
                    _ => words.extend(part.split_whitespace().map(str::to_string)),
                }
                words
            });
        let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        self.run(&words[0], &args)
    }
}

/// Whether systemd can be asked. In CI it must be there: a test that is skipped without anybody noticing is none.
fn has_systemd() -> bool {
    let found = Command::new("systemd-analyze").arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        assert!(std::env::var_os("DREAMER_REQUIRE_SYSTEMD").is_none(), "systemd-analyze is missing");
        eprintln!("skipped: systemd-analyze is not installed (Debian: apt-get install systemd)");
    }
    found
}

#[test]
fn systemd_finds_nothing_wrong_with_the_installed_units() {
    for machine in [Machine::with_gateway(), Machine::new("my home", "")] {
        machine.install();
        if !has_systemd() {
            return;
        }
        let paths: Vec<String> = machine
            .units()
            .iter()
            .map(|unit| machine.path("units").join(unit).display().to_string())
            .collect();
        let args: Vec<&str> = ["verify"].into_iter().chain(paths.iter().map(String::as_str)).collect();
        let output = machine.run("systemd-analyze", &args);
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
        // So that the check above is one: systemd tells a slip in a unit.
        let slip = machine.unit("dreamer.service").replace("NoNewPrivileges", "NoNewPrivilege");
        std::fs::write(machine.path("units/dreamer.service"), slip).unwrap();
        assert!(text(&machine.run("systemd-analyze", &args).stderr).contains("NoNewPrivilege"));
    }
}

#[test]
fn the_services_are_exposed_at_most_2_5() {
    let machine = Machine::with_gateway();
    machine.install();
    if !has_systemd() {
        return;
    }
    for unit in SERVICES.into_iter().chain(["dreamer-alert@.service"]) {
        let path = machine.path("units").join(unit);
        let args = |threshold| ["security", "--offline=true", threshold, path.to_str().unwrap()];
        let output = machine.run("systemd-analyze", &args("--threshold=25"));
        assert!(output.status.success(), "{unit}: {}", text(&output.stdout));
        assert!(
            !machine.run("systemd-analyze", &args("--threshold=5")).status.success(),
            "the threshold counts"
        );
    }
}

#[test]
fn a_gateways_folders_can_be_written_and_nothing_else() {
    let machine = Machine::with_gateway();
    let told = machine.install();
    assert_eq!(machine.units(), UNITS);
    let user = text(&machine.run("id", &["-un"]).stdout);
    let next = format!("sudo scripts/install-units --user {} --home {}\n", user.trim(), machine.home());
    assert!(told.ends_with(&next) && !told.contains("list-timers"), "nothing was started: {told}");
    let (episodes, database) = (machine.path("ws/memory"), machine.path("db & 100%% more"));
    let expected = format!("\"{}\" \"-{}\" \"-{}\"", machine.home(), database.display(), episodes.display());
    for service in SERVICES {
        assert_eq!(machine.value(service, "ReadWritePaths"), expected);
        assert_eq!(machine.value(service, "ProtectSystem"), "strict");
    }
    assert_eq!(machine.value("dreamer.service", "TimeoutStartSec"), "75min", "DREAMER_MAX_MINUTES and 30");
    for unit in UNITS {
        let text = machine.unit(unit);
        let is_open =
            text.split('@').any(|part| part.len() > 2 && part.chars().all(|c| c.is_ascii_uppercase()));
        assert!(!is_open, "a placeholder is left in {text}");
    }
}

#[test]
fn the_folder_of_every_agent_can_be_written() {
    let machine = Machine::with_gateway();
    let path = machine.home.join(".env");
    let agents = format!(
        "DREAMER_AGENTS=\"main={}, work = ~/their work/memory ,kid\"\n",
        machine.path("ws/memory").display()
    );
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + &agents).unwrap();
    machine.install();
    // The user's own home folder, not the one of this test: that is whose `~` it is to the service.
    let of_user = text(&machine.run("sh", &["-c", "getent passwd \"$(id -un)\" | cut -d: -f6"]).stdout);
    let work = format!("\"-{}/their work/memory\"", of_user.trim());
    for service in UNITS.into_iter().filter(|unit| unit.ends_with(".service")) {
        let writable = machine.value(service, "ReadWritePaths");
        assert!(writable.ends_with(&work), "{service}: {writable}");
        assert_eq!(writable.matches("ws/memory").count(), 1, "each once: {writable}");
    }
}

#[test]
fn a_home_of_its_own_has_no_session_to_end() {
    let machine = Machine::new("my home", "");
    assert!(machine.install().contains("there is no gateway"));
    assert_eq!(machine.units(), UNITS[..3]);
    assert_eq!(machine.value("dreamer.service", "ReadWritePaths"), format!("\"{}\"", machine.home()));
    assert_eq!(machine.value("dreamer.service", "TimeoutStartSec"), "150min");
}

#[test]
fn the_night_follows_the_flush_and_neither_is_missed() {
    let machine = Machine::with_gateway();
    machine.install();
    for (timer, time) in [("session-flush.timer", "02:00:00"), ("dreamer.timer", "03:00:00")] {
        assert_eq!(machine.value(timer, "OnCalendar"), format!("*-*-* {time}"));
        assert_eq!(machine.value(timer, "Persistent"), "true");
    }
    assert!(machine.value("dreamer.service", "After").contains("session-flush.service"));
    assert!(!machine.unit("dreamer.service").contains("Requires="));
    for service in SERVICES {
        assert_eq!(machine.value(service, "OnFailure"), "dreamer-alert@%n.service");
    }
}

#[test]
fn the_commands_of_the_units_are_ones_the_program_knows() {
    let machine = Machine::new("my home", "DREAMER_WINDOW=off\nDREAMER_MIN_NEW=off\n");
    machine.install();
    let night = machine.exec("dreamer.service", "ExecStart", "");
    assert_eq!(night.status.code(), Some(0), "{}", text(&night.stderr));
    assert!(text(&night.stderr).contains("dream log"), "verbose: {}", text(&night.stderr));
    let alert = machine.exec("dreamer-alert@.service", "ExecStart", "dreamer.service");
    assert_eq!(alert.status.code(), Some(0), "{}", text(&alert.stderr));
    assert!(text(&alert.stdout).contains("DREAMER_ALERT_PROVIDER is off"));

    let machine = Machine::with_gateway();
    machine.install();
    let over = machine.exec("session-flush.service", "ExecStartPost", "");
    assert_eq!(over.status.code(), Some(0), "{}", text(&over.stderr));
}

#[test]
fn a_comment_behind_a_value_is_one_for_the_units_too() {
    let machine = Machine::new("my home", "DREAMER_WINDOW=off # any time\nDREAMER_MIN_NEW=1 # low\n");
    machine.install();
    for unit in ["dreamer.service", "dreamer-alert@.service"] {
        assert!(!machine.unit(unit).contains("EnvironmentFile=-"), "systemd keeps comments as values");
        assert_eq!(machine.exec(unit, "ExecStart", "x").status.code(), Some(0), "{unit}");
    }
    let gateway = Machine::with_gateway();
    gateway.install();
    let flush = gateway.unit("session-flush.service");
    assert!(
        !flush.contains("EnvironmentFile=-") && flush.contains(&format!("--home \"{}\"", gateway.home()))
    );
}

#[test]
fn a_flush_that_is_to_be_tried_again_ends_before_the_night() {
    let machine = Machine::with_gateway();
    machine.install();
    let flush = |name: &str| machine.value("session-flush.service", name);
    let minutes = |name: &str| flush(name).trim_end_matches("min").parse::<u32>().unwrap();
    let starts: u32 = flush("StartLimitBurst").parse().unwrap();
    assert!(starts > 1 && starts * (minutes("TimeoutStartSec") + minutes("RestartSec")) < 60);
    for name in ["Restart", "RestartPreventExitStatus"] {
        assert_eq!(flush(name), machine.value("dreamer.service", name));
    }
}

#[test]
fn without_systemd_nothing_is_written_and_cron_is_named() {
    let machine = Machine::new("my home", "");
    let bin = machine.path("few");
    std::fs::create_dir(&bin).unwrap();
    for program in ["bash", "dirname", "id"] {
        let found = text(&machine.run("sh", &["-c", &format!("command -v {program}")]).stdout);
        std::os::unix::fs::symlink(found.trim(), bin.join(program)).unwrap();
    }
    let written = || {
        let listed = std::fs::read_dir("/etc/systemd/system").into_iter().flatten().flatten();
        let mut names: Vec<_> = listed.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let before = written();
    for args in [&["--home", machine.home()][..], &["--uninstall"]] {
        let mut command = Command::new(bin.join("bash"));
        command.arg(repository("scripts/install-units")).args(args).env_clear().env("PATH", &bin);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {told}");
        assert!(told.contains("no systemctl") && told.contains("examples/crontab"), "{args:?}: {told}");
        assert!(output.stdout.is_empty());
    }
    assert_eq!(written(), before);
}

#[test]
fn uninstalling_removes_what_was_installed_and_nothing_else() {
    let machine = Machine::with_gateway();
    machine.install();
    std::fs::write(machine.path("units/dreamer.timer"), "[Timer]\nOnCalendar=weekly\n").unwrap();
    std::fs::write(machine.path("units/other.service"), "").unwrap();
    let output = machine.script(&["--uninstall"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(machine.units(), ["dreamer.timer", "other.service"]);
}

#[test]
fn what_cannot_be_installed_is_refused_before_anything_is_written() {
    let machine = Machine::new("my $home", "");
    let bin = machine.path("bin");
    let bin = bin.to_str().unwrap();
    for (args, told) in [
        (&["--user", "nobody-of-that-name"][..], "no user nobody-of-that-name"),
        (&["--home", "/nowhere"], "dreamer setup"),
        (&["--home", machine.home(), "--bin", "/nowhere"], "--bin"),
        (&["--home", machine.home(), "--bin", bin], "a unit cannot hold this path"),
        (&["--home"], "needs a value"),
        (&["--frobnicate"], "unknown argument"),
    ] {
        let output = match args {
            // The last argument is what is wrong.
            ["--home"] => machine.run(repository("scripts/install-units"), args),
            _ => machine.script(args),
        };
        assert!(
            !output.status.success() && text(&output.stderr).contains(told),
            "{args:?}: {}",
            text(&output.stderr)
        );
    }
    assert_eq!(machine.units(), Vec::<String>::new());
    std::fs::write(machine.home.join(".env"), "DREAMER_TIMEZONE=Berlin\n").unwrap();
    let output = machine.script(&["--home", machine.home(), "--bin", bin]);
    assert!(text(&output.stderr).contains("DREAMER_TIMEZONE=Berlin"), "{}", text(&output.stderr));
}

#[test]
fn the_crontab_runs_commands_the_program_knows_in_the_order_of_the_units() {
    let machine = Machine::new("h", "");
    let crontab = std::fs::read_to_string(repository("examples/crontab")).unwrap();
    let lines: Vec<Vec<&str>> = crontab
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let when: Vec<String> = lines.iter().map(|line| line[..5].join(" ")).collect();
    assert_eq!(when, ["0 2 * * *", "0 3 * * *", "15,30,45 3 * * *", "30 6-22 * * *"]);
    let nights: Vec<_> = lines.iter().filter(|line| line[5] == "dreamer").collect();
    assert_eq!(nights.len(), 3);
    for line in nights {
        assert!(
            line.ends_with(&[">>", "\"$HOME/.dreamer/cron.log\"", "2>&1"]),
            "no syslog is needed: {line:?}"
        );
        let end = line.len() - 3;
        let args = [&line[6..end], &["--help"]].concat();
        let output = machine.run(machine.path("bin/dreamer"), &args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn the_gateways_settings_keep_a_whole_day_and_the_model_of_the_defaults() {
    let json = std::fs::read(repository("examples/openclaw.json")).unwrap();
    let config: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let hook = &config["hooks"]["internal"]["entries"]["session-memory"];
    assert_eq!((&config["hooks"]["internal"]["enabled"], &hook["enabled"]), (&true.into(), &true.into()));
    assert!(hook["messages"].as_u64().unwrap() > 100, "the default of 15 would lose the day");
    assert_eq!(config["plugins"]["slots"]["memory"], "memory-lancedb");
    let memory = &config["plugins"]["entries"]["memory-lancedb"];
    let model = dreamer::config::variable("OPENAI_EMBEDDING_MODEL").unwrap().default.unwrap();
    assert_eq!(memory["config"]["embedding"]["model"], model);
    let example = std::fs::read_to_string(repository(".env.example")).unwrap();
    let database = memory["config"]["dbPath"].as_str().unwrap();
    assert!(example.contains(&format!("#DREAMER_LANCEDB_URI={database}\n")));
    let zone = config["agents"]["defaults"]["userTimezone"].as_str().unwrap();
    assert!(example.contains(&format!("#DREAMER_TIMEZONE={zone}\n")));
}
