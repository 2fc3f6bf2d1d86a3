//! Models of the `sentence-transformers` kind from outside: fetched from a hub, found in the Python programs' cache, used by
//! the commands. The model is one of 12 KB with random weights; the real ones are tried in the library's tests.
#![cfg(feature = "sentence-transformers")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::models::Place;

const SENTENCE: (&str, &str) = ("DREAMER_EMBEDDING_PROVIDER", "sentence-transformers");
const RULES: (&str, &str) = ("DREAMER_LLM_PROVIDER", "extractive");
const FILES: [&str; 4] = ["config.json", "tokenizer.json", "model.safetensors", "1_Pooling/config.json"];

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sentence-transformers")
}

impl Place {
    fn copy_model(&self, to: &str) -> PathBuf {
        let folder = self.0.path().join(to);
        for file in FILES {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::copy(fixture().join(file), path).unwrap();
        }
        folder
    }
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn vectors(output: &Output) -> Vec<Vec<f64>> {
    assert!(output.status.success(), "{}", told(output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let numbers =
        |row: Value| row["vector"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    rows.map(numbers).collect()
}

async fn hub() -> MockServer {
    let server = MockServer::start().await;
    let siblings: Vec<_> = FILES
        .iter()
        .map(|name| json!({ "rfilename": name, "size": fs::metadata(fixture().join(name)).unwrap().len() }))
        .collect();
    let listing = json!({ "id": "org/small", "sha": "abc123", "siblings": siblings });
    let at = |name: &str| format!("/org/small/resolve/abc123/{name}");
    let answer = |url: String, answer| Mock::given(method("GET")).and(path(url)).respond_with(answer);
    let listed = ResponseTemplate::new(200).set_body_json(listing);
    answer("/api/models/org/small/revision/main".into(), listed).mount(&server).await;
    for name in FILES {
        let content = ResponseTemplate::new(200).set_body_bytes(fs::read(fixture().join(name)).unwrap());
        answer(at(name), content).mount(&server).await;
    }
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_fetched_from_the_hub_used_without_it_listed_and_removed() {
    let (place, hub) = (Place::new(), hub().await);
    let uri = hub.uri();
    let small = [SENTENCE, RULES, ("ST_MODEL_NAME", "org/small"), ("HF_ENDPOINT", uri.as_str())];
    let before = place.run(&["embed", "tea"], &small);
    assert_eq!(before.status.code(), Some(78), "{}", told(&before));
    assert!(told(&before).contains("`dreamer model pull org/small`"), "{}", told(&before));
    assert_eq!(hub.received_requests().await.unwrap().len(), 0, "only the command fetches");
    let pulled = place.run(&["model", "pull", "org/small"], &small);
    assert!(
        pulled.status.success() && told(&pulled).contains("ST_MODEL_NAME=org/small"),
        "{}",
        told(&pulled)
    );
    let asked = hub.received_requests().await.unwrap().len();
    assert_eq!(asked, 1 + FILES.len());
    let again = place.run(&["model", "pull", "org/small"], &small);
    assert!(told(&again).contains("already: every file is right"), "{}", told(&again));
    let found = vectors(&place.run(&["embed", "--json", "the user likes tea", "tea"], &small));
    assert!(found.len() == 2 && found[0].len() == 8 && found[0] != found[1]);
    let list = told(&place.run(&["model", "list", "--json"], &[]));
    assert!(list.lines().any(|line| line.contains("\"org--small\"") && line.contains("\"there\"")), "{list}");
    fs::write(place.0.path().join(".local/share/dreamer/models/org--small/config.json"), "{}").unwrap();
    let list = told(&place.run(&["model", "list"], &[]));
    assert!(list.contains("org--small") && list.contains("is damaged; fetch it again"), "{list}");
    let removed = place.run(&["model", "rm", "org/small"], &[]);
    assert!(removed.status.success() && told(&removed).contains("is removed"), "{}", told(&removed));
    assert_eq!(place.run(&["embed", "tea"], &small).status.code(), Some(78));
    assert_eq!(hub.received_requests().await.unwrap().len(), asked, "nothing else asked the hub");
}

#[test]
fn a_folder_and_the_python_cache_give_the_same_vectors() {
    let place = Place::new();
    let folder = place.copy_model("mine");
    place.copy_model("hf/hub/models--org--small/snapshots/abc");
    fs::create_dir_all(place.0.path().join("hf/hub/models--org--small/refs")).unwrap();
    fs::write(place.0.path().join("hf/hub/models--org--small/refs/main"), "abc").unwrap();
    let embed = |model: &str, more: (&str, &str)| {
        let set = [SENTENCE, ("ST_MODEL_NAME", model), more];
        vectors(&place.run(&["embed", "--json", "the user likes tea"], &set))
    };
    let of_folder = embed(folder.to_str().unwrap(), RULES);
    assert_eq!(of_folder, embed("./mine", RULES));
    assert_eq!(of_folder, embed("org/small", ("HF_HOME", "hf")));
    fs::remove_file(folder.join("model.safetensors")).unwrap();
    let set = [SENTENCE, ("ST_MODEL_NAME", "./mine")];
    let output = place.run(&["embed", "tea"], &set);
    assert!(
        output.status.code() == Some(78) && told(&output).contains("mine holds no model.safetensors"),
        "{}",
        told(&output)
    );
}

#[test]
fn a_home_is_made_and_looked_over_with_such_a_model() {
    let place = Place::new();
    let folder = place.copy_model("mine");
    let set = [SENTENCE, RULES, ("ST_MODEL_NAME", "./mine"), ("DREAMER_HOME", "h")];
    let output = place.run(&["setup"], &set);
    assert!(output.status.success(), "{}", told(&output));
    let settings = fs::read_to_string(place.0.path().join("h/.env")).unwrap();
    assert!(settings.contains(&format!("ST_MODEL_NAME={}", folder.display())), "{settings}");
    // From the settings file alone, in another folder.
    let home = place.0.path().join("h");
    let doctor = place.run(&["doctor", "--offline"], &[("DREAMER_HOME", home.to_str().unwrap())]);
    assert!(told(&doctor).contains("answers with 8 numbers"), "{}", told(&doctor));
    let config = place.run(&["config", "--json"], &set);
    let shown: Value = serde_json::from_slice(&config.stdout).unwrap();
    assert_eq!(shown["ST_MODEL_NAME"]["value"], folder.display().to_string());
    // Another model, whose vectors are longer: the night stops before it writes.
    let config = fs::read_to_string(folder.join("1_Pooling/config.json")).unwrap();
    let both = config.replace("\"pooling_mode_cls_token\": false", "\"pooling_mode_cls_token\": true");
    assert_ne!(config, both);
    fs::write(folder.join("1_Pooling/config.json"), both).unwrap();
    fs::write(place.0.path().join("h/episodes/2026-03-01.md"), "The user likes tea.\n").unwrap();
    let night = place.run(&[], &set);
    assert_eq!(night.status.code(), Some(78), "{}", told(&night));
    assert!(told(&night).contains("holds vectors of 8 numbers"), "{}", told(&night));
}
