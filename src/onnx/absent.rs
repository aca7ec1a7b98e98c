//! Operators of ONNX and of onnxruntime that have no translation, and why.

use super::registry::{MICROSOFT, ML};

/// Operators without a translation, of one domain and for one reason.
pub struct Absent {
    /// Empty for `ai.onnx`.
    pub domain: &'static str,
    /// Their names.
    pub operators: &'static [&'static str],
    /// For people.
    pub reason: &'static str,
}

const fn absent(domain: &'static str, reason: &'static str, operators: &'static [&'static str]) -> Absent {
    Absent { domain, operators, reason }
}

/// All operators that are known and have no translation.
pub const ABSENT: &[Absent] = &[
    absent("", "it decodes the bytes of a picture: decode it before, and feed its pixels", &["ImageDecoder"]),
    absent(ML, "its input is a map, which WebNN does not have", &["CastMap", "DictVectorizer"]),
    absent(
        MICROSOFT,
        "it holds a whole model and the search for its next tokens: export the model itself, and generate with webnn-node-text",
        &["BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"],
    ),
    absent(
        MICROSOFT,
        "it holds what a compiler made for one device: take the model that was compiled",
        &["EPContext", "Snpe"],
    ),
    absent(MICROSOFT, "it is for training", &["BiasDropout", "BitmaskBiasDropout", "BitmaskDropout", "IsAllFinite"]),
    absent(
        MICROSOFT,
        "onnxruntime makes it of others when it optimizes a model for a GPU, and computes it there only: take the model before that",
        &[
            "DecoderAttention",
            "DecoderMaskedSelfAttention",
            "DequantizeBFP",
            "DequantizeWithOrder",
            "FusedMatMulActivation",
            "GatedRelativePositionBias",
            "GemmFastGelu",
            "GemmFloat8",
            "GemmaRotaryEmbedding",
            "GroupNorm",
            "LongformerAttention",
            "MatMulNBitsMlp",
            "MatMulNBitsQkv",
            "PackedAttention",
            "PackedMultiHeadAttention",
            "QOrderedAttention",
            "QOrderedGelu",
            "QOrderedLayerNormalization",
            "QOrderedLongformerAttention",
            "QOrderedMatMul",
            "QuantizeBFP",
            "QuantizeWithOrder",
            "RelativePositionBias",
            "RemovePadding",
            "RestorePadding",
            "SkipGroupNorm",
        ],
    ),
    absent(
        MICROSOFT,
        "onnxruntime has no kernel of it for CPUs, to compare with",
        &[
            "ComplexMul",
            "ComplexMulConj",
            "DynamicSparseAttention",
            "GatedDeltaNet",
            "Irfft",
            "MatMulBlockQuantizedFp4Weight",
            "MatMulBlockQuantizedFp8Weight",
            "MulInteger",
            "PackedSparseAttentionIndexer",
            "PagedAttention",
            "QLinearReduceMean",
            "ReduceSumInteger",
            "Rfft",
            "SparseAttentionIndexer",
            "SparsePagedAttention",
            "TorchEmbedding",
            "VarlenCausalConvWithState",
        ],
    ),
    absent(
        MICROSOFT,
        "no published model with it is known; open an issue with one",
        &[
            "AttnLSTM",
            "BifurcationDetector",
            "BranchwiseRMSNorm",
            "DynamicTimeWarping",
            "EngramGate",
            "HyperConnectionPostMix",
            "HyperConnectionPreMix",
            "Inverse",
            "MatMulFpQ4",
            "MatMulInteger16",
            "MaxpoolWithMask",
            "MurmurHash3",
            "NGramHashMapping",
            "NGramRepeatBlock",
            "SampleOp",
            "SparseAttention",
            "SparseToDenseMatMul",
            "VarlenNGramHashMapping",
            "WordConvEmbedding",
        ],
    ),
];

/// The reason for refusing a node without a translation.
pub fn why_not(domain: &str, name: &str) -> &'static str {
    let known = ABSENT.iter().find(|absent| absent.domain == domain && absent.operators.contains(&name));
    known.map_or("there is no translation of this operator to WebNN", |absent| absent.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::registry::find;
    use std::collections::HashSet;

    #[test]
    fn what_is_absent_is_named_once_and_not_translated() {
        let mut seen = HashSet::new();
        for Absent { domain, operators, .. } in ABSENT {
            for name in *operators {
                assert!(seen.insert((domain, name)) && find(domain, name).is_none(), "{domain} {name}");
            }
        }
        assert!(why_not(MICROSOFT, "Sampling").contains("export the model itself"));
        assert_eq!(why_not("", "Teleport"), "there is no translation of this operator to WebNN");
    }
}
