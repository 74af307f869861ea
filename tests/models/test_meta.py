import subprocess
import sys

from workings.models.language import build_language_model
from workings.models.meta import meta_device

TABLE = {"d_model": 32, "layers": 2, "heads": 4, "positions": "learned"}


def test_modules_have_shapes_without_values():
    with meta_device():
        model = build_language_model(TABLE, 60)
    assert all(weight.is_meta for weight in model.state_dict().values())
    expected = build_language_model(TABLE, 60).state_dict()
    assert {n: w.shape for n, w in model.state_dict().items()} == {
        n: w.shape for n, w in expected.items()
    }


def test_sympy_is_not_imported():
    code = f"""
import sys
from workings.models.language import build_language_model
from workings.models.meta import meta_device
with meta_device():
    build_language_model({TABLE}, 60)
print("sympy" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
