//! The files in which packed weights are kept.

use super::completion::{Collect, Environment, value};
use super::session::{SessionHandle, in_background};
use crate::description::text_of;
use crate::error::{Code, Error, ErrorKind};
use crate::memory::store::{Folder, Listed};
use crate::runtime::Slot;
use napi::Env;
use napi::bindgen_prelude::External;
use napi_derive::napi;
use serde_json::{Value as Json, json};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Calls `work` with a folder in the background, the user's if none is given, and completes with the JSON that it returns.
fn on_folder(
    env: &Env,
    environment: &Arc<Environment>,
    id: u32,
    folder: Option<String>,
    work: impl FnOnce(&Folder) -> io::Result<Json> + Send + 'static,
) {
    let slot = Arc::new(Slot::<String>::default());
    let made = slot.clone();
    let collect: Collect = Box::new(move |env| made.take().map(|json| value(env, json)).into_iter().collect());
    let work = move || {
        let folder = Folder::open(folder.map(PathBuf::from).as_deref())?;
        let unreadable = |error| {
            let message = format!("{} cannot be read: {error}", folder.path().display());
            Error::coded(Code::NotSupported, message)
        };
        slot.put(text_of("cache", &work(&folder).map_err(unreadable)?)?);
        Ok(())
    };
    in_background(environment.deliver(env, id, collect), work, |(), done| done.finish(Ok(())));
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn described(listed: &Listed) -> Json {
    let Listed { path, label, entries, bytes, used, is_invalid: _ } = listed;
    let used = used.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_millis() as f64);
    let label = label.as_ref();
    json!({
        "path": shown(path),
        "model": label.map(|label| &label.model),
        "isa": label.map(|label| &label.isa),
        "entries": entries,
        "bytes": bytes,
        "used": used,
    })
}

/// Completes with JSON of the path of a folder and of the `CacheFile` of `inspect.d.ts` of each file in it.
#[napi(catch_unwind)]
pub fn list_cache(env: Env, environment: &External<Arc<Environment>>, id: u32, folder: Option<String>) {
    on_folder(&env, environment, id, folder, |folder| {
        let files: Vec<Json> = folder.list()?.iter().map(described).collect();
        Ok(json!({ "folder": shown(folder.path()), "files": files }))
    });
}

/// Removes files of a folder until they have at most `bytes`, or the folder's own limit. Completes like [`list_cache`] with
/// what was removed.
#[napi(catch_unwind)]
pub fn prune_cache(
    env: Env,
    environment: &External<Arc<Environment>>,
    id: u32,
    folder: Option<String>,
    bytes: Option<f64>,
) {
    on_folder(&env, environment, id, folder, move |folder| {
        let limit = bytes.map_or(folder.limit(), |bytes| bytes as u64);
        let files: Vec<Json> = folder.prune(limit, None)?.iter().map(described).collect();
        Ok(json!({ "folder": shown(folder.path()), "files": files }))
    });
}

/// Compares all bytes with their checksums. Completes like [`list_cache`] with the damaged files, each with the number of
/// its damaged entries.
#[napi(catch_unwind)]
pub fn verify_cache(env: Env, environment: &External<Arc<Environment>>, id: u32, folder: Option<String>) {
    on_folder(&env, environment, id, folder, |folder| {
        let files = folder.verify()?.into_iter().map(|(listed, damage)| {
            let mut json = described(&listed);
            json["damaged"] = damage.len().into();
            json
        });
        Ok(json!({ "folder": shown(folder.path()), "files": files.collect::<Vec<_>>() }))
    });
}

/// Completes when what was packed for a session is on disk, if it should be.
#[napi(catch_unwind)]
pub fn when_saved(env: Env, environment: &External<Arc<Environment>>, id: u32, session: &External<SessionHandle>) {
    let done = environment.deliver(&env, id, Box::new(|_| Ok(Vec::new()))).coded();
    session.when_saved(move |problem| {
        let failed = |problem| Error::new(ErrorKind::Operation, format!("packed weights are not on disk: {problem}"));
        done.finish(problem.map_or(Ok(()), |problem| Err(failed(problem).with_code())));
    });
}
