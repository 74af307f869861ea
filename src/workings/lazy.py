"""Names of a package that load when they are first asked for."""

from collections.abc import Mapping
from importlib import import_module

from workings.errors import install_hint


def import_attribute(package: str, submodules: Mapping[str, str], name: str) -> object:
    """Import `name` from its home; where an extra is missing, say how to install it."""
    if name not in submodules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    try:
        module = import_module(f"{package}.{submodules[name]}")
    except ModuleNotFoundError as missing:
        if install_hint(missing) is None:
            raise
        told = f"{package}.{name} needs {missing.name}: {install_hint(missing)}"
        raise ModuleNotFoundError(told, name=missing.name) from None
    return getattr(module, name)
