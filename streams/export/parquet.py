"""The flat tables of a log as Parquet files, one a table, by pyarrow: an extra that few need."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, ClassVar, Final

from projections.tables import TABLES, Column, Row, Tabulation
from streams.errors import StreamError
from streams.event_tail import EventOrder
from streams.export.exporting import Progress
from streams.log import Log, Partition, bounds, records_between
from streams.topics import EVENTS

ROW_GROUP: Final = 50_000


class ParquetMissing(StreamError):
    """pyarrow is not installed."""

    code: ClassVar[str] = "parquet-missing"
    runbook: ClassVar[str] = "Parquet files need an extra: install headway[parquet] where `headway export tables` runs."

    def __init__(self) -> None:
        super().__init__(
            "Parquet files are written by pyarrow, which is not installed here",
            remedy="Install it with `pip install 'headway[parquet]'`",
        )


class ParquetFiles:
    """`<directory>/<table>.parquet` for every table, each in place once all are whole. Used as a context manager.

    Raises ParquetMissing.
    """

    def __init__(self, directory: Path) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise ParquetMissing from error
        self._arrow = pyarrow
        self._directory = directory
        self.rows: dict[str, int] = dict.fromkeys(TABLES, 0)
        self._pending: dict[str, list[Row]] = {name: [] for name in TABLES}
        directory.mkdir(parents=True, exist_ok=True)
        types = {
            "int": pyarrow.int64(),
            "text": pyarrow.string(),
            "bool": pyarrow.bool_(),
            "time": pyarrow.timestamp("us", tz="UTC"),
            "pairs": pyarrow.map_(pyarrow.string(), pyarrow.string()),
        }
        self._schemas = {
            name: pyarrow.schema([_field(pyarrow, column, types) for column in columns])
            for name, columns in TABLES.items()
        }
        self._writers = {
            name: pyarrow.parquet.ParquetWriter(self._beside(name), schema, compression="zstd")
            for name, schema in self._schemas.items()
        }

    def __enter__(self) -> ParquetFiles:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            for name in TABLES:
                self._flush(name)
        for writer in self._writers.values():
            writer.close()
        for name in TABLES:
            if kind is None:
                os.replace(self._beside(name), self._directory / f"{name}.parquet")
            else:
                self._beside(name).unlink(missing_ok=True)

    def add(self, table: str, row: Row) -> None:
        """Add a row; a column it does not have is null."""
        pending = self._pending[table]
        pending.append(row)
        if len(pending) == ROW_GROUP:
            self._flush(table)

    def _flush(self, table: str) -> None:
        pending, schema = self._pending[table], self._schemas[table]
        if not pending:
            return
        columns = [
            self._arrow.array([row.get(name) for row in pending], type=kind)
            for name, kind in zip(schema.names, schema.types, strict=True)
        ]
        self._writers[table].write_table(self._arrow.Table.from_arrays(columns, schema=schema))
        self.rows[table] += len(pending)
        pending.clear()

    def _beside(self, table: str) -> Path:
        return self._directory / f"{table}.parquet.part"


def _field(pyarrow: Any, column: Column, types: dict[str, Any]) -> Any:
    return pyarrow.field(column.name, types[column.kind], metadata={"meaning": column.meaning})


async def export_tables(
    log: Log, directory: Path, shards: Sequence[int], *, progress: Progress = lambda count: None
) -> dict[str, int]:
    """Write the tables of these shards, folded from their first event; returns how many rows each table has.

    Raises:
        ParquetMissing: pyarrow is not installed.
        DamagedLog: the events do not follow on each other. No file is put in place.
        LogUnavailable, NoSuchTopic, NoSuchPartition: as everywhere.
    """
    with ParquetFiles(directory) as files:
        for shard in shards:
            at: Partition = (EVENTS, shard)
            order, tabulation = EventOrder(at, from_first=True), Tabulation(shard, files.add)
            async with aclosing(records_between(log, at, *await bounds(log, at))) as batches:
                async for batch in batches:
                    for record in batch:
                        event = order.next(record)
                        if event is not None:
                            tabulation.take(event)
                    progress(len(batch))
            tabulation.finish()
    return files.rows
