import subprocess
import sys

import pytest

import workings.data


def test_every_public_name_is_there() -> None:
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
from workings.data import Words, load_pairs, load_set, read, set_names, unpack
print(Words.train(["We are learning AI"]), set_names())
del sys.modules["numpy"]
try:
    from workings.data import batches
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Words(7 tokens)"), done.stderr
    assert 'batches needs torch: pip install "workings[models]"' in done.stdout
