"""The rows of a reader, in an object that has one: what the changes of a server and of a net share."""

from __future__ import annotations

import os
from typing import Any, Literal

from walrow._core import Reader
from walrow.typing import UnresolvedType


class AroundReader:
    """An object with the ways of a `walrow.Reader` to return its rows."""

    _reader: Reader

    def _all(self) -> Reader:
        """The reader, for a caller that takes all rows."""
        return self._reader

    def _uncounted(self) -> Reader:
        """The reader, for a caller that takes batches from it directly."""
        return self._reader

    @property
    def unresolved_types(self) -> list[UnresolvedType]:
        """See `walrow.Reader`. A live server may have new types since the catalog was read."""
        return self._reader.unresolved_types

    @property
    def nulled(self) -> dict[str, int]:
        """See `walrow.Reader`."""
        return self._reader.nulled

    @property
    def dropped_lower_bounds(self) -> dict[str, int]:
        """See `walrow.Reader`."""
        return self._reader.dropped_lower_bounds

    def to_pyarrow(self) -> Any:
        """Waits for all rows, and returns them as `walrow.Reader.to_pyarrow` does."""
        return self._all().to_pyarrow()

    def to_pandas(
        self,
        *,
        dtype_backend: Literal["pyarrow", "numpy"] = "pyarrow",
        decimals: Literal["exact", "float"] = "exact",
    ) -> Any:
        """Waits for all rows, and returns them as `walrow.Reader.to_pandas` does."""
        return self._all().to_pandas(dtype_backend=dtype_backend, decimals=decimals)

    def to_parquet(self, path: str | os.PathLike[str]) -> int:
        """Waits for all rows, and writes them as `walrow.Reader.to_parquet` does."""
        return self._all().to_parquet(path)

    def to_polars(self) -> Any:
        """Waits for all rows, and returns them as `walrow.Reader.to_polars` does."""
        return self._all().to_polars()

    def to_duckdb(self, connection: Any = None) -> Any:
        """Waits for all rows, and returns them as `walrow.Reader.to_duckdb` does."""
        return self._all().to_duckdb(connection)

    def __arrow_c_schema__(self) -> object:
        """Exports the schema, for Arrow consumers. Changes need `table` or `envelope`."""
        return self._reader.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Exports the batches, for Arrow consumers. Ignores a requested schema."""
        return self._uncounted().__arrow_c_stream__(requested_schema)
