"""A log as a directory: closed ranges of events and facts in files that are checked, read without a broker, and imported again.

* `manifest` says which log it is of and what each file holds; `segments` are records to bytes and back; `directory` writes both.
* `export_log` reads a directory as a log; `folded` answers the views from it.
* `exporting` copies ranges of a log into a directory; `generation` begins a new log from one.
* `parquet` writes the history as tables.
"""

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
