use crate::dtype::DataType;
use crate::onnx::file::Files;
use crate::onnx::import::Request;
use crate::onnx::model::Model;
use crate::ops::tensor::Tensor;
use crate::shape::Descriptor;
use std::collections::BTreeMap;
use std::collections::HashMap;

fn npy(path: &std::path::Path) -> (String, Vec<u32>, Vec<u8>) {
    let bytes = std::fs::read(path).unwrap();
    let len = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let head = String::from_utf8_lossy(&bytes[10..10 + len]).into_owned();
    let descr = head.split("'descr': '").nth(1).unwrap().split('\'').next().unwrap().to_string();
    let shape = head.split("'shape': (").nth(1).unwrap().split(')').next().unwrap();
    let shape = shape.split(',').filter_map(|t| t.trim().parse().ok()).collect();
    (descr, shape, bytes[10 + len..].to_vec())
}

fn read(path: &std::path::Path) -> Tensor {
    let (descr, shape, mut bytes) = npy(path);
    let dtype = match &descr[1..] {
        "f4" => DataType::Float32,
        "f8" => {
            bytes = bytes
                .chunks_exact(8)
                .flat_map(|b| (f64::from_le_bytes(b.try_into().unwrap()) as f32).to_le_bytes())
                .collect();
            DataType::Float32
        }
        "i8" => DataType::Int64,
        "i4" => DataType::Int32,
        "u1" | "b1" => DataType::Uint8,
        other => panic!("{other}"),
    };
    Tensor::from_bytes(&Descriptor::new(dtype, shape), &bytes)
}

#[test]
fn tmp_cases() {
    let Ok(dirs) = std::env::var("ML_CASES") else { return };
    let only = std::env::var("ML_ONLY").unwrap_or_default();
    let mut failures = 0;
    for dir in dirs.split(':') {
        let manifest: serde_json::Value =
            serde_json::from_slice(&std::fs::read(format!("{dir}/manifest.json")).unwrap()).unwrap();
        for (name, entry) in manifest.as_object().unwrap() {
            if !name.contains(&only) {
                continue;
            }
            let folder = std::path::Path::new(&dir).join(name);
            let result = std::panic::catch_unwind(|| {
                let model = Model::decode(std::fs::read(folder.join("model.onnx")).unwrap().into(), Files::default())
                    .unwrap_or_else(|e| panic!("{e}"));
                for run in entry["runs"].as_array().unwrap() {
                    let mut inputs = HashMap::new();
                    let mut shapes = BTreeMap::new();
                    for i in run["inputs"].as_array().unwrap() {
                        let t = read(&folder.join(i["file"].as_str().unwrap()));
                        shapes.insert(
                            i["name"].as_str().unwrap().to_string(),
                            t.shape().iter().map(|&d| d as u32).collect(),
                        );
                        inputs.insert(i["name"].as_str().unwrap().to_string(), t);
                    }
                    let outputs: Vec<String> = run["outputs"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|o| o["name"].as_str().unwrap().to_string())
                        .collect();
                    let graph = crate::onnx::testing::graph_of(
                        &model,
                        &Request { shapes, outputs: Some(outputs.clone()), ..Request::default() },
                    )
                    .unwrap_or_else(|e| panic!("{e}"));
                    let got = crate::reference::run(&graph, &inputs);
                    for o in run["outputs"].as_array().unwrap() {
                        let want = read(&folder.join(o["file"].as_str().unwrap()));
                        let have = &got[o["name"].as_str().unwrap()];
                        assert_eq!(have.descriptor(), want.descriptor(), "{}", o["name"]);
                        for (at, (a, b)) in have.numbers().zip(want.numbers()).enumerate() {
                            let (a, b) = (a.to_f64() as f32 as f64, b.to_f64());
                            assert!(
                                a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-5 + 1e-4 * b.abs(),
                                "{} [{at}]: {a}, expected {b}",
                                o["name"]
                            );
                        }
                    }
                    crate::testing::check_with(&graph, &inputs, crate::testing::Tolerance::ulps(16).or_absolute(1e-4));
                }
            });
            match result {
                Ok(()) => println!("ok {name}"),
                Err(e) => {
                    failures += 1;
                    println!(
                        "FAILED {name}: {}",
                        e.downcast_ref::<String>()
                            .cloned()
                            .or(e.downcast_ref::<&str>().map(|s| s.to_string()))
                            .unwrap_or_default()
                    )
                }
            }
        }
    }
    assert_eq!(failures, 0);
}
