from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Digest(_message.Message):
    __slots__ = ("hash", "size_bytes")
    HASH_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    hash: bytes
    size_bytes: int
    def __init__(self, hash: _Optional[bytes] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class Digests(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Digest]
    def __init__(self, items: _Optional[_Iterable[_Union[Digest, _Mapping]]] = ...) -> None: ...

class Holding(_message.Message):
    __slots__ = ("endpoint", "bytes")
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    endpoint: str
    bytes: int
    def __init__(self, endpoint: _Optional[str] = ..., bytes: _Optional[int] = ...) -> None: ...

class Property(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Requirements(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Property]
    def __init__(self, items: _Optional[_Iterable[_Union[Property, _Mapping]]] = ...) -> None: ...

class EnvironmentVariable(_message.Message):
    __slots__ = ("name", "value", "secret")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    secret: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., secret: _Optional[str] = ...) -> None: ...

class Input(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: Digest
    def __init__(self, digest: _Optional[_Union[Digest, _Mapping]] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("argv", "env", "inputs")
    ARGV_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    argv: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.RepeatedCompositeFieldContainer[EnvironmentVariable]
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    def __init__(self, argv: _Optional[_Iterable[str]] = ..., env: _Optional[_Iterable[_Union[EnvironmentVariable, _Mapping]]] = ..., inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ...) -> None: ...

class ResourceUsage(_message.Message):
    __slots__ = ("wall_us", "cpu_us", "peak_memory_kib")
    WALL_US_FIELD_NUMBER: _ClassVar[int]
    CPU_US_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_KIB_FIELD_NUMBER: _ClassVar[int]
    wall_us: int
    cpu_us: int
    peak_memory_kib: int
    def __init__(self, wall_us: _Optional[int] = ..., cpu_us: _Optional[int] = ..., peak_memory_kib: _Optional[int] = ...) -> None: ...
