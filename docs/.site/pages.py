"""mkdocs hook: adds documents outside of `docs/` to the site and checks links to source files.

In the repository, documents link to each other and to source files by relative paths. On the site,
links to documents lead to their pages; a link to any other file is shown as its text. A link to a
file or folder that does not exist is a warning, which fails `make docs`.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

logger = logging.getLogger("mkdocs.pages")
ROOT = Path(__file__).parents[2]
PAGES_OUTSIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "compat/README.md": "compat-suite.md",
    "compat/known_differences.md": "known-differences.md",
    "examples/fleet/README.md": "fleet.md",
    "examples/speed_guard/README.md": "speed-guard.md",
}
IMAGES_OUTSIDE = {"examples/fleet/page.jpg": "page.jpg"}
REPOSITORY_PATHS = {page: path for path, page in PAGES_OUTSIDE.items()}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replaces a folder in the navigation by its pages."""
    for section in config.nav or []:
        for entries in section.values():
            if isinstance(entries, list):
                for entry in entries:
                    expand(entry)
    return config


def expand(entry: str | dict[str, object]) -> None:
    if isinstance(entry, dict):
        for title, value in entry.items():
            if isinstance(value, str) and value.endswith("/"):
                pages = sorted((ROOT / "docs" / value).glob("*.md"))
                entry[title] = [str(it.relative_to(ROOT / "docs")) for it in pages]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, page in PAGES_OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text("utf-8")))
    for path, image in IMAGES_OUTSIDE.items():
        files.append(File.generated(config, image, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    del config, files
    source = page.file.src_uri
    path = REPOSITORY_PATHS.get(source, f"docs/{source}")
    parts = CODE_BLOCK.split(markdown)
    parts[::2] = [LINK.sub(lambda link: resolved(link, source, path), part) for part in parts[::2]]
    return "".join(parts)


def resolved(link: re.Match[str], source: str, path: str) -> str:
    """Returns the link for the site. The page is `source` on the site, `path` in the repository."""
    text, target = link.groups()
    file, _, anchor = target.partition("#")
    if not file or "://" in target or target.startswith("mailto:"):
        return link.group(0)
    found = normpath(f"{dirname(path)}/{file}").lstrip("/")
    page = PAGES_OUTSIDE.get(found) or (found[5:] if found.startswith("docs/") else None)
    if page and page.endswith(".md"):
        here = relpath(page, dirname(source) or ".")
        return f"[{text}]({here}{'#' + anchor if anchor else ''})"
    if not (ROOT / found).exists():
        logger.warning("%s: link to %s, which does not exist", path, target)
    return text
