"""Names of a package that are imported on first use (PEP 562)."""

from collections.abc import Mapping
from importlib import import_module

from workings.errors import install_hint


def import_attribute(package: str, submodules: Mapping[str, str], name: str) -> object:
    """Import `name` from the submodule that defines it, or raise with the extra to install.

    A name that is mapped to itself is the submodule.
    """
    if name not in submodules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    try:
        module = import_module(f"{package}.{submodules[name]}")
    except ModuleNotFoundError as missing:
        hint = install_hint(missing)
        if hint is None:
            raise
        message = f"{package}.{name} needs {missing.name}: {hint}"
        raise ModuleNotFoundError(message, name=missing.name) from None
    return module if submodules[name] == name else getattr(module, name)
