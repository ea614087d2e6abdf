# SPDX-License-Identifier: Apache-2.0
"""The pictures in docs/pictures are what scripts/pictures draws, can be read in light and in dark,
and each is shown, with a text for those who do not see it."""
from __future__ import annotations

import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
PICTURES = sorted((ROOT / "docs/pictures").iterdir())
SCRIPT = ROOT / "scripts/pictures"
SHOWN = re.compile(r"!\[([^\]]*)\]\(([^)\s]+\.svg)\)")


@pytest.fixture(name="pictures", scope="module")
def loaded_script() -> ModuleType:
    loader = SourceFileLoader("pictures", str(SCRIPT))
    module = module_from_spec(spec_from_loader("pictures", loader))
    sys.modules["pictures"] = module
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def test_the_pictures_are_what_the_script_draws(tmp_path):
    subprocess.run([str(SCRIPT), "--to", str(tmp_path)], check=True, timeout=30)
    drawn = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_text("utf-8") for path in PICTURES}


def test_every_picture_is_shown_with_a_text_in_its_place():
    shown = {(path.parent / name).resolve(): text for path in
             [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
             for text, name in SHOWN.findall(path.read_text("utf-8"))}
    assert set(shown) == set(PICTURES)
    assert all(len(text) > 40 for text in shown.values())


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_has_a_title_and_a_colour_by_light_and_by_dark_for_all_it_draws(path):
    picture = ElementTree.parse(path).getroot()
    tag = "{http://www.w3.org/2000/svg}"
    assert picture.find(f"{tag}title").text
    style = picture.find(f"{tag}style").text
    light, _, dark = style.partition("@media (prefers-color-scheme: dark)")
    used = {part.get("class") for part in picture.iter() if part.get("class")}
    for sheet in (light, dark):
        assert used <= set(re.findall(r"\.(\w+) \{", sheet))
    drawn = [part for part in picture.iter() if part.tag.removeprefix(tag) in
             ("rect", "path", "circle", "text")]
    assert len(drawn) > 20 and all(part.get("class") for part in drawn)


def test_a_text_that_leaves_its_box_or_meets_another_is_an_error(pictures):
    picture = pictures.Picture(200, 100, "a test")
    with pytest.raises(ValueError, match="takes"):
        picture.box("box", (10, 10, 60, 30), ["far too wide for its box"])
    with pytest.raises(ValueError, match="too high"):
        picture.box("box", (10, 10, 180, 30), ["one", "two", "three"])
    picture = pictures.Picture(200, 100, "a test")
    picture.text(100, 50, "here")
    picture.svg()
    picture.text(104, 55, "there")
    with pytest.raises(ValueError, match="meets"):
        picture.svg()
    picture = pictures.Picture(200, 100, "a test")
    picture.text(195, 50, "over the edge")
    with pytest.raises(ValueError, match="leaves"):
        picture.svg()
