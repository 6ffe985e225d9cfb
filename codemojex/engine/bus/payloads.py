"""Payloads of one type: turned into bytes before they are sent, and back before the handler sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from codemojex.engine import validation
from codemojex.engine.cache.near_cache import BYTES, struct_codec
from codemojex.engine.cache.options import Codec
from codemojex.engine.error_text import describe
from codemojex.engine.errors import InvalidValue
from codemojex.engine.jobs.jobs import Job

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TypedJob(Generic[T]):
    """A claimed job whose payload was read. `raw` is the job as the verbs know it, with the payload's bytes."""

    payload: T
    raw: Job

    @property
    def id(self) -> str:
        return self.raw.id

    @property
    def lane(self) -> str | None:
        return self.raw.lane

    @property
    def token(self) -> str:
        """Fences whatever the handler writes elsewhere."""
        return self.raw.token

    @property
    def failures(self) -> int:
        return self.raw.failures


class Payloads(Generic[T]):
    """How a queue writes and reads its payloads: bytes, a type that msgspec knows, or any `Codec`."""

    def __init__(self, queue: str, codec: type[T] | Codec[T] | None) -> None:
        """Raises InvalidValue for what is no type and no codec."""
        self._queue = queue
        self._given = codec
        self._kind: type | None = bytes
        self.plain = codec is None or codec is bytes
        if self.plain:
            self._codec = cast("Codec[T]", BYTES)
        elif isinstance(codec, type):
            self._kind = codec
            self._codec = self._of_type(codec)
        elif callable(getattr(codec, "encode", None)) and callable(getattr(codec, "decode", None)):
            self._kind, self._codec = None, cast("Codec[T]", codec)
        else:
            raise validation.kind("codec", codec, "a type that msgspec knows, or an object with encode and decode")

    def encode(self, value: T) -> bytes:
        """The bytes of a payload. Raises InvalidValue for a value of another type."""
        what = f"payload of queue {self._queue}"
        if self._kind is not None and not isinstance(value, self._kind):
            name = "bytes" if self.plain else f"a {self._kind.__name__}"
            remedy = ", or name its type: bus.queue(…, codec=YourStruct)" if self.plain else ""
            raise validation.kind(what, value, name + remedy)
        try:
            return self._codec.encode(value)
        except Exception as error:  # of the codec
            raise InvalidValue(f"{what} cannot be written: {describe(error)}; give what its codec takes") from error

    def read(self, job: Job) -> TypedJob[T]:
        """The job with its payload read. Raises InvalidValue: a failure of the job, whose row keeps the bytes."""
        try:
            return TypedJob(self._codec.decode(job.payload), job)
        except Exception as error:  # of the codec
            raise InvalidValue(
                f"the payload of {job.id} in queue {self._queue} cannot be read: {describe(error)}; "
                "correct its producer or the type of this queue"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return Payloads, (self._queue, self._given)

    @staticmethod
    def _of_type(kind: type[T]) -> Codec[T]:
        try:
            return struct_codec(kind)
        except TypeError as error:
            raise InvalidValue(f"codec {kind.__name__} is no type that msgspec knows: {error}") from error


class ReadsOne(Generic[T]):
    """A plain handler whose job is read first. A class, so that a process can have it."""

    def __init__(self, payloads: Payloads[T], handler: Callable[[Any], Any]) -> None:
        self._payloads = payloads
        self._handler = handler

    def __call__(self, job: Job) -> Any:
        return self._handler(self._payloads.read(job))


class ReadsMany(Generic[T]):
    """The same for a plain handler of batches."""

    def __init__(self, payloads: Payloads[T], handler: Callable[[Any], Any]) -> None:
        self._payloads = payloads
        self._handler = handler

    def __call__(self, jobs: list[Job]) -> Any:
        return self._handler([self._payloads.read(job) for job in jobs])
