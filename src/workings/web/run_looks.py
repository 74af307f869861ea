"""Looks into a run for a static site: what the server would answer for a few texts.

Each is a file of JSON with the responses of the server, which the page loads when it needs it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from workings.errors import UserError
from workings.web import responses
from workings.web.heatmaps import level_colors, level_inks
from workings.web.inspector import Inspector
from workings.web.requests import AblatedHead, HeatmapRequest, InspectRequest, RunRequest
from workings.web.runs import RegisteredRun, RunRegistry

TEXTS = {
    "translate": ("woman and man holding hands", "red heart", "smiling face with open mouth"),
    "classify": ("smiling face with open mouth", "visage souriant", "cœur rouge"),
    "language": ("The first ", "def main(", "for i in range("),
}
"""By kind of run; they suit the recipes that need no download."""
MAX_TOKENS = 24  # of a text: each pair of tokens is a derivation in every head
Files = Iterator[tuple[str, Any]]
Fields = dict[str, Any]


class RunLooks:
    """The files of some runs for some texts; without texts, those that suit the kind of run."""

    def __init__(self, folders: Sequence[Path], texts: Sequence[str] = ()) -> None:
        self._registry, self._texts = RunRegistry(folders), texts
        self._inspector = Inspector(self._registry)
        for run in self._registry.runs.values():
            if run.kind not in TEXTS:
                raise UserError(f"{run.name}: a run that reads pictures: expected one of texts")

    def list_runs(self) -> list[dict[str, Any]]:
        """Return the runs as the page lists them, with the texts that it can show."""
        return [
            {"name": run.name, "title": run.title, "kind": run.kind, "texts": self._texts_of(run)}
            for run in self._registry.runs.values()
        ]

    def files(self) -> Files:
        """Yield the path in the site and the JSON of every file."""
        for run in self._registry.runs.values():
            has_positions = False
            for number, text in enumerate(self._texts_of(run), start=1):
                request = InspectRequest(run=run.name, text=text)
                view = self._inspect(request)
                has_positions = view.has_positions
                folder = f"runs/{run.name}/{number}"
                yield f"{folder}/look", self._build_look(request, view)
                yield f"{folder}/stages", self._build_stages(request)
                for head in _list_heads(view):
                    yield from self._build_head_files(folder, request, head)
            if has_positions:
                maps = self._inspector.describe_positions(RunRequest(run=run.name))
                yield f"runs/{run.name}/positions", [asdict(heatmap) for heatmap in maps]

    def _texts_of(self, run: RegisteredRun) -> list[str]:
        return [*(self._texts or TEXTS[run.kind])]

    def _inspect(self, request: InspectRequest) -> responses.InspectView:
        view = self._inspector.inspect(request)
        if not any(stack.has_workings for stack in view.stacks):
            raise UserError(f"{request.run}: it has no attention heads: expected a Transformer")
        size = max(max(stack.rows, stack.columns) for stack in view.stacks)
        if size > MAX_TOKENS:
            raise UserError(f"{request.text!r}: {size} tokens: expected at most {MAX_TOKENS}")
        view.cell_groups = []  # activations need the model
        return view

    def _build_look(self, request: InspectRequest, view: responses.InspectView) -> dict[str, Any]:
        maps = {}
        for stack in view.stacks:
            for layer, heads in enumerate(stack.thumbs, start=1):
                for head in range(1, len(heads) + 1):
                    index = HeatmapRequest(
                        **vars(request), part=_part(stack.part), layer=layer, head=head
                    )
                    name = f"{stack.part}-{layer}-{head}"
                    maps[name] = asdict(self._inspector.heatmap(index))
                    del maps[name]["colors"], maps[name]["inks"]  # the same for all
        others: Fields = {"inspect/model": asdict(self._inspector.draw_model(request))}
        if view.kind == "classify":
            strips = self._inspector.explain(request)
            others["inspect/explain"] = [asdict(strip) for strip in strips]
        scale = {"colors": level_colors(), "inks": level_inks()}
        return {"inspect": asdict(view), "maps": maps, "scale": scale, "others": others}

    def _build_stages(self, request: InspectRequest) -> Fields:
        """Return the numbers of all stages by path, and what their maps share."""
        maps = {
            path: asdict(heatmap) for path, heatmap in self._inspector.read_stages(request).items()
        }
        shared, [rest] = _share_fields([[*maps.values()]])
        return {"shared": shared, "maps": dict(zip(maps, rest, strict=True))}

    def _build_head_files(self, folder: str, request: InspectRequest, head: AblatedHead) -> Files:
        """Yield the derivations of a head's cells, and the output of the model without it."""
        name = f"{head.part}-{head.layer}-{head.head}"
        cells, table = self._inspector.derive_cells(HeatmapRequest(**vars(request), **vars(head)))
        shared, rows = _share_fields([[asdict(cell) for cell in row] for row in cells])
        plain_table = None if table is None else asdict(table)
        yield f"{folder}/{name}", {"shared": shared, "cells": rows, "table": plain_table}
        ablated = replace(request, ablated_heads=[head])
        yield f"{folder}/look-{name}", self._build_look(ablated, self._inspect(ablated))


def _share_fields(rows: list[list[Fields]]) -> tuple[Fields, list[list[Fields]]]:
    """Return the fields that are equal in all cells, and the cells without them."""
    first = rows[0][0]
    shared = {
        key: value for key, value in first.items() if all(c[key] == value for r in rows for c in r)
    }
    rest = [[{key: cell[key] for key in cell if key not in shared} for cell in row] for row in rows]
    return shared, rest


def _part(name: str) -> Any:
    return name


def _list_heads(view: responses.InspectView) -> Iterator[AblatedHead]:
    for stack in view.stacks:
        if stack.has_workings:
            for layer, heads in enumerate(stack.thumbs, start=1):
                for head in range(1, len(heads) + 1):
                    yield AblatedHead(part=_part(stack.part), layer=layer, head=head)
