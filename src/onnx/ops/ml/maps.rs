//! Operators on maps, or between texts and integers: tensors of WebNN are neither.

/// The operators that have no translation, and why.
pub const REFUSED: &[(&str, &str)] = &[
    ("CastMap", "its input is a map, which WebNN does not have"),
    ("CategoryMapper", "it maps between texts and integers, and WebNN does not have texts"),
    ("DictVectorizer", "its input is a map, which WebNN does not have"),
    ("ZipMap", "its result is a list of maps; request its input, a tensor of scores, in place of it as an output"),
];

#[cfg(test)]
mod tests {
    use crate::onnx::import::Request;
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::TestGraph;

    #[test]
    fn outputs_that_leave_a_zip_map_out_load() {
        let graph = || {
            let graph = TestGraph::default().input("x", Float, &["2", "3"]).node("Softmax", "x", "scores", vec![]);
            graph.node("ai.onnx.ml.ZipMap", "scores", "maps", vec![]).output("maps")
        };
        let message = graph().refusal(17);
        assert!(message.contains("request its input, a tensor of scores, in place of it"), "{message}");
        let outputs = Some(vec!["scores".to_string()]);
        assert!(graph().import(17, &Request { outputs, ..Request::default() }).is_ok());
    }
}
