"""Import models of transformers beside a torchvision that was built for another torch."""

from importlib.util import find_spec


def hide_broken_torchvision() -> None:
    """Make transformers believe that there is no torchvision, if it cannot be imported.

    Models of texts do not need it, and without this none of them could be imported.
    """
    if not find_spec("transformers") or not find_spec("torchvision"):
        return
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):
        from transformers.utils import import_utils

        is_available = import_utils._is_package_available
        import_utils._is_package_available = lambda name, *options, **keywords: (
            (False, "N/A") if name == "torchvision" else is_available(name, *options, **keywords)
        )
        import_utils.is_torchvision_available.cache_clear()
