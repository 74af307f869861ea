"""Names of a package that load when they are first asked for."""

from collections.abc import Mapping
from importlib import import_module

from workings.errors import extra_of


def fetch(package: str, homes: Mapping[str, str], name: str) -> object:
    """Import `name` from its home; where an extra is missing, say how to install it."""
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    try:
        module = import_module(f"{package}.{homes[name]}")
    except ModuleNotFoundError as missing:
        if extra_of(missing) is None:
            raise
        told = f"{package}.{name} needs {missing.name}: {extra_of(missing)}"
        raise ModuleNotFoundError(told, name=missing.name) from None
    return getattr(module, name)
