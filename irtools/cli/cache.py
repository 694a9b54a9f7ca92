"""``irtools cache``: show the cache of exports at a URL, clear it, or set its limit."""

from __future__ import annotations

import click

from irtools.cli.common import Ui, output_options, write_stdout
from irtools.cli.sizes import Bytes
from irtools.errors import ExportError

__all__ = ["command"]


@click.command("cache")
@click.argument("urls", metavar="[URL]...", nargs=-1)
@click.option("--clear", is_flag=True, help="Remove the exports, or everything if no URL is given.")
@click.option("--limit", type=Bytes(), help="Maximum size of the cache from now on.  [default: 5GiB]")
@output_options()
def command(urls: tuple[str, ...], clear: bool, limit: int | None, ui: Ui) -> int:
    """Show, clear or limit the cache of exports at a URL.

    The cache has complete XML, JSON and template files, and a few ranges of weights. URLs are those of repositories
    or folders: hf://org/name means all its revisions. When the cache is above its limit, the least recently used
    exports are removed.
    """
    from irtools.remote import cache
    from irtools.report.cache import cache_details, cache_text
    from irtools.report.json import envelope, to_json
    from irtools.text import plural, size_text

    if limit is not None:
        cache.set_limit(limit)
    found = [one for one in cache.cached() if not urls or any(_is_of(one.url, url) for url in urls)]
    missing = [url for url in urls if not any(_is_of(one.url, url) for one in found)]
    if missing:
        raise ExportError(f"the cache does not have {missing[0]}; `irtools cache` shows what it has")
    freed = cache.clear(found, all_=not urls) if clear else None
    if ui.format == "json":
        details = cache_details(found, cache.limit(), cache.cache_folder(), freed)
        write_stdout(to_json({**envelope("cache", ()), **details}), "json")
    elif freed is not None:
        ui.note(f"removed {plural(len(found), 'export')}, {size_text(freed)}")
    elif not ui.quiet:
        ui.result(cache_text(found, cache.limit(), cache.cache_folder(), ui.style))
    return 0


def _is_of(root: str, url: str) -> bool:
    """True if a root is that of a URL, or another revision of it, or a folder below it."""
    url = url.rstrip("/")
    return root == url or root.startswith((f"{url}@", f"{url}/"))
