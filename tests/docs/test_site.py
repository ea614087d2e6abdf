# SPDX-License-Identifier: Apache-2.0
"""The site that scripts/site makes of the documents: all of them are in it, its links hold, it
wants nothing from elsewhere, its search finds, and a link that leads nowhere ends it."""
from __future__ import annotations

import json
import os
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", "CHANGELOG.md", "SECURITY.md",
             *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
# One page, with all that a document may have in it, and the index that leads to it.
TREE = {
    "README.md": "# pawl\n\nThe [guide](docs/guide/README.md), [code](src/base/a.c), "
                 "[a part](docs/guide/one.md#what-it-s).\n",
    "docs/guide/README.md": "# Guide\n\n1. [One](one.md)\n\n## Reference\n\n"
                            "[pawl](../../README.md)\n",
    "docs/guide/one.md": "# One\n\n## What it-s\n\n| a | b |\n|---|---|\n| `x \\| y`<br>z | 2 |\n\n"
                         "![A picture](../one.svg)\n\n```sh\n[no](link.md)\n```\n",
    "docs/one.svg": "<svg/>", "src/base/a.c": "",
}


def make(to: Path, tree: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(ROOT / "scripts/site"), "--from", str(tree), "--to", str(to)],
                          env={**os.environ, **environment}, capture_output=True, text=True,
                          timeout=120, check=False)


def plant(folder: Path, **changed: str) -> Path:
    for name, text in {**TREE, **changed}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


class Read(HTMLParser):
    def __init__(self, page: Path):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        has = dict(attrs)
        self.anchors |= {has["id"]} if "id" in has else set()
        if tag == "a":
            self.links.append(has["href"])
        elif "src" in has or tag == "link":
            self.loads.append(has.get("src") or has["href"])


@pytest.fixture(name="site", scope="module")
def made_site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    ran = make(folder)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"{folder}/index.html\n"
    return folder


@pytest.fixture(name="pages", scope="module")
def read_pages(site) -> dict[Path, Read]:
    return {path: Read(path) for path in site.rglob("*.html")}


def test_every_document_is_a_page(site):
    for name in DOCUMENTS:
        page = name.replace("README.md", "index.html").replace(".md", ".html")
        assert (site / page).is_file(), name


def test_its_links_and_anchors_hold(site, pages):
    assert sum(len(page.links) for page in pages.values()) > 3000
    for path, page in pages.items():
        for link in page.links + page.loads:
            if re.match(r"https?:", link) and link in page.links:
                continue
            target, _, anchor = link.partition("#")
            file = (path.parent / target).resolve() if target else path
            assert file.is_file() and site in file.parents, (path, link)
            assert not anchor or anchor in pages[file].anchors, (path, link)


def test_it_wants_nothing_from_elsewhere_and_is_light_and_dark(site):
    style = (site / "style.css").read_text()
    assert "prefers-color-scheme: dark" in style
    assert "url(" not in style and "@import" not in style
    code = (site / "search.js").read_text().partition("\nconst DATA")[2].partition("\n")[2]
    assert "fetch" not in code and "import" not in code and "http" not in code


@pytest.mark.parametrize("query, page", [
    ("backup", "docs/guide/backup-and-restore.html"), ("payload mism", "docs/"),
    ("probe_status", "docs/config-reference.html"), ("Idempotency-Key.", ""),
    ("runbook dead", "docs/guide/runbook.html")])
def test_its_search_finds(site, query, page):
    ran = subprocess.run(
        ["node", "-e", "console.log(JSON.stringify(require(process.argv[1])(process.argv[2])))",
         str(site / "search.js"), query], capture_output=True, text=True, timeout=30, check=True)
    found = json.loads(ran.stdout)
    assert 0 < len(found) <= 20
    assert found[0]["url"].startswith(page)
    assert all((site / each["url"].partition("#")[0]).is_file() for each in found)


def test_the_same_documents_make_the_same_bytes_and_replace_what_was_there(tmp_path):
    tree = plant(tmp_path / "tree")
    assert make(tmp_path / "one", tree, PYTHONHASHSEED="1").returncode == 0
    assert make(tmp_path / "two", tree, PYTHONHASHSEED="2").returncode == 0
    (tmp_path / "two/old.html").write_text("")
    assert make(tmp_path / "two", tree, PYTHONHASHSEED="3").returncode == 0
    assert below(tmp_path / "one") == below(tmp_path / "two")
    page = (tmp_path / "one/docs/guide/one.html").read_text()
    assert "<code>x | y</code><br>z" in page and "[no](link.md)" in page
    front = (tmp_path / "one/index.html").read_text()
    assert 'href="docs/guide/one.html#what-it-s"' in front and ", code, " in front


@pytest.mark.parametrize("name, text, complaint", [
    ("README.md", "# pawl\n\nOne\n\n[two](docs/two.md)\n", "README.md:5: no file 'docs/two.md'"),
    ("README.md", "# pawl\n\n[out](../../etc/passwd)\n", "README.md:3: no file '../../etc/passwd'"),
    ("README.md", "# pawl\n\n[one](docs/guide/one.md#two)\n",
     "README.md:3: no heading 'two' in docs/guide/one.md"),
    ("README.md", "# pawl\n\n![far](https://example.com/a.png)\n",
     "README.md:3: a picture from elsewhere: https://example.com/a.png"),
    ("README.md", "# pawl\n\na <tenant> here\n", "README.md:3: HTML: <tenant>"),
    ("docs/two.md", "# Two\n", "docs/guide/README.md:1: does not lead to docs/two.md"),
    ("docs/guide/one.md", "None\n", "docs/guide/one.md:1: does not begin with a heading")])
def test_what_is_wrong_is_said_with_its_place_and_nothing_is_made(tmp_path, name, text, complaint):
    ran = make(tmp_path / "site", plant(tmp_path / "tree", **{name: text}))
    assert ran.returncode == 1
    assert ran.stderr == complaint + "\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tree"]


def test_a_folder_that_is_no_site_is_left_alone(tmp_path):
    kept = plant(tmp_path / "kept")
    ran = make(kept, plant(tmp_path / "tree"))
    assert ran.returncode == 1 and "no site" in ran.stderr
    assert below(kept).keys() == TREE.keys()
