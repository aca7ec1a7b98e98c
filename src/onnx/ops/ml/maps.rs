//! `ZipMap` at the end of a classifier.

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
