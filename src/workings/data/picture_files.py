"""Where pictures lie: a folder, or a zip archive that is read in place."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from workings.data.archives import MOST_MEMBERS, ZipFiles
from workings.data.pictures import LARGEST, Oddity, Unfit
from workings.errors import UserError, brief
from workings.files import read_bytes


class PictureFiles:
    """The pictures of a folder and of those in it, or of an archive, by the names in captions.

    A caption may leave out the folders that a picture lies in, if there is one of that name only.
    Names are looked up in a list of what is there and links are not followed: nothing leads out.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        if not place.exists():
            raise UserError(f"{brief(str(place), 300)}: no such folder or zip archive of pictures")
        self._zip = None if place.is_dir() else ZipFiles(place)
        self._paths = _by_name(self._zip.entries if self._zip else _walked(place))

    def __contains__(self, name: str) -> bool:
        return name in self._paths

    def stamp(self, name: str) -> str:
        """What changes when the picture does: its checksum; or where it lies, and its time."""
        path = self._paths.get(name)
        if path is None:
            return "missing"
        if self._zip:
            entry = self._zip.entries[path]
            return f"{entry.file_size} {entry.CRC}"
        place = self.place / path
        try:
            status = place.lstat()
        except OSError:
            return "missing"
        # Who may read it is in the second of the times alone.
        return f"{place.absolute()} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"

    def read(self, name: str) -> bytes:
        """Give a picture's bytes, or say why not."""
        path = self._paths.get(name)
        if path is None:
            raise Unfit(Oddity.MISSING, "no such picture")
        try:
            place = self.place / path
            size = self._zip.entries[path].file_size if self._zip else place.lstat().st_size
            if size > LARGEST:
                raise Unfit(Oddity.ENORMOUS, f"enormous: more than {LARGEST:,} bytes")
            return self._zip.read(path) if self._zip else read_bytes(place, LARGEST)
        except Unfit:
            raise
        except FileNotFoundError:
            raise Unfit(Oddity.MISSING, "no such picture") from None
        except (UserError, PermissionError) as error:
            raise Unfit(Oddity.UNREADABLE, str(error)) from None
        except OSError as error:  # of the disk, not of the picture: it may be sound the next time
            raise UserError(f"{place}: {error.strerror or error}") from None

    def close(self) -> None:
        """Let an archive go."""
        if self._zip:
            self._zip.close()


class PicturePlaces:
    """Pictures that lie in several places, each in the first of these that has it."""

    def __init__(self, places: Sequence[PictureFiles]) -> None:
        self._places = places

    def _of(self, name: str) -> PictureFiles:
        return next((place for place in self._places if name in place), self._places[0])

    def stamp(self, name: str) -> str:
        """What changes when the picture does."""
        return self._of(name).stamp(name)

    def read(self, name: str) -> bytes:
        """Give a picture's bytes, or say why not."""
        return self._of(name).read(name)

    def close(self) -> None:
        """Let archives go."""
        for place in self._places:
            place.close()


def _walked(folder: Path) -> Iterable[str]:
    count = 0
    for place, _, files in os.walk(folder):
        count += len(files)
        if count > MOST_MEMBERS:
            raise UserError(f"{folder}: more than {MOST_MEMBERS:,} files: not a folder of pictures")
        for file in files:
            yield (Path(place) / file).relative_to(folder).as_posix()


def _by_name(paths: Iterable[str]) -> dict[str, str]:
    """Find paths by themselves, and by their last part where only one ends so."""
    found: dict[str, str] = {}
    ends: dict[str, str | None] = {}
    for path in paths:
        found[path] = path
        end = path.rpartition("/")[2]
        ends[end] = None if end in ends else path
    return {**{end: path for end, path in ends.items() if path}, **found}
