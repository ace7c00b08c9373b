//! Power limits and memory sizes of GPU models, for devices whose exporter does not report them.
//! Measured limits take precedence, because sites configure their own.

use crate::model::{Mebibytes, Watts};

/// Parts of normalized model names, with the power limit in watts. The longest match wins.
const WATTS: [(&str, f64); 49] = [
    ("a100 80gb pcie", 300.0),
    ("a100 pcie", 250.0),
    ("a100", 400.0),
    ("a800 80gb pcie", 300.0),
    ("a800", 400.0),
    ("a10g", 300.0),
    ("a10", 150.0),
    ("a30", 165.0),
    ("a40", 300.0),
    ("b200", 1000.0),
    ("gb200", 1200.0),
    ("b300", 1100.0),
    ("h100 nvl", 400.0),
    ("h100 pcie", 350.0),
    ("h100", 700.0),
    ("h800 pcie", 350.0),
    ("h800", 700.0),
    ("h200 nvl", 600.0),
    ("h200", 700.0),
    ("h20", 500.0),
    ("l20", 275.0),
    ("l40s", 350.0),
    ("l40", 300.0),
    ("l4", 72.0),
    ("t4", 70.0),
    ("v100 pcie", 250.0),
    ("v100", 300.0),
    ("v100s pcie", 250.0),
    ("rtx 4090", 450.0),
    ("rtx 5090", 575.0),
    ("rtx 6000 ada", 300.0),
    ("rtx pro 6000", 600.0),
    ("rtx pro 6000 blackwell max q", 300.0),
    ("mi100", 300.0),
    ("mi210", 300.0),
    // The two devices of a package share its limit of 560 W.
    ("mi250x", 280.0),
    ("mi250", 280.0),
    ("mi300a", 760.0),
    ("mi300x", 750.0),
    ("mi308x", 650.0),
    ("mi325x", 1000.0),
    ("mi350x", 1000.0),
    ("mi355x", 1400.0),
    ("gaudi2", 600.0),
    ("gaudi3 pcie", 600.0),
    ("gaudi3", 900.0),
    ("max 1100", 300.0),
    ("max 1550", 600.0),
    ("rtx a6000", 300.0),
];

/// Parts of normalized model names, with the memory in MiB.
const MIB: [(&str, f64); 27] = [
    ("t4", 15_360.0),
    ("v100 sxm2 16gb", 16_384.0),
    ("v100 sxm2 32gb", 32_768.0),
    ("v100 pcie 16gb", 16_384.0),
    ("v100 pcie 32gb", 32_768.0),
    ("v100s pcie 32gb", 32_768.0),
    ("a10", 23_028.0),
    ("a30", 24_576.0),
    ("a40", 46_068.0),
    ("a100 sxm4 40gb", 40_960.0),
    ("a100 pcie 40gb", 40_960.0),
    ("a100 sxm4 80gb", 81_920.0),
    ("a100 80gb pcie", 81_920.0),
    ("a800 sxm4 80gb", 81_920.0),
    ("l4", 23_034.0),
    ("l20", 46_068.0),
    ("l40", 46_068.0),
    ("l40s", 46_068.0),
    ("h100 80gb hbm3", 81_559.0),
    ("h100 pcie", 81_559.0),
    ("h100 nvl", 95_830.0),
    ("h800", 81_559.0),
    ("h20", 97_871.0),
    ("h200", 143_771.0),
    ("b200", 183_359.0),
    ("gb200", 189_471.0),
    ("rtx 4090", 24_564.0),
];

/// Returns the memory of a model, if it is in the table.
pub fn memory(model: &str) -> Option<Mebibytes> {
    look_up(&MIB, model).map(Mebibytes)
}

/// Returns the power limit of a model, if it is in the table.
pub fn watts(model: &str) -> Option<Watts> {
    look_up(&WATTS, model).map(Watts)
}

fn look_up(table: &[(&str, f64)], model: &str) -> Option<f64> {
    let words = words(model);
    let is_named = |name: &&(&str, f64)| words.contains(&format!(" {} ", name.0));
    table
        .iter()
        .filter(is_named)
        .max_by_key(|(name, _)| name.len())
        .map(|(_, value)| *value)
}

/// Converts a model name to lower-case words, each between spaces.
fn words(model: &str) -> String {
    let text: String = model
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                ' '
            }
        })
        .collect();
    let words = text.split_whitespace();
    // Keep the order of the words: `A100-PCIE-40GB` and `A100 80GB PCIe` are different models.
    format!(" {} ", words.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_model_name_wins() {
        for (model, expected) in [
            ("NVIDIA A100-SXM4-80GB", Some(400.0)),
            ("NVIDIA A100 80GB PCIe", Some(300.0)),
            ("A100-PCIE-40GB", Some(250.0)),
            ("NVIDIA A10", Some(150.0)),
            ("NVIDIA H100 80GB HBM3", Some(700.0)),
            ("NVIDIA H100 NVL", Some(400.0)),
            ("AMD Instinct MI300X OAM", Some(750.0)),
            ("AMD_Instinct_MI355X", Some(1400.0)),
            ("NVIDIA L40S", Some(350.0)),
            ("NVIDIA GeForce GT 710", None),
            ("102-G30211-0C", None),
        ] {
            assert_eq!(watts(model), expected.map(Watts), "{model}");
        }
        let sizes = [
            ("NVIDIA A100-SXM4-80GB", 81_920.0),
            ("NVIDIA A100-SXM4-40GB", 40_960.0),
            ("Tesla V100S-PCIE-32GB", 32_768.0),
        ];
        for (model, size) in sizes {
            assert_eq!(memory(model), Some(Mebibytes(size)), "{model}");
        }
        assert_eq!(watts("Tesla V100S-PCIE-32GB"), Some(Watts(250.0)));
        assert_eq!(memory("NVIDIA A100"), None, "it comes in two sizes");
    }
}
