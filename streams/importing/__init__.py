"""Configurations of other schedulers, read into ours."""

from streams.importing.expansion import Environment
from streams.importing.nativelink import NOT_APPLICABLE, Imported, Note, Upstream, import_nativelink

__all__ = ["NOT_APPLICABLE", "Environment", "Imported", "Note", "Upstream", "import_nativelink"]
