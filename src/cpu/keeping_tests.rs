//! Weights that come from a store: the same bits as packed ones, and nothing else.

use super::arena::Arena;
use super::plan::{Plan, PlanOptions};
use super::probe::stored_as_bfloat16;
use super::product::formats::ByteFormat;
use super::schedule::pool::Threads;
use super::simd::Isa;
use super::steps::Env;
use crate::compile::Passes;
use crate::ir::{Constant, Graph, Source, Widened, parse};
use crate::memory::store::{self, Folder, Key, Label, PACKING_VERSION, Store};
use crate::memory::{Backing, Buffer, Mapped, MappedFile};
use crate::testing::{Random, TemporaryFile, run_compiled};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

/// Operators with constant weights that are packed in every form.
const FLOATS: &[&str] = &[
    "%0 = input x T [5, 70]\n%1 = constant T [70, 45]\n%2 = matmul %0 %1",
    "%0 = input x T [70, 45]\n%1 = constant T [35, 70]\n%2 = matmul %1 %0",
    "%0 = input x T [1, 70]\n%1 = constant T [45, 70]\n%2 = gemm %0 %1 bTranspose=true",
    "%0 = input x T [1, 32, 20, 20]\n%1 = constant T [48, 32, 3, 3]\n%2 = conv2d %0 %1 padding=[1, 1, 1, 1]",
    "%0 = input x T [2, 6, 9, 9]\n%1 = constant T [28, 3, 9, 9]\n%2 = conv2d %0 %1 groups=2",
    "%0 = input x T [2, 9, 9, 60]\n%1 = constant T [5, 5, 1, 60]\n\
     %2 = conv2d %0 %1 groups=60 inputLayout=nhwc filterLayout=hwio",
    "%0 = input x T [1, 1, 9, 900]\n%1 = constant T [5, 1, 9, 30]\n%2 = conv2d %0 %1",
    "%0 = input x T [1, 40, 9, 9]\n%1 = constant T [40, 50, 6, 6]\n%2 = convTranspose2d %0 %1 strides=[2, 2]",
    "%0 = input x T [6, 2, 60]\n%1 = constant T [1, 256, 60]\n%3 = constant T [1, 256, 64]\n\
     %2, %4 = lstm %0 %1 %3 steps=6 hiddenSize=64",
    "%0 = input x int32 [4]\n%1 = constant T [30, 70]\n%2 = gather %1 %0",
];

const BYTES: &str = "%0 = input x uint8 [3, 100]
     %1 = constant uint8 [1, 1] 3
     %3 = constant float32 [1, 1] 1
     %4 = dequantizeLinear %0 %3 %1
     %5 = constant int8 [100, 90]
     %6 = constant int8 [1, 1] 3
     %7 = dequantizeLinear %5 %3 %6
     %2 = matmul %4 %7";

/// Integers with a scale, and perhaps a zero point, per block.
const BLOCKS: &[&str] = &[
    "%0 = input x float32 [2, 128]\n%1 = constant uint4 [80, 4, 32]\n%3 = constant float32 [80, 4, 1]\n\
     %4 = constant uint4 [80, 4, 1]\n%5 = dequantizeLinear %1 %3 %4\n%6 = reshape %5 newShape=[80, 128]\n\
     %7 = transpose %6\n%2 = matmul %0 %7",
    "%0 = input x float32 [2, 128]\n%1 = constant int8 [80, 4, 32]\n%3 = constant float32 [80, 4, 1]\n\
     %4 = constant int8 [80, 4, 1] 0\n%5 = dequantizeLinear %1 %3 %4\n%6 = reshape %5 newShape=[80, 128]\n\
     %7 = transpose %6\n%2 = matmul %0 %7",
];

fn graphs() -> Vec<Graph> {
    let float = |dtype: &str| {
        let text = move |text: &&str| text.replace(" T ", &format!(" {dtype} "));
        FLOATS.iter().map(text).collect::<Vec<String>>()
    };
    let others = BLOCKS.iter().chain([&BYTES]).map(|text| text.to_string());
    let texts = float("float32").into_iter().chain(float("float16")).chain(others);
    let mut all: Vec<Graph> = texts.map(|text| parse(&(text + "\noutput y = %2"))).collect();
    all.push(stored_as_bfloat16(all[0].clone()));
    all
}

/// A folder that is removed with everything in it.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> TemporaryFolder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        TemporaryFolder(std::env::temp_dir().join(format!("webnn-{}-store-{number}", std::process::id())))
    }

    fn open(&self) -> Folder {
        Folder::open(Some(&self.0)).unwrap()
    }

    fn store(&self) -> Arc<Store> {
        self.store_that(true)
    }

    fn store_that(&self, verifies: bool) -> Arc<Store> {
        let label = Label { model: "test".into(), isa: "test".into() };
        Store::open(self.open(), &store::ModelId::Contents(Key::of_contents(b"test")), label, verifies)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("the folder is still there");
    }
}

fn wait(store: &Arc<Store>) {
    store.save();
    let (tell, saved) = channel();
    store.when_saved(move || tell.send(()).unwrap());
    saved.recv().unwrap();
}

/// The same graph with its constants in a source of their own, of which `store` keeps what is packed: as another process
/// sees it.
fn kept_in(graph: &Graph, store: &Arc<Store>) -> Graph {
    let mut graph = graph.clone();
    for value in &mut graph.values {
        let Some(constant) = value.constant() else { continue };
        let window =
            |bytes: &[u8]| Mapped::new(Backing::of_bytes(bytes.to_vec()).kept_in(store), 0..bytes.len()).unwrap();
        value.source = Source::Constant(match constant {
            Constant::Widened(widened) => {
                let stored = &widened.stored().backing().as_ref()[widened.stored().range()];
                Constant::Widened(Widened::new(window(stored), widened.from(), widened.range().len()))
            }
            constant => Constant::Mapped(window(constant.buffer().unwrap().bytes())),
        });
    }
    graph
}

fn plan(graph: &Graph, isa: Isa) -> Plan {
    let threads = Threads::new(1).unwrap();
    let env = Env { threads: &threads, isa, arena: &Arena::default() };
    Plan::compile(graph.clone(), &env, Passes::ALL, PlanOptions::default()).unwrap()
}

/// The weights of at least a page.
fn large(plan: &Plan) -> Vec<&Arc<Buffer>> {
    plan.weights().filter(|weight| weight.len() >= 4096).collect()
}

#[test]
fn weights_of_a_store_give_the_same_bits() {
    for isa in Isa::available() {
        for graph in graphs() {
            let folder = TemporaryFolder::new();
            let store = folder.store();
            let first = plan(&kept_in(&graph, &store), isa);
            assert!(large(&first).iter().all(|weight| !weight.is_mapped()));
            wait(&store);
            assert_eq!(store.problem(), None);
            drop(first);
            let kept = kept_in(&graph, &store);
            let second = plan(&kept, isa);
            let weights = large(&second);
            assert!(!weights.is_empty() && weights.iter().all(|weight| weight.is_mapped()), "{isa:?}:\n{graph}");
            assert!(run_compiled(&kept, isa) == run_compiled(&graph, isa), "{isa:?}:\n{graph}");
            assert!(folder.open().verify().unwrap().is_empty());
        }
    }
}

/// Each node reads the one before it twice: there are 2^40 paths to the first.
#[test]
fn keys_of_constants_with_many_paths_take_little_time() {
    let mut text = "%0 = input x int32 [4]\n%1 = constant float32 [128, 130] 1 0 -1\n".to_string();
    (1..=40).for_each(|link| text += &format!("%{} = mul %{link} %{link}\n", link + 1));
    let graph = parse(&(text + "%42 = gather %41 %0\noutput y = %42"));
    let folder = TemporaryFolder::new();
    let store = folder.store();
    drop(plan(&kept_in(&graph, &store), Isa::best()));
    wait(&store);
    let kept = kept_in(&graph, &store);
    assert!(large(&plan(&kept, Isa::best())).iter().all(|weight| weight.is_mapped()));
    assert!(run_compiled(&kept, Isa::best()) == run_compiled(&graph, Isa::best()));
}

#[test]
fn damaged_weights_change_numbers_only() {
    let mut random = Random::new(7);
    for isa in Isa::available() {
        for graph in graphs() {
            let folder = TemporaryFolder::new();
            let store = folder.store();
            drop(plan(&kept_in(&graph, &store), isa));
            wait(&store);
            let path = store.path().to_path_buf();
            drop(store);
            let mut bytes = std::fs::read(&path).unwrap();
            let weights = bytes.len() - 4096;
            for _ in 0..200 {
                bytes[weights + random.below(4096)] ^= 1 << random.below(8);
            }
            // As another writer would replace it.
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, &bytes).unwrap();
            let damaged = folder.store_that(false);
            let kept = kept_in(&graph, &damaged);
            assert!(large(&plan(&kept, isa)).iter().all(|weight| weight.is_mapped()));
            let lens = |outputs: Vec<Vec<u8>>| outputs.iter().map(Vec::len).collect::<Vec<_>>();
            let right = run_compiled(&graph, isa);
            assert_eq!(lens(run_compiled(&kept, isa)), lens(right.clone()));
            drop((kept, damaged));
            let verified = folder.store();
            assert!(run_compiled(&kept_in(&graph, &verified), isa) == right, "{isa:?}:\n{graph}");
        }
    }
}

#[test]
fn each_instruction_set_finds_its_own_forms() {
    let graph = parse(&(BYTES.to_string() + "\noutput y = %2"));
    let folder = TemporaryFolder::new();
    let store = folder.store();
    for isa in Isa::available() {
        drop(plan(&kept_in(&graph, &store), isa));
        wait(&store);
    }
    for isa in Isa::available() {
        let kept = kept_in(&graph, &store);
        assert!(large(&plan(&kept, isa)).iter().all(|weight| weight.is_mapped()), "{isa:?}");
        assert!(run_compiled(&kept, isa) == run_compiled(&graph, isa), "{isa:?}");
    }
}

/// A product whose weights are in `path`.
fn product(path: &Path, store: &Arc<Store>) -> Graph {
    let mut graph =
        parse("%0 = input x float32 [5, 70]\n%1 = constant float32 [70, 45]\n%2 = matmul %0 %1\noutput y = %2");
    let window = Mapped::new(Backing::from(MappedFile::open(path).unwrap()).kept_in(store), 0..70 * 45 * 4).unwrap();
    let constant = graph.values.iter_mut().find(|value| value.constant().is_some()).unwrap();
    constant.source = Source::Constant(Constant::Mapped(window));
    graph
}

fn set_modified(path: &Path, age: Duration) {
    File::options().write(true).open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
}

fn is_mapped(path: &Path, store: &Arc<Store>) -> bool {
    let mapped = large(&plan(&product(path, store), Isa::best())).iter().all(|weight| weight.is_mapped());
    wait(store);
    mapped
}

#[test]
fn a_file_that_changes_is_packed_anew() {
    let (folder, file) = (TemporaryFolder::new(), TemporaryFile::new("source", &[1; 70 * 45 * 4]));
    let store = folder.store();
    // What was just written may change once more at the same time.
    set_modified(&file.0, Duration::ZERO);
    assert!(!is_mapped(&file.0, &store) && !is_mapped(&file.0, &store));
    set_modified(&file.0, Duration::from_secs(10));
    assert!(!is_mapped(&file.0, &store) && is_mapped(&file.0, &store));
    let before = run_compiled(&product(&file.0, &store), Isa::best());
    std::fs::write(&file.0, [2; 70 * 45 * 4]).unwrap();
    set_modified(&file.0, Duration::from_secs(9));
    assert!(!is_mapped(&file.0, &store) && is_mapped(&file.0, &store));
    assert!(run_compiled(&product(&file.0, &store), Isa::best()) != before);
}

#[test]
fn a_file_that_changes_while_it_is_packed_is_not_kept() {
    let (folder, file) = (TemporaryFolder::new(), TemporaryFile::new("source", &[1; 70 * 45 * 4]));
    let store = folder.store();
    set_modified(&file.0, Duration::from_secs(10));
    let graph = product(&file.0, &store);
    set_modified(&file.0, Duration::from_secs(9));
    drop(plan(&graph, Isa::best()));
    wait(&store);
    assert!(folder.open().list().unwrap().is_empty());
}

#[test]
fn two_writers_are_both_right() {
    let folder = TemporaryFolder::new();

    let path = folder.store().path().to_path_buf();
    // Two processes: neither sees what the other holds.
    for round in 0..20 {
        let entries: Vec<(Key, Vec<u8>)> =
            (0..4).map(|at| (Key::of_contents(&[round, at]), vec![at; 5000 + usize::from(at)])).collect();
        std::thread::scope(|scope| {
            for half in entries.chunks(2) {
                let folder = folder.open();
                scope.spawn({
                    let path = &path;
                    move || {
                        let label = Label { model: "test".into(), isa: "test".into() };
                        let old = folder.open_file(path);
                        let new: Vec<(Key, &[u8], bool)> =
                            half.iter().map(|(key, bytes)| (*key, &bytes[..], true)).collect();
                        folder.replace(path, &label, old.as_ref(), &new).unwrap();
                    }
                });
            }
        });
        let file = folder.open().open_file(&path).expect("one of them is there, whole");
        let found = entries
            .iter()
            .filter(|(key, bytes)| file.find(key, bytes.len(), true).is_some_and(|buffer| buffer.bytes() == bytes));
        assert!(found.count() >= 2 && file.damaged().is_empty());
    }
}

fn text(seed: usize) -> String {
    format!("%0 = input x float32 [5, 70]\n%1 = constant float32 [70, 45] {seed} 2 3\n%2 = matmul %0 %1\noutput y = %2")
}

#[test]
fn what_cannot_be_trusted_is_not_read() {
    let folder = TemporaryFolder::new();
    let store = folder.store();
    let graph = parse(&text(5));
    drop(plan(&kept_in(&graph, &store), Isa::best()));
    wait(&store);
    let path = store.path().to_path_buf();
    drop(store);
    let opens = || folder.open().open_file(&path).is_some();
    assert!(opens());
    #[cfg(unix)]
    {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(std::fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);
        set(&path, 0o666);
        assert!(!opens(), "others can write it");
        set(&path, 0o600);
        let elsewhere = folder.0.join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert!(!opens(), "a link");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(!opens(), "a folder");
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(&elsewhere, &path).unwrap();
        assert!(opens());
        set(&folder.0, 0o770);
        let error = Folder::open(Some(&folder.0)).unwrap_err();
        assert!(error.message.ends_with("can be written by other users"), "{error}");
        set(&folder.0, 0o700);
    }
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(!opens(), "cut");
    // A damaged file is replaced.
    let store = folder.store();
    drop(plan(&kept_in(&graph, &store), Isa::best()));
    wait(&store);
    assert!(opens());
    let file = TemporaryFile::new("no-folder", &[]);
    assert!(Folder::open(Some(&file.0)).is_err());
}

#[test]
fn the_least_recently_used_stores_go_first() {
    let folder = TemporaryFolder::new();
    let label = Label { model: "test".into(), isa: "test".into() };
    let name = |at: usize| format!("file-{at:064x}-test-1-1.pack");
    let paths: Vec<PathBuf> = (0..4).map(|at| folder.0.join(name(at))).collect();
    let opened = folder.open();
    for (at, path) in paths.iter().enumerate() {
        opened.replace(path, &label, None, &[(Key::of_contents(&[at as u8]), &[0; 10_000], false)]).unwrap();
        set_modified(path, Duration::from_secs(10_000 - at as u64 * 100));
    }
    // Reading one makes it the latest.
    drop(opened.open_file(&paths[0]).unwrap());
    let put = |name: &str| {
        std::fs::write(folder.0.join(name), "nonsense").unwrap();
        set_modified(&folder.0.join(name), Duration::from_secs(7200));
    };
    let (invalid, abandoned) = (name(5), name(6).replace(".pack", ".0123.new"));
    let (newer, foreign) =
        (name(7).replace("-1.pack", "-2.pack"), ["pack-1234.pack", "config.new", "file-1-test-1-1.pack"]);
    foreign.iter().for_each(|name| put(name));
    [&invalid, &abandoned, &newer].iter().for_each(|name| put(name));
    let canonical = |name: String| opened.path().join(name);
    let valid = opened.list().unwrap().into_iter().filter(|one| one.label.is_some());
    let listed: Vec<PathBuf> = valid.map(|one| one.path).collect();
    assert_eq!(listed, [1, 2, 3, 0].map(|at| canonical(name(at))));
    let mut removed: Vec<PathBuf> = opened.prune(25_000, None).unwrap().into_iter().map(|one| one.path).collect();
    removed.sort();
    assert_eq!(removed, [1, 2, 5].map(|at| canonical(name(at))));
    assert!(!folder.0.join(&abandoned).exists());
    assert!(folder.0.join(&newer).exists() && foreign.iter().all(|name| folder.0.join(name).exists()));
}

/// What was packed by the version of the code whose number is [`PACKING_VERSION`]: the checksum of everything packed for
/// an instruction set, or in a format of bytes. If one differs, raise the number, and write the new checksums here.
#[cfg(target_arch = "x86_64")]
const PACKED: (u32, &[(&str, u64)]) = (
    1,
    &[
        ("portable", 0xaebc1bba988610b9),
        ("avx2", 0xd98e0cec9e014b04),
        ("avx512", 0xf624b3eed6ad701e),
        ("pairs of bytes of 8", 0xa5ecafff04771f98),
        ("pairs of bytes of 16", 0x4de80ffa9ef94b23),
        ("quads of bytes of 64", 0xd43ef352b26d3fb1),
    ],
);

#[cfg(target_arch = "x86_64")]
#[test]
fn packed_bytes_are_those_of_the_version() {
    let sum = |graph: &Graph, isa| {
        let bytes: Vec<u8> = large(&plan(graph, isa)).iter().flat_map(|weight| weight.bytes().to_vec()).collect();
        rapidhash::v3::rapidhash_v3(&bytes)
    };
    let mut found: Vec<(String, u64)> = Vec::new();
    for isa in Isa::available() {
        let (bytes, floats): (Vec<Graph>, Vec<Graph>) =
            graphs().into_iter().partition(|graph| graph.to_string().contains("uint8"));
        let sums: Vec<u8> = floats.iter().flat_map(|graph| sum(graph, isa).to_le_bytes()).collect();
        found.push((isa.name().to_string(), rapidhash::v3::rapidhash_v3(&sums)));
        let sizes = ByteFormat::of(isa).sizes();
        found.push((format!("{} of {}", sizes.name, sizes.panel()), sum(&bytes[0], isa)));
    }
    assert_eq!(PACKED.0, PACKING_VERSION);
    // Other processors have other formats of bytes.
    let known = |name: &str| PACKED.1.iter().find(|(known, _)| *known == name).map(|(_, sum)| *sum);
    let wrong: Vec<String> = found
        .iter()
        .filter(|(name, sum)| known(name).is_some_and(|known| known != *sum) || known("portable").is_none())
        .map(|(name, sum)| format!("(\"{name}\", {sum:#018x})"))
        .collect();
    assert!(wrong.is_empty(), "packed bytes differ: {}", wrong.join(", "));
}
