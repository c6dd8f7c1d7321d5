"""How a file comes in: as a form (multipart/form-data) that is read no further than it may go, and has to be whole."""

from __future__ import annotations

from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, cast

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.types import Receive, Scope

from ...content import MAX_BYTES
from ...http.bodies import BodyTooLong, read_pieces
from ...http.errors import RequestError
from .calls import Parse, get_path_fields

MAX_FIELDS = 20
MAX_FIELD = 65_536  # bytes
MAX_FORM = MAX_BYTES + 1_048_576  # bytes of the file, its fields and what stands between them
_HOW = "send the file as multipart/form-data (with curl: -F file=@NAME -F title=TITLE)"


class FilePart:
    """A file of a form: its bytes, its name as it was sent, and its type.

    It is no dataclass, for pydantic would describe its parts as part of the API.
    """

    def __init__(self, data: bytes, name: str, mime: str | None) -> None:
        self.data = data
        self.name = name
        self.mime = mime


class _Parser(MultiPartParser):
    """Starlette's parser, which knows whether the form has ended, and where a large file may wait.

    What was cut off looks like a shorter file. A file that has not been looked through for secrets must not lie in the
    system's folder for temporary files: it is in one without a name, which ends with the process, in the store's.
    """

    ended = False
    folder: Path | None = None

    def on_headers_finished(self) -> None:
        """A part begins: a file, or a field."""
        super().on_headers_finished()
        part = self._current_part.file
        if part is not None:
            size = 0 if self.folder is None else self.spool_max_size  # 0: it stays in memory, whatever its length
            self._files_to_close_on_error[-1].close()
            # Closed with the form, or by the parser where the form ends in an error.
            file = SpooledTemporaryFile(size, dir=None if self.folder is None else str(self.folder))  # noqa: SIM115
            self._files_to_close_on_error[-1] = file
            part.file = cast("BinaryIO", file)

    def on_end(self) -> None:
        """The last boundary has come."""
        self.ended = True


async def read_upload(scope: Scope, receive: Receive, folder: Path | None) -> Parse:
    """Take in a form with a file, which waits in the folder if it is more than a megabyte: many may wait at once."""
    headers = Headers(scope=scope)
    kind, options = parse_options_header(headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data":
        raise RequestError(415, f"the body is no form: {_HOW}")
    if not boundary or not boundary.isascii():
        raise RequestError(422, f"the form's Content-Type names no boundary: {_HOW}")
    # Nothing else of the header: a charset that is none, for one, would be believed.
    plain = Headers({"content-type": f'multipart/form-data; boundary="{boundary.decode("ascii")}"'})
    pieces = (piece async for piece in read_pieces(scope, receive, MAX_FORM, keeps=False) if piece)
    parser = _Parser(plain, pieces, max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD)
    parser.folder = folder
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise RequestError(422, f"the form cannot be read: {error.message.rstrip('.')}: {_HOW}") from error
    except BodyTooLong as error:
        raise _make_too_large() from error
    except OSError as error:
        sentence = "the file cannot be taken in: make room on the disk of the memory, and send it again"
        raise RequestError(503, sentence) from error
    if not parser.ended:
        await form.close()
        raise RequestError(422, "the form was cut off before its end: send it again, whole")
    return Upload(form, get_path_fields(scope))


def _make_too_large() -> RequestError:
    sentence = f"the file is larger than {MAX_BYTES:,} bytes; send it in parts"
    return RequestError(413, sentence, code="PAYLOAD_TOO_LARGE")


class Upload:
    """A form that has come in: calling it gives its fields and closes its files."""

    def __init__(self, form: FormData, path: dict[str, Any]) -> None:
        self._form = form
        self._path = path
        self.size = MAX_FORM  # it may be as large as that

    def __call__(self) -> object:
        """Return the fields; one that is left empty is not given, as forms on pages have it."""
        fields: dict[str, Any] = {}
        try:
            for name, value in self._form.multi_items():
                if name in fields:
                    raise RequestError(422, f"it is given more than once: {name}")
                if isinstance(value, UploadFile):
                    fields[name] = _read_file(value)
                elif value:
                    fields[name] = value
        finally:
            self.close()
        return {**fields, **self._path}

    def close(self) -> None:
        """Close the files without reading them."""
        for _, each in self._form.multi_items():
            if isinstance(each, UploadFile):
                each.file.close()


def _read_file(file: UploadFile) -> FilePart:
    if file.size is not None and file.size > MAX_BYTES:
        raise _make_too_large()
    mime = (file.content_type or "").partition(";")[0].strip().lower()
    return FilePart(file.file.read(), file.filename or "", mime or None)
