# SPDX-License-Identifier: Apache-2.0
"""What scripts/release makes: complete, the same each time, and of use to apt and to openssl."""
from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pawltest.gateway import PAWL, ROOT

BUILD = PAWL.resolve().parent
SOME_OBJECTS = "src/core/libpawl_core.a"
IN_GIT = subprocess.run(["git", "-C", str(ROOT), "rev-parse"], capture_output=True,
                        check=False).returncode == 0
pytestmark = pytest.mark.skipif(not IN_GIT, reason="a packed source makes no release")


def good(*command: str | Path, cwd: Path = ROOT) -> str:
    ran = subprocess.run([*map(str, command)], cwd=cwd, check=False, text=True, timeout=300,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "key.pem"
    good("openssl", "genpkey", "-algorithm", "ed25519", "-out", path)
    return path


def make(to: Path, key: Path) -> Path:
    good(ROOT / "scripts/release", "--trial", BUILD, "--key", key, "--to", to)
    return to


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory, key: Path) -> Path:
    return make(tmp_path_factory.mktemp("release") / "dist", key)


def test_the_same_commit_makes_the_same_bytes_and_takes_the_place_of_what_was_made(dist, key):
    before = digests(dist)
    assert digests(make(dist, key)) == before
    assert not dist.with_name("dist.partly").exists()


def test_every_file_has_its_sum_and_the_sums_have_a_signature(dist, key, tmp_path):
    told = dict(reversed(line.split("  ")) for line in
                (dist / "SHA256SUMS").read_text().splitlines())
    actual = digests(dist)
    assert {*actual} - {*told} == {"SHA256SUMS", "SHA256SUMS.sig"}
    assert told.items() <= actual.items()
    good("openssl", "pkey", "-in", key, "-pubout", "-out", tmp_path / "pawl.pub")
    good("openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", tmp_path / "pawl.pub",
         "-in", dist / "SHA256SUMS", "-sigfile", dist / "SHA256SUMS.sig")
    [provenance] = dist.glob("*.provenance.json")
    statement = json.loads(provenance.read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    said = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    assert {*actual} - {*said} == {"SHA256SUMS", "SHA256SUMS.sig", provenance.name}
    assert said.items() <= actual.items()
    assert statement["predicate"]["buildDefinition"]["internalParameters"] == {"trial": True}


def test_the_sbom_lists_every_library_that_the_package_needs(dist):
    [package] = dist.glob("*.deb")
    sbom = json.loads(package.with_name(package.name + ".spdx.json").read_text())
    assert sbom["spdxVersion"] == "SPDX-2.3"
    ids = [one["SPDXID"] for one in sbom["packages"]]
    assert len({*ids}) == len(ids)
    related = {one["relatedSpdxElement"]: one["relationshipType"] for one in sbom["relationships"]}
    assert related == {"SPDXRef-pawl": "DESCRIBES",
                       **{one: "DYNAMIC_LINK" for one in ids if one != "SPDXRef-pawl"}}
    libraries = {Path(path).resolve() for path in re.findall(r"=> (/\S+)", good("ldd", PAWL))}
    owners = {good("dpkg", "-S", f"*/{path.parent.name}/{path.name}").split(":")[0]
              for path in libraries}
    assert owners | {"libpq5", "libssl3"} <= {one["name"] for one in sbom["packages"]}
    assert all("purl" == one["externalRefs"][0]["referenceType"] for one in sbom["packages"]
               if one["name"] != "pawl")


def test_apt_installs_from_the_folder(dist, tmp_path):
    for name in ("lists/partial", "cache/archives/partial"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] file:{dist} ./\n")
    apt = ["apt-get", *(f"-o{name}={value}" for name, value in {
        "Dir::Etc::sourcelist": tmp_path / "sources.list", "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": tmp_path / "lists", "Dir::Cache": tmp_path / "cache",
        "Debug::NoLocking": "1", "APT::Sandbox::User": "root"}.items())]
    good(*apt, "update")
    assert re.search(r"^Inst pawl ", good(*apt, "--simulate", "install", "pawl"), re.M)


def test_the_packed_source_knows_what_it_is_and_its_objects_do_not_know_where(dist, tmp_path):
    """scripts/release compares two whole builds; these are some of their objects."""
    [packed] = dist.glob("*.tar.xz")
    made = []
    for folder in (tmp_path / "a", tmp_path / "another/folder"):
        folder.mkdir(parents=True)
        good("tar", "-xf", packed, "-C", folder)
        [source] = folder.iterdir()
        good("meson", "setup", "build", "--buildtype=plain", "-Dtests=false", cwd=source)
        good("ninja", "-C", "build", SOME_OBJECTS, cwd=source)
        made.append({str(path.relative_to(source)): path.read_bytes()
                     for path in source.glob("build/src/**/*.o")})
    assert made[0] == made[1] and len(made[0]) > 10
    said = good(ROOT / "scripts/version").split()
    assert good(source / "scripts/version").split() == said
    assert packed.name == f"pawl-{said[0]}.tar.xz"


def test_a_key_in_the_tree_and_a_folder_of_somebody_else_are_refused(tmp_path):
    (tmp_path / "theirs").touch()
    for options, word in ((["--key", ROOT / "VERSION"], "private key"),
                          (["--to", tmp_path], "not a folder that this made")):
        ran = subprocess.run([ROOT / "scripts/release", "--trial", BUILD, "--to", tmp_path / "no",
                              *options], capture_output=True, text=True, check=False)
        assert ran.returncode == 1 and word in ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_the_changelog_of_a_release_is_what_was_unreleased(tmp_path):
    (tmp_path / "scripts").mkdir()
    for name in ("VERSION", "CHANGELOG.md", "scripts/release"):
        shutil.copy2(ROOT / name, tmp_path / name)
    number = (ROOT / "VERSION").read_text().strip()
    (tmp_path / "CHANGELOG.md").write_text("# C\n\n## [Unreleased]\n\n### Added\n\n- a\n")
    command = [tmp_path / "scripts/release", "--changelog", "2030-01-02"]
    good(*command)
    assert (tmp_path / "CHANGELOG.md").read_text() == (
        f"# C\n\n## [Unreleased]\n\n## [{number}] - 2030-01-02\n\n### Added\n\n- a\n")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
