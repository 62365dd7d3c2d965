"""Check that every internal link of the built pages has a target.

Sphinx checks references while it builds; this checks the output: pages, anchors,
images and downloads. External addresses are for ``sphinx -b linkcheck``.
"""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ATTRIBUTES = ("href", "src")


class _Page(HTMLParser):
    """The links and anchors of one page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        self.links |= {values[name] for name in ATTRIBUTES if values.get(name)}


parsed = cache(_Page)


def broken(root):
    """Yield each page together with a broken link on it."""
    for path in sorted(root.rglob("*.html")):
        if "_static" in path.parts:
            continue
        for link in sorted(parsed(path).links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path.parent / unquote(parts.path) if parts.path else path
            if not target.exists():
                yield path, link
            elif parts.fragment and target.suffix == ".html":
                if unquote(parts.fragment) not in parsed(target.resolve()).anchors:
                    yield path, link


def main(folder):
    """Print the broken links; return 1 if there are any."""
    root = Path(folder)
    broken_links = list(broken(root))
    for path, link in broken_links:
        print(f"{path.relative_to(root)}: {link} has no target", file=sys.stderr)
    return 1 if broken_links else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
