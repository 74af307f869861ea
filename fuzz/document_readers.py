"""The readers of documents to fuzz: each format that worked examples are read from."""

import io
import json
import zipfile
from collections.abc import Callable
from importlib.util import find_spec

from readers import JSON, Reader
from workings.problems.documents.reading import read_document

_MARKDOWN = b"""# Two words
x_1 = [1, 0] and x_2 = [0, 2]; W_V = [[1, 1], [0, 2]]
q_1 \xc2\xb7 k_2 = 0, exp(1.4) = 4.06
| Q | 1 | 0 |
softmax([1, 2]) = [0.27, 0.73]
$$A = \\text{softmax}(QK^T/\\sqrt{2}) = \\begin{bmatrix} 1 & 0 \\\\ 0 & 1 \\end{bmatrix}$$
"""
_LAYOUT = b"""     2  0          1  0
X =  1  1 ,  W_Q = 0  1
     0  3

Q =
   1.0   2.0
   3.0   4.0
"""
_HTML = b"""<html><body><h1>Q</h1><table><caption>Q K<sup>T</sup></caption><tr>
<td>1,5</td><td>&minus;2</td></tr></table><math><mi>X</mi><mo>=</mo><mtable><mtr><mtd><mn>1</mn></mtd></mtr></mtable></math></body>
</html>"""
_CELL = {
    "cell_type": "code",
    "source": ["Q = X @ W\n", "Q"],
    "outputs": [{"output_type": "execute_result", "data": {"text/plain": ["array([[1., 2.]])"]}}],
}
_SHEET = (
    '<worksheet><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>X</t></is></c>'
    '<c r="B1"><v>1.5</v></c></row></sheetData></worksheet>'
)
_OFFICE: dict[str, dict[str, str]] = {
    "docx": {
        "word/document.xml": '<d xmlns:w="w" xmlns:m="m"><w:body><w:p><w:r><w:t>X = </w:t></w:r>'
        "<m:oMath><m:m><m:mr><m:e><m:r><m:t>1</m:t></m:r></m:e></m:mr></m:m></m:oMath></w:p></w:body></d>"
    },
    "pptx": {
        "ppt/presentation.xml": "<p/>",
        "ppt/slides/slide1.xml": '<s xmlns:a="a"><sp><a:p><a:r><a:t>X = [1, 2]</a:t></a:r></a:p>'
        "</sp></s>",
    },
    "xlsx": {
        "xl/workbook.xml": '<w xmlns:r="r"><sheet name="a" r:id="x"/></w>',
        "xl/_rels/workbook.xml.rels": '<r><R Id="x" Target="worksheets/sheet1.xml"/></r>',
        "xl/worksheets/sheet1.xml": _SHEET,
    },
}
_PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]"
    b"/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/Contents 4 0 R>>endobj\n"
    b"4 0 obj<</Length 30>>stream\n"
    b"BT (X = 1 2) Tj ET\nendstream endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
)


def _of_suffix(suffix: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        document = read_document(data, f"document.{suffix}")
        for example in document.examples:
            example.to_dict()
        document.to_json_lines("document")

    return read


def _pack(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


_WORDS = (
    "=",
    "\\begin{bmatrix}",
    "&",
    "$$",
    "|",
    "[[",
    "]]",
    "softmax(",
    "\t",
    "\n\n",
    "x_1",
    "1e999",
)
_XML = ("<!DOCTYPE a>", "<!ENTITY a 'b'>", "&a;", "<t>", "</t>", "PK\x05\x06", "<m:e>" * 400)
DOCUMENT_READERS: dict[str, Reader] = {
    "markdown document": Reader(_of_suffix("md"), lambda: [_MARKDOWN, _LAYOUT], _WORDS),
    "html document": Reader(
        _of_suffix("html"), lambda: [_HTML], (*_WORDS, "<table>", "<math>", "<td>")
    ),
    "notebook document": Reader(
        _of_suffix("ipynb"), lambda: [json.dumps({"nbformat": 4, "cells": [_CELL]}).encode()], JSON
    ),
    "csv document": Reader(
        _of_suffix("csv"), lambda: [b"X,1,2\n,3,4\n\nQ,1,2\n"], (",", "\n", '"', "\0")
    ),
    **{
        f"{suffix} document": Reader(
            _of_suffix(suffix),
            lambda files=files: [_pack(files)],
            _XML,  # type: ignore[misc]
        )
        for suffix, files in _OFFICE.items()
    },
}
if find_spec("pypdf") is not None:
    DOCUMENT_READERS["pdf document"] = Reader(
        _of_suffix("pdf"), lambda: [_PDF], ("obj", "endobj", "<<", ">>", "stream", "/Kids", "R")
    )
