"""Checkpoints in a bucket of S3, or of any store that speaks its protocol: MinIO, OCI, R2 … (the extra `s3`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from ...config.installation import install_command
from ...values.errors import CofioError, Invalid, Unavailable
from ...values.records import check_int
from ..checkpointer import CheckpointerCapabilities
from ..concurrency import in_thread
from .document_checkpointer import Clock
from .named_files import NamedFilesCheckpointer

try:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
except ImportError as error:
    raise ImportError(f"the checkpointer s3 needs its driver: {install_command('s3')}") from error

__all__ = ["S3Checkpointer"]

P = ParamSpec("P")
T = TypeVar("T")


class S3Checkpointer(NamedFilesCheckpointer):
    """Keeps each checkpoint in an object of its own, `PREFIX/THREAD/TURN.ID.json`; a listing begins with the newest.

    There is no index to keep up, so any number of machines can save at once and lose nothing; where their clocks
    differ, a save still comes after all that it could see. The bucket has to be there. What asks for metadata reads
    the objects, one request each; `delete` and `copy_thread` take a request or two for each checkpoint, and stopped
    half way they end there. For a time to live, give the bucket a lifecycle rule. There is no `search`.

    Args:
        bucket: The name of the bucket.
        prefix: What the name of every object begins with.
        endpoint_url: Where the store is, when it is not Amazon's.
        page_size: How many names a request lists, up to 1,000.
        options: Anything else that `boto3.client` takes, such as `region_name` and `aws_access_key_id`.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "cofio/checkpoints",
        endpoint_url: str | None = None,
        *,
        page_size: int = 1000,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        super().__init__(clock=clock)
        check_int("page_size", page_size, 1, 1000)
        self.page_size = page_size
        if not bucket:
            raise ValueError("bucket: is empty; write s3:BUCKET or s3:BUCKET/PREFIX")
        self.bucket = bucket
        self.prefix = prefix.strip("/")
        # Checksums beyond the ones that the protocol always had are refused by some of the other stores.
        plain = Config(request_checksum_calculation="when_required", response_checksum_validation="when_required")
        options["config"] = plain.merge(options["config"]) if "config" in options else plain
        self._options = {"endpoint_url": endpoint_url, **options}
        self._open_client: Any = None
        self._client_lock = threading.Lock()

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        return CheckpointerCapabilities.all_but("search", "ttl")

    async def close(self) -> None:
        """Close the connections to the store."""
        with self._client_lock:
            client, self._open_client = self._open_client, None
        if client is not None:
            await in_thread(client.close)

    @property
    def _client(self) -> Any:
        """Make the client once; boto3 says that one may be used by many threads, but not made by them."""
        with self._client_lock:
            if self._open_client is None:
                self._open_client = boto3.session.Session().client("s3", **self._options)
            return self._open_client

    async def _cross(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await super()._cross(call, *args, **kwargs)
        except (BotoCoreError, ClientError) as error:
            raise self._translate_errors(error) from None  # its text has the endpoint, which may hold a secret

    def _translate_errors(self, error: BotoCoreError | ClientError) -> CofioError:
        """Say what to check."""
        if isinstance(error, ParamValidationError):
            return Invalid("bucket", f"{self.bucket!r} can be the name of none")
        problem = type(error).__name__
        if isinstance(error, ClientError):
            problem = f"{error.operation_name} was refused with {error.response.get('Error', {}).get('Code', problem)}"
        return Unavailable(
            f"the checkpoints in the bucket {self.bucket!r} cannot be reached: {problem}; "
            "check endpoint_url, region_name, the credentials, and that the bucket is there and may be read and written"
        )

    def _path(self, folder: str, name: str) -> str:
        return "/".join(filter(None, (self.prefix, folder, name)))

    def _names(self, folder: str | None, few: int | None) -> Iterator[tuple[str, str]]:
        base = f"{self.prefix}/" if self.prefix else ""
        asked: dict[str, Any] = {"Bucket": self.bucket, "Prefix": base if folder is None else f"{base}{folder}/"}
        asked["MaxKeys"] = self.page_size if few is None else min(few, self.page_size)
        while True:
            page = self._client.list_objects_v2(**asked)
            for each in page.get("Contents", ()):
                place, slash, name = each["Key"].removeprefix(base).rpartition("/")
                if slash and "/" not in place:
                    yield place, name
            if not page.get("IsTruncated"):
                return
            asked |= {"ContinuationToken": page["NextContinuationToken"], "MaxKeys": self.page_size}

    def _read(self, folder: str, name: str) -> bytes | None:
        try:
            found = self._client.get_object(Bucket=self.bucket, Key=self._path(folder, name))
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "NoSuchKey":
                return None
            raise
        with found["Body"] as body:
            content: bytes = body.read()
        return content

    def _write(self, folder: str, name: str, content: bytes) -> None:
        self._client.put_object(
            Bucket=self.bucket, Key=self._path(folder, name), Body=content, ContentType="application/json"
        )

    def _erase(self, folder: str, name: str) -> bool:
        self._client.delete_object(Bucket=self.bucket, Key=self._path(folder, name))
        return True

    def __repr__(self) -> str:
        return f"S3Checkpointer(bucket={self.bucket!r}, prefix={self.prefix!r})"
