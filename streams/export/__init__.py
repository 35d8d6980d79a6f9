"""A log as a directory: closed ranges of events and facts in files that are checked, read without a broker, and imported again."""

from streams.export.directory import ExportWriter
from streams.export.errors import (
    BeginsLater,
    DamagedExport,
    ExportBusy,
    NotAnExport,
    NotEmpty,
    NotExported,
    OutsideLog,
    ReadOnlyLog,
    UnlikeExport,
)
from streams.export.export_log import ExportLog
from streams.export.manifest import Manifest, Segment, Span, read_manifest

__all__ = [
    "BeginsLater",
    "DamagedExport",
    "ExportBusy",
    "ExportLog",
    "ExportWriter",
    "Manifest",
    "NotAnExport",
    "NotEmpty",
    "NotExported",
    "OutsideLog",
    "ReadOnlyLog",
    "Segment",
    "Span",
    "UnlikeExport",
    "read_manifest",
]
