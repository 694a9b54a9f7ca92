"""A local Google Cloud Storage: gcp-storage-emulator, whose bucket ``models`` holds the exports."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from gcp_storage_emulator.server import create_server

BUCKET = "models"


class GoogleStorage:
    """The emulator, in memory."""

    def __init__(self) -> None:
        self._server = create_server("127.0.0.1", 0, in_memory=True, default_bucket=BUCKET)

    def __enter__(self) -> GoogleStorage:
        self._server.start()
        host, port = self._server._api._httpd.server_address
        self.url = f"http://{host}:{port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which gcsfs asks this server; it needs no credentials then."""
        return {"STORAGE_EMULATOR_HOST": self.url, "NO_PROXY": "127.0.0.1,localhost"}

    def add(self, prefix: str, files: Path) -> None:
        """Upload a directory."""
        from gcsfs.core import GCSFileSystem

        system = GCSFileSystem(token="anon", endpoint_url=self.url, skip_instance_cache=True)
        for path in sorted(files.iterdir()):
            system.pipe_file(f"{BUCKET}/{prefix}{path.name}", path.read_bytes())
