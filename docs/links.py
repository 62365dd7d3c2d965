"""Check that whatever the built pages link to on this site is there.

Sphinx checks references while it builds; this looks at what came out: pages, anchors,
pictures, downloads. Addresses elsewhere are for ``sphinx -b linkcheck``.
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
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        self.links |= {given[name] for name in ATTRIBUTES if given.get(name)}


parsed = cache(_Page)


def broken(root):
    """Yield each page with a link that leads nowhere."""
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
    """Say what is broken; the exit code is how a build learns of it."""
    root = Path(folder)
    found = list(broken(root))
    for path, link in found:
        print(f"{path.relative_to(root)}: {link} leads nowhere", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
