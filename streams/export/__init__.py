"""A log as a directory: closed ranges of events and facts in files that are checked, read without a broker, and imported again."""

from streams.export.directory import ExportWriter
from streams.export.errors import BeginsLater, DamagedExport, NotAnExport, NotExported, ReadOnlyLog, UnlikeExport
from streams.export.export_log import ExportLog
from streams.export.manifest import Manifest, Segment, Span, read_manifest

__all__ = [
    "BeginsLater",
    "DamagedExport",
    "ExportLog",
    "ExportWriter",
    "Manifest",
    "NotAnExport",
    "NotExported",
    "ReadOnlyLog",
    "Segment",
    "Span",
    "UnlikeExport",
    "read_manifest",
]
