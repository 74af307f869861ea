"""The sets of pairs that have a name: where they come from, and which files they are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workings.data.download import Mirror, Progress, download
from workings.data.pair_files import Pair, read_columns, read_parallel
from workings.data.sets import set_folders
from workings.errors import UserError, near, shown


@dataclass(frozen=True)
class NamedPairs:
    """A published set of pairs: its home, its languages, its files there."""

    name: str
    about: str
    home: str
    languages: tuple[str, ...]
    parts: Mapping[str, str]
    """The files of train, validation and test, as far as the set has them, and of further parts."""
    parallel: bool = True
    """A file a language, which its ending tells; else the languages are columns of one file."""
    mirrors: Mapping[str, Mirror] = field(default_factory=dict)
    """Where a file is to be had, if it can be downloaded as it is."""

    def read(
        self,
        part: str,
        source: str,
        target: str,
        *,
        fetch: bool = True,
        progress: Progress | None = None,
    ) -> list[Pair]:
        """Read a part in two languages, downloading it first where need be and `fetch` allows."""
        for language in (source, target):
            if language not in self.languages:
                raise UserError(
                    f"{self.name}: no language {shown(language)}: {near(language, self.languages)}"
                )
        if part not in self.parts:
            raise UserError(f"{self.name}: no part {shown(part)}: {near(part, self.parts)}")
        stem = self.parts[part]
        if self.parallel:
            one, other = (
                self._located(f"{stem}.{language}", fetch, progress)
                for language in (source, target)
            )
            return list(read_parallel(one, other))
        columns = (str(self.languages.index(language) + 1) for language in (source, target))
        return list(read_columns(self._located(stem, fetch, progress), *columns))

    def _located(self, file: str, fetch: bool, progress: Progress | None) -> Path:
        """Find a file: under WORKINGS_DATA, in the cache, or download it."""
        folders = set_folders(self.name)
        for folder in folders:
            for end in (".gz", ""):
                if (folder / f"{file}{end}").is_file():
                    return folder / f"{file}{end}"
        if self.mirrors and file not in self.mirrors:
            raise UserError(f"{self.name}: there is no {file}: not every part has every language")
        kept = folders[-1]
        advice = (
            f"put {file}, gzip'd or not, from {self.home}, into {kept}\n"
            f"or set WORKINGS_DATA to a folder with {self.name}/ in it that holds {file}"
        )
        mirror = self.mirrors.get(file)
        if mirror is None or not fetch:
            raise UserError(f"{self.name}: {file} is not on this machine\n{advice}")
        try:
            return download([mirror], kept / f"{file}.gz", progress=progress)
        except UserError as error:
            raise UserError(f"{self.name}: {error}\n{advice}") from None
        except OSError as error:
            raise UserError(f"{kept}: {error.strerror}\n{advice}") from None


_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
# The home publishes no digests; these are the ones that torchtext stated for these addresses.
_MULTI30K_FILES = (
    ("test_2016_flickr.cs", 22_572, "3104872229daa1bef3b401d44dd2220b"),
    ("test_2016_flickr.de", 22_890, "efd67d314d98489b716b145475101932"),
    ("test_2016_flickr.en", 21_077, "ff2c0fcb4893a13bd73414306bc250ae"),
    ("test_2016_flickr.fr", 22_310, "08dc7cd4a662f31718412de95ca9bfe3"),
    ("test_2017_flickr.de", 21_471, "6a8d5c87f6ae19e3d35681aa6fd16571"),
    ("test_2017_flickr.en", 19_138, "005396bac545d880abe6f00bbb7dbbb4"),
    ("test_2017_flickr.fr", 20_434, "cb09af7d2b501f9112f2d6a59fa1360d"),
    ("test_2017_mscoco.de", 10_230, "e8cd6ec2bc8a11fc846fa48a46e3d0bb"),
    ("test_2017_mscoco.en", 8_844, "a7b684e0edbef1d4a23660c8e8e743fd"),
    ("test_2017_mscoco.fr", 9_751, "4995d10954a804d3cdfd907b9fd093e8"),
    ("train.cs", 593_827, "d9a5fc268917725a2b0efce3a0cc8607"),
    ("train.de", 637_044, "81ff90b99829c0cd4b1b587d394afd39"),
    ("train.en", 568_929, "0065d13af80720a55ca8153d126e6627"),
    ("train.fr", 604_242, "6cb767741dcad3931f966fefbc05203f"),
    ("val.cs", 22_096, "83cdc082f646b769095615384cf5c0ca"),
    ("val.de", 24_681, "6e0e229eb049e3fc99a1ef02fb2d5f91"),
    ("val.en", 21_650, "2b69aa9253948ac9f67e94917272dd40"),
    ("val.fr", 23_001, "93fc564584b7e5ba410c761ea5a1c682"),
)

NAMED_PAIRS = {
    s.name: s
    for s in (
        NamedPairs(
            name="multi30k",
            about="31,014 descriptions of photographs in four languages, and three tests of them",
            home="https://github.com/multi30k/dataset (data/task1/raw)",
            languages=("cs", "de", "en", "fr"),
            parts={
                "train": "train",
                "validation": "val",
                "test": "test_2016_flickr",
                "test_2017_flickr": "test_2017_flickr",  # these two without Czech
                "test_2017_mscoco": "test_2017_mscoco",
            },
            mirrors={
                file: Mirror(f"{_MULTI30K}/{file}.gz", size, f"md5:{digest}")
                for file, size, digest in _MULTI30K_FILES
            },
        ),
        NamedPairs(
            name="eng-fra",
            about="167,130 short English sentences and French ones, by volunteers",
            # It grows there from month to month, so that no digest holds for long.
            home="https://www.manythings.org/anki/ (fra-eng.zip)",
            languages=("en", "fr"),
            parts={"train": "fra.txt"},
            parallel=False,
        ),
    )
}
