//! `dreamer setup --openclaw` from outside: the settings file, what is said, and that nothing of the gateway's is touched.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use dreamer::config::{Config, Layers};

use crate::home::{copy, digests};

/// A person's folder with a gateway in it, and a cleared environment.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// With these settings of the gateway; `@` is the folder.
    fn new(settings: &str) -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(place.path(".openclaw")).unwrap();
        place.write(".openclaw/openclaw.json", settings);
        place
    }

    /// A gateway as the recorded one of 2026.4.15, with its real table.
    fn recorded() -> Self {
        let settings = fixture("openclaw/openclaw-2026.4.15.json");
        let settings = std::fs::read_to_string(settings).unwrap().replace("RUN415", "@/run");
        let place = Self::new(&settings);
        copy(&fixture("lancedb/openclaw-4.15-real-6col"), &place.path("run/lancedb"));
        std::fs::create_dir_all(place.path("run/ws/memory")).unwrap();
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let text = text.replace('@', self.dir.path().to_str().unwrap());
        std::fs::write(self.path(path), text).unwrap();
    }

    fn run(&self, args: &[&str], environment: &[(&str, &str)]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_dreamer"))
            .env_clear()
            .env("HOME", self.dir.path())
            .env("TZ", "UTC")
            .envs(environment.iter().copied())
            .current_dir(self.dir.path())
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// What a setup that succeeds says, on both channels.
    fn setup(&self, args: &[&str], environment: &[(&str, &str)]) -> String {
        let output = self.run(&[&["setup", "--openclaw"], args].concat(), environment);
        let told = said(&output);
        assert_eq!(output.status.code(), Some(0), "{told}");
        told.replace(self.dir.path().to_str().unwrap(), "@")
    }

    /// What is set in the settings file, sorted.
    fn env_file(&self) -> String {
        let text = std::fs::read_to_string(self.path(".dreamer/.env")).unwrap();
        let text = text.replace(self.dir.path().to_str().unwrap(), "@");
        sorted(&text)
    }

    fn config(&self) -> Config {
        let mut layers = Layers::of(&[]);
        layers.user_home = Some(self.dir.path().to_owned());
        layers.working_dir = self.dir.path().to_owned();
        Config::resolve(&layers.with_files(None).unwrap()).unwrap().0
    }
}

/// The lines that set something, sorted: their order is the template's.
fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> =
        text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    lines.sort_unstable();
    lines.join("\n") + "\n"
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_recorded_gateway_gives_a_home_that_is_ready_and_stays_as_it_is() {
    let place = Place::recorded();
    let before = (digests(&place.path(".openclaw")), digests(&place.path("run")));
    let told = place.setup(&[], &[]);
    assert_eq!(
        place.env_file(),
        "DREAMER_AGENT=main\nDREAMER_EMBEDDING_DIM=64\nDREAMER_EMBEDDING_PROVIDER=openai\n\
         DREAMER_EPISODES_DIR=@/run/ws/memory\nDREAMER_EPISODE_SOURCE=both\nDREAMER_LANCEDB_URI=@/run/lancedb\n\
         DREAMER_LLM_PROVIDER=openai\nDREAMER_TIMEZONE=UTC\nOPENAI_API_KEY=mock-key\n\
         OPENAI_BASE_URL=http://127.0.0.1:18999/v1\nOPENAI_EMBEDDING_MODEL=mock-embed\n\
         OPENAI_LLM_MODEL=mock-chat\n"
    );
    let mode = std::fs::metadata(place.path(".dreamer/.env")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(!told.contains("mock-key") && !told.contains("test-gateway-token"), "{told}");
    for part in [
        "OPENAI_API_KEY (not shown)",
        "OPENAI_API_KEY stands in @/.openclaw/openclaw.json",
        "keeps the last 15 messages of a session",
        "its 3 rows count as those of main",
        "paste    into @/.openclaw/openclaw.json what it lacks",
        "        \"session-memory\": {\n          messages: 500,\n",
        "next     dreamer --verbose",
        "memories   3: main 3",
        "vectors    64 numbers\n",
    ] {
        assert!(told.contains(part), "{part:?} is missing in\n{told}");
    }
    assert!(!told.contains("slots:"), "the plugin is in its slot: {told}");
    assert_eq!((digests(&place.path(".openclaw")), digests(&place.path("run"))), before);
    let config = place.config();
    assert!(config.check_night().is_ok() && config.has_gateway());
    assert_eq!(config.dimension(), Some(64));
}

#[test]
fn a_settings_file_is_never_overwritten_and_what_differs_is_shown() {
    let place = Place::recorded();
    std::fs::create_dir(place.path(".dreamer")).unwrap();
    let own = "DREAMER_EMBEDDING_PROVIDER=builtin\nDREAMER_BUILTIN_MODEL=lexical\nDREAMER_LLM_PROVIDER=extractive\n\
               OPENAI_API_KEY=sk-mine\nDREAMER_LANCEDB_URI=@/run/lancedb/\n";
    place.write(".dreamer/.env", own);
    let told = place.setup(&[], &[]);
    assert_eq!(place.env_file(), sorted(own));
    for part in [
        "DREAMER_EMBEDDING_PROVIDER=builtin (@/.dreamer/.env), but the gateway's settings say openai",
        "OPENAI_API_KEY (@/.dreamer/.env) is another key than the gateway's",
        "left as it is, lacks DREAMER_EPISODES_DIR=@/run/ws/memory",
        "left as it is, lacks DREAMER_EPISODE_SOURCE=both",
        "the table holds vectors of 64 numbers, lexical makes 1024",
    ] {
        assert!(told.contains(part), "{part:?} is missing in\n{told}");
    }
    assert!(!told.contains("DREAMER_LANCEDB_URI="), "a slash is no difference: {told}");
    assert!(!told.contains("mock-key") && !told.contains("sk-mine"), "{told}");
}

#[test]
fn file_folder_and_variables_lead_to_the_gateway_and_it_is_found_again() {
    let settings = "// mine\n{gateway: {port: 19001, auth: {token: 't'}}, agents: {defaults: {userTimezone: 'Asia/Shanghai',},},}";
    let place = Place::new("{}");
    std::fs::create_dir_all(place.path("state/agents")).unwrap();
    place.write("state/openclaw.json", settings);
    let state = place.path("state");
    let file = state.join("openclaw.json");
    let (state, file) = (state.to_str().unwrap(), file.to_str().unwrap());
    type Way<'a> = (Vec<&'a str>, Vec<(&'a str, &'a str)>);
    let ways: [Way<'_>; 4] = [
        (vec![state], vec![]),
        (vec![file], vec![]),
        (vec![], vec![("OPENCLAW_STATE_DIR", state)]),
        (vec![], vec![("OPENCLAW_CONFIG_PATH", file), ("OPENCLAW_STATE_DIR", state)]),
    ];
    for (args, environment) in ways {
        place.setup(&args, &environment);
        let written = place.env_file();
        assert!(written.contains("DREAMER_TIMEZONE=Asia/Shanghai\n"), "{args:?}: {written}");
        assert!(written.contains("OPENCLAW_STATE_DIR=@/state\n"), "{args:?}: {written}");
        assert!(!written.contains("OPENCLAW_CONFIG_PATH"), "it lies where it is looked for: {written}");
        std::fs::remove_dir_all(place.path(".dreamer")).unwrap();
    }
    let output = place.run(&["setup", "--openclaw", "nowhere/openclaw.json"], &[]);
    assert_eq!(output.status.code(), Some(78));
    assert!(said(&output).contains("name the file or its folder"), "{}", said(&output));
    assert!(!place.path(".dreamer").exists());
}

#[test]
fn a_gateway_without_the_plugin_is_told_what_to_paste() {
    let place = Place::new("{gateway: {auth: {token: 't'}}}");
    let told = place.setup(&[], &[]);
    for part in [
        "plugins.slots.memory is memory-core, not memory-lancedb",
        "plugins.entries.memory-lancedb is not there",
        "the session-memory hook is not switched on",
        "apiKey: \"${OPENAI_API_KEY}\",",
        "memory: \"memory-lancedb\",",
        "no table yet",
        "then: dreamer setup --openclaw",
    ] {
        assert!(told.contains(part), "{part:?} is missing in\n{told}");
    }
    let written = std::fs::read_to_string(place.path(".dreamer/.env")).unwrap();
    assert!(written.contains("# To be chosen: agents.defaults.model names no language model"), "{written}");
    assert!(written.contains("\n#DREAMER_LLM_PROVIDER=openai\n"), "{written}");
    assert!(!place.path(".openclaw/memory").exists(), "the table is the gateway's to make");
}

#[test]
fn the_hooks_limit_is_compared_with_real_sessions_and_a_key_is_referred_to() {
    let place = Place::new(
        "{gateway: {auth: {token: 't'}}, hooks: {internal: {enabled: true, entries: {'session-memory': {enabled: true, messages: 2}}}},
          agents: {entries: {main: {default: true}, work: {}}},
          plugins: {slots: {memory: 'memory-lancedb'}, entries: {'memory-lancedb': {config: {embedding: {apiKey: '${MY_KEY}'}}}}}}",
    );
    let sessions = place.path(".openclaw/agents/work/sessions");
    std::fs::create_dir_all(&sessions).unwrap();
    let message = |role: &str| {
        format!(
            r#"{{"type":"message","timestamp":"2026-11-30T07:00:00.000Z","message":{{"role":"{role}","content":"hello"}}}}"#
        )
    };
    let day = ["user", "assistant", "user", "assistant", "user"].map(message).join("\n");
    std::fs::write(sessions.join("s.jsonl"), day).unwrap();
    let told = place.setup(&[], &[("MY_KEY", "sk-from-environment-1234")]);
    assert!(told.contains("on 2026-11-30 one had 5: 3 would be missing"), "{told}");
    assert!(told.contains("OPENAI_API_KEY is taken from MY_KEY in the environment"), "{told}");
    let written = place.env_file();
    assert!(written.contains("OPENAI_API_KEY=${MY_KEY}\n"), "{written}");
    let agents =
        "DREAMER_AGENTS=\"main=@/.openclaw/workspace/memory,work=@/.openclaw/workspace-work/memory\"\n";
    assert!(written.contains(agents), "{written}");
    assert!(!told.contains("1234") && !written.contains("1234"), "{told}");
    let output = place.run(&["config"], &[("MY_KEY", "sk-from-environment-1234")]);
    let shown = said(&output);
    assert!(
        shown.lines().any(|line| line.starts_with("OPENAI_API_KEY ") && line.contains(" set ")),
        "{shown}"
    );
}
