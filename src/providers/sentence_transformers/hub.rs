//! Models of the Hugging Face hub, over HTTPS: which files a model has at the commit that `main` stands for, and those files.
//! Weights are checked by the SHA-256 that the hub knows them by, every other file by its length.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use secrecy::ExposeSecret;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::Hub;
use super::description::{CONFIG, LENGTHS, MODULES, PROMPTS, TOKENIZER, WEIGHTS};
use super::find::{is_name, on_hub};
use crate::privacy::is_loopback;
use crate::providers::local::pull::PullError;
use crate::providers::local::stored::StoredFile;

/// How long the hub may take to be reached, and to say its next word.
const CONNECT: Duration = Duration::from_secs(15);
const SILENCE: Duration = Duration::from_secs(60);

/// The files without which there is no model.
const NEEDED: [&str; 3] = [CONFIG, TOKENIZER, WEIGHTS];

/// A model as the hub lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Its name there, organisation first.
    pub repo: String,
    /// The commit.
    pub revision: String,
    /// The files to fetch.
    files: Vec<Remote>,
}

/// A file to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Remote {
    name: String,
    bytes: Option<u64>,
    sha256: Option<String>,
}

/// What the hub says of a model.
#[derive(Debug, Deserialize)]
struct Told {
    #[serde(default)]
    id: String,
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Debug, Deserialize)]
struct Sibling {
    rfilename: String,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    lfs: Option<Lfs>,
}

#[derive(Debug, Deserialize)]
struct Lfs {
    sha256: String,
    size: u64,
}

impl Listing {
    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.files.iter().filter_map(|file| file.bytes).sum()
    }

    /// As if every file were a byte longer.
    #[cfg(test)]
    pub(super) fn lengthen_for_test(&mut self) {
        self.files.iter_mut().for_each(|file| file.bytes = file.bytes.map(|bytes| bytes + 1));
    }
}

/// Whether a file of a model is one that is read here: its own, or a step's.
fn is_wanted(name: &str) -> bool {
    let (folder, file) = name.split_once('/').unwrap_or(("", name));
    let is_step = folder.starts_with(|c: char| c.is_ascii_digit()) && folder[1..].starts_with('_');
    match file {
        CONFIG | WEIGHTS | TOKENIZER | LENGTHS => folder.is_empty() || is_step,
        MODULES | PROMPTS | "LICENSE" | "LICENSE.txt" => folder.is_empty(),
        _ => false,
    }
}

impl Hub {
    /// Which files of a model are to be fetched, and of which commit.
    ///
    /// # Errors
    /// When the hub does not answer, has no such model, or not in a form that can be used.
    pub async fn list(&self, name: &str) -> Result<Listing, PullError> {
        let repo = on_hub(name);
        let url = format!("{}/api/models/{repo}/revision/main?blobs=true", self.endpoint);
        let failed =
            |source: reqwest::Error| PullError::Hub { url: url.clone(), source: source.without_url().into() };
        let told: Told = self.get(&url).await?.json().await.map_err(failed)?;
        // A name becomes a folder here.
        let repo = if is_name(&told.id) { told.id } else { repo };
        if !told.sha.chars().all(|c| c.is_ascii_alphanumeric()) || told.sha.is_empty() {
            return Err(PullError::NoModel { repo, what: "the hub names no commit of it".into() });
        }
        let wanted = told.siblings.into_iter().filter(|file| is_wanted(&file.rfilename));
        let files: Vec<Remote> = wanted
            .map(|file| Remote {
                name: file.rfilename,
                bytes: file.lfs.as_ref().map(|lfs| lfs.size).or(file.size),
                sha256: file.lfs.map(|lfs| lfs.sha256),
            })
            .collect();
        // The encoder may lie in a folder of its own.
        let has = |needed: &str| files.iter().any(|file| file.name.rsplit('/').next() == Some(needed));
        if let Some(missing) = NEEDED.into_iter().find(|needed| !has(needed)) {
            let what = format!(
                "it has no {missing} on the hub, and this version reads models that have config.json, tokenizer.json and \
                 model.safetensors"
            );
            return Err(PullError::NoModel { repo, what });
        }
        Ok(Listing { repo, revision: told.sha, files })
    }

    /// Fetches the files of a model into a folder.
    ///
    /// # Errors
    /// When one cannot be had or is not what the hub says it is.
    pub(super) async fn fetch(&self, listing: &Listing, folder: &Path) -> Result<Vec<StoredFile>, PullError> {
        let mut stored = Vec::new();
        for file in &listing.files {
            stored.push(self.fetch_file(listing, file, folder).await?);
        }
        Ok(stored)
    }

    async fn fetch_file(
        &self,
        listing: &Listing,
        file: &Remote,
        folder: &Path,
    ) -> Result<StoredFile, PullError> {
        let path = folder.join(&file.name);
        let write = |source| PullError::Write { path: path.clone(), source };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(write)?;
        }
        let mut to = File::create(&path).map_err(write)?;
        let url = format!("{}/{}/resolve/{}/{}", self.endpoint, listing.repo, listing.revision, file.name);
        let failed =
            |source: reqwest::Error| PullError::Hub { url: url.clone(), source: source.without_url().into() };
        let mut response = self.get(&url).await?;
        let (mut hash, mut bytes) = (Sha256::new(), 0);
        while let Some(piece) = response.chunk().await.map_err(failed)? {
            bytes += piece.len() as u64;
            if file.bytes.is_some_and(|whole| bytes > whole) {
                break;
            }
            hash.update(&piece);
            to.write_all(&piece).map_err(write)?;
        }
        if let Some(whole) = file.bytes.filter(|whole| *whole != bytes) {
            let source = format!("{bytes} bytes came, and the hub says that it has {whole}").into();
            return Err(PullError::Hub { url, source });
        }
        let found = format!("{:x}", hash.finalize());
        if let Some(wanted) = file.sha256.clone().filter(|wanted| *wanted != found) {
            return Err(PullError::Digest { what: url, found, wanted });
        }
        Ok(StoredFile { name: file.name.clone().into(), bytes, sha256: found.into() })
    }

    async fn get(&self, url: &str) -> Result<Response, PullError> {
        let failed = |source: reqwest::Error| PullError::Hub {
            url: url.to_owned(),
            source: source.without_url().into(),
        };
        let mut request = self.client()?.get(url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose_secret());
        }
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let remedy = match status.as_u16() {
            401 | 403 => {
                "there is no such model, or not everybody may fetch it: look at its name, or set HF_TOKEN"
            }
            404 => "there is no such model: look at its name",
            429 => "it was asked too often: try again later, or set HF_TOKEN",
            _ => "try again later, or set HF_ENDPOINT to a mirror",
        };
        Err(PullError::HubRefused { url: url.to_owned(), status: status.as_u16(), remedy })
    }

    /// The hub sends weights from other servers: the token stays behind when a redirect leads to one, and none leads out of
    /// HTTPS.
    fn client(&self) -> Result<Client, PullError> {
        let unusable = |why: String| PullError::HubUnusable(why);
        let endpoint =
            Url::parse(&self.endpoint).map_err(|error| unusable(format!("HF_ENDPOINT: {error}")))?;
        let is_plain = endpoint.scheme() != "https" && !is_loopback(&self.endpoint);
        if is_plain && self.token.is_some() {
            return Err(unusable(format!(
                "HF_TOKEN would travel unencrypted to {}; set HF_ENDPOINT to an https address, or unset HF_TOKEN",
                self.endpoint
            )));
        }
        let policy = Policy::custom(|attempt| {
            let was_secure = attempt.previous().iter().any(|url| url.scheme() == "https");
            if was_secure && attempt.url().scheme() != "https" {
                return attempt.error("a redirect leads out of HTTPS");
            }
            if attempt.previous().len() > 5 { attempt.error("too many redirects") } else { attempt.follow() }
        });
        let client = Client::builder().connect_timeout(CONNECT).read_timeout(SILENCE).redirect(policy);
        let client = client.user_agent(concat!("dreamer/", env!("CARGO_PKG_VERSION")));
        let client = if is_loopback(&self.endpoint) { client.no_proxy() } else { client };
        client.build().map_err(|error| unusable(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_read_is_fetched() {
        for (name, wanted) in [
            ("config.json", true),
            ("model.safetensors", true),
            ("tokenizer.json", true),
            ("1_Pooling/config.json", true),
            ("2_Dense/model.safetensors", true),
            ("0_Transformer/tokenizer.json", true),
            ("pytorch_model.bin", false),
            ("onnx/config.json", false),
            ("onnx/model.onnx", false),
            ("openvino/model.safetensors", false),
            ("../config.json", false),
            ("1_Pooling/../config.json", false),
            ("2_Dense/pytorch_model.bin", false),
            ("README.md", false),
        ] {
            assert_eq!(is_wanted(name), wanted, "{name}");
        }
    }
}
