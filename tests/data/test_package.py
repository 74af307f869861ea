import subprocess
import sys

import pytest

import workings.data
from workings.errors import install_command


def test_public_names_exist() -> None:
    for name in workings.data.__all__:
        assert getattr(workings.data, name) is not None
    assert dir(workings.data) == sorted(workings.data.__all__)
    with pytest.raises(AttributeError, match="no attribute 'none'"):
        workings.data.none  # noqa: B018


def test_readers_and_tokenizers_need_no_torch() -> None:
    code = """
import sys
for name in ("torch", "jaxtyping", "tokenizers", "emoji", "numpy"):
    sys.modules[name] = None
from workings.data import WordTokenizer, list_datasets, load_dataset, load_pairs, unpack
print(WordTokenizer.train(["We are learning AI"]), list_datasets())
del sys.modules["numpy"]
try:
    from workings.data import make_batches
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("WordTokenizer(7 tokens)"), done.stderr
    assert f"make_batches needs torch: {install_command('models')}" in done.stdout
