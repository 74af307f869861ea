"""The README of an ONNX folder: a dozen lines of Python that run the model in ONNX Runtime."""

from collections.abc import Sequence
from string import Template

_README = Template("""\
# $name

A $task model in ONNX, for any batch size and length, with its tokenizers for the package
`tokenizers`; exported by `workings export --to onnx`. `model.json` has the labels, the special ids,
and the inputs and outputs of each file.

Rows of a batch are padded with id 0; the mask is 1 at the tokens and 0 at padding.
$state$notes
```python
$code```
""")
_STATE_NOTE = """
The `state` of a generation is what one step outputs and the next step reads. It starts as zeros, of
`past_length` 0, or as what the encoder outputs under that name.
"""
_PLAIN_NOTE = """
`model.onnx` has no state: it reads whole texts, padded on the right, and outputs the logits of the
next token at every position. `decoder_with_past_model.onnx` generates with a cache, as below.
"""
_OPEN = Template("""\
import json
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession
from tokenizers import Tokenizer

folder = Path("$name")
about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
""")
_TOKENIZER = Template("""\
$variable = Tokenizer.from_file(str(folder / "$path"))
$variable.encode_special_tokens = True  # a text may spell <pad>
""")
_CLASSIFY = Template("""\
session = InferenceSession(folder / "model.onnx")

texts = ["a text to classify", "a second one"]
rows = [tokenizer.encode(text).ids[: about["max_length"]] for text in texts]
width = about["padded_length"] or max(1, *map(len, rows))
ids = np.array([$padded for row in rows])
mask = np.array([[1] * len(row) + [0] * (width - len(row)) for row in rows])
(logits,) = session.run(None, $feed)
$decision""")
_ONE_LABEL = """\
for text, scores in zip(texts, logits):
    print(about["labels"][scores.argmax()], text, sep="\\t")
"""
_SEVERAL_LABELS = """\
for text, probabilities in zip(texts, 1 / (1 + np.exp(-logits))):
    pairs = zip(about["labels"], probabilities)
    print(*(label for label, p in pairs if p >= about["threshold"]), text, sep="\\t")
"""
_STATE = """\
sizes = {"batch": 1, "past_length": 0}
names = [part["input"] for part in about["state"]]
shapes = [[sizes.get(n, n) for n in part["shape"]] for part in about["state"]]
inputs = {name: np.zeros(shape, np.float32) for name, shape in zip(names, shapes)}
"""
_COMPLETE = """\
session = InferenceSession(folder / "decoder_with_past_model.onnx")

prompt = "a text to continue"
new = tokens = tokenizer.encode(prompt).ids or [about["special_ids"]["bos"]]
for _ in range(20):
    logits, *present = session.run(None, {"input_ids": np.array([new]), **inputs})
    inputs = dict(zip(names, present))
    new = [int(logits[0, -1].argmax())]
    tokens = tokens + new
print(tokenizer.decode(tokens, skip_special_tokens=False))
"""
_SESSIONS = """\
encoder = InferenceSession(folder / "encoder_model.onnx")
decoder = InferenceSession(folder / "decoder_model.onnx")
"""
_SENTENCE = """
text = "a sentence to translate"
row = source.encode(text).ids + [about["special_ids"]["eos"]]
mask = np.ones((1, len(row)), np.int64)
given = {"input_ids": np.array([row]), "attention_mask": mask}
inputs["encoder_attention_mask"] = mask
"""
_PICTURE = """
from PIL import Image

image, size = Image.open("picture.png").convert("RGB"), about["image_size"]
side = min(image.size)
left, top = ((n - side) / 2 for n in image.size)
square = image.resize((size, size), Image.Resampling.BICUBIC, (left, top, left + side, top + side))
given = {"pixel_values": np.asarray(square)[None]}
"""
_DECODE = """\
inputs |= zip((output.name for output in encoder.get_outputs()), encoder.run(None, given))
inputs = {i.name: inputs[i.name] for i in decoder.get_inputs() if i.name in inputs}
tokens, end = [about["special_ids"]["bos"]], about["special_ids"]["eos"]
while tokens[-1] != end and len(tokens) < 50:
    logits, *present = decoder.run(None, {"input_ids": np.array([tokens[-1:]]), **inputs})
    inputs |= zip(names, present)
    tokens.append(int(logits[0, -1].argmax()))
print(target.decode([token for token in tokens[1:] if token != end], skip_special_tokens=False))
"""


def format_readme(name: str, task: str, notes: Sequence[str], code: str) -> str:
    """Return a README with code that runs the model; `name` is the folder of the files."""
    return _README.substitute(
        name=name,
        task=task,
        state=(_PLAIN_NOTE if _COMPLETE in code else "") + (_STATE_NOTE if _STATE in code else ""),
        notes="".join(f"\n{note[0].upper()}{note[1:]}.\n" for note in notes),
        code=_OPEN.substitute(name=name) + code,
    )


def classifier_usage(*, has_mask: bool, pads_left: bool, multi_label: bool) -> str:
    """Return code that classifies two texts."""
    padding = "[0] * (width - len(row))"
    code = _CLASSIFY.substitute(
        padded=f"{padding} + row" if pads_left else f"row + {padding}",
        feed='{"input_ids": ids, "attention_mask": mask}' if has_mask else '{"input_ids": ids}',
        decision=_SEVERAL_LABELS if multi_label else _ONE_LABEL,
    )
    lines = code.splitlines(keepends=True)
    code = "".join(line for line in lines if has_mask or not line.startswith("mask"))
    return _load_tokenizer("tokenizer", "") + code


def language_model_usage() -> str:
    """Return code that continues a prompt by greedy decoding."""
    return _load_tokenizer("tokenizer", "") + _STATE + _COMPLETE


def translator_usage(*, is_shared: bool) -> str:
    """Return code that translates a sentence by greedy decoding."""
    tokenizers = (
        _load_tokenizer("target", "") + "source = target\n"
        if is_shared
        else _load_tokenizer("source", "source/") + _load_tokenizer("target", "target/")
    )
    return tokenizers + _SESSIONS + _STATE + _SENTENCE + _DECODE


def captioner_usage() -> str:
    """Return code that describes a picture by greedy decoding."""
    return _load_tokenizer("target", "") + _SESSIONS + _STATE + _PICTURE + _DECODE


def _load_tokenizer(variable: str, folder: str) -> str:
    return _TOKENIZER.substitute(variable=variable, path=f"{folder}tokenizer.json")
