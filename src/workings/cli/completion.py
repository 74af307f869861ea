"""Print a completion script for a shell: commands, options, recipes, lectures and run folders."""

import argparse
from collections.abc import Iterator

HELP = "print a completion script for a shell"

# Functions of the scripts: $1 is the word to complete in bash. A run folder has a config.toml.
_BASH = """\
_workings_recipes_or_files() {{ compgen -W "{recipes}" -- "$1"; compgen -f -- "$1"; }}
_workings_formats() {{ compgen -W "{formats}" -- "$1"; }}
_workings_lectures_or_files() {{ compgen -W "{lectures}" -- "$1"; compgen -f -- "$1"; }}
_workings_runs_or_dirs() {{
  local config is_run=
  for config in "$1"*/config.toml "$1"*/*/config.toml; do
    [[ -f $config ]] && is_run=1 && echo "${{config%/config.toml}}"
  done
  [[ $is_run ]] || compgen -d -- "$1"
}}
"""
_ZSH = """\
_workings_recipes_or_files() {{ compadd -- {recipes}; _files }}
_workings_formats() {{ compadd -- {formats} }}
_workings_lectures_or_files() {{ compadd -- {lectures}; _files }}
_workings_runs_or_dirs() {{ compadd -- */config.toml(N:h) */*/config.toml(N:h) || _files -/ }}
"""
_FUNCTIONS = {"bash": _BASH, "zsh": _ZSH, "tcsh": ""}  # tcsh has no functions
_FILES = ("DATA", "FILE", "PATH", "PICTURE", "SLIDE")
_FOLDERS = ("ANSWERS", "DESTINATION", "FOLDER", "SHEET")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("shell", choices=tuple(_FUNCTIONS), help="shell that reads the script")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    import sys

    import shtab

    from workings.builtin import builtin_lectures, builtin_recipes
    from workings.cli import _build_parser
    from workings.cli.export import FORMATS

    parser = _build_parser()
    _add_recipe_keys(parser)
    names = {"recipes": builtin_recipes(), "lectures": builtin_lectures(), "formats": FORMATS}
    words = {kind: " ".join(each) for kind, each in names.items()}
    completions = {
        "RECIPE": _call("_workings_recipes_or_files", tcsh=f"({words['recipes']})"),
        "PROBLEM": _call("_workings_lectures_or_files", tcsh=f"({words['lectures']})"),
        "FORMAT": _call("_workings_formats", tcsh=f"({words['formats']})"),
        "RUN": _call("_workings_runs_or_dirs", tcsh="d"),
        **dict.fromkeys(_FILES, shtab.FILE),
        **dict.fromkeys(_FOLDERS, shtab.DIRECTORY),
    }
    for sub in _list_parsers(parser):
        for action in sub._actions:
            if action.metavar in completions:
                action.complete = completions[action.metavar]  # type: ignore[attr-defined]
    functions = _FUNCTIONS[arguments.shell].format(**words)
    sys.stdout.write(shtab.complete(parser, arguments.shell, preamble=functions) + "\n")
    return 0


def _call(function: str, tcsh: str) -> dict[str, str]:
    return {"bash": function, "zsh": function, "tcsh": tcsh}


def _add_recipe_keys(parser: argparse.ArgumentParser) -> None:
    """Add --section.key to the commands that change a recipe, which parse it by themselves."""
    from workings.recipes import list_recipe_keys

    for sub in _list_parsers(parser):
        if sub.get_default("takes_changes"):
            for key in sorted(list_recipe_keys().keys() - {"model"}):
                if f"--{key}" not in sub._option_string_actions:  # --data is an option, too
                    sub.add_argument(f"--{key}")


def _list_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its commands, recursively."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from _list_parsers(sub)
