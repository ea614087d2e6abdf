# SPDX-License-Identifier: Apache-2.0
"""Libraries that are loaded when something needs them: where one is missing, its name is said, and
what does not need it goes on."""
from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pawltest.gateway import PAWL

pytestmark = pytest.mark.file_only

# Linked in front, it lacks the library that $LACKS names.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
void *dlopen(const char *name, int flags)
{
    void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    const char *lacking = getenv("LACKS");
    return name && lacking && strcmp(name, lacking) == 0 ? NULL : next(name, flags);
}
"""
CONFIG = """
listen: 127.0.0.1:0
upstream: https://127.0.0.1:1
store: sqlite:{store}
tenant: none
rules:
  - name: a
    match: POST /x
    unknown: hold
"""
OPENSSL = "apt install libssl3"


@pytest.fixture(scope="module")
def shim(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "shim.so", folder / "shim.c"],
                   check=True)
    return folder / "shim.so"


def run(shim: Path, folder: Path, lacks: str, *words: str, given: str = ""
        ) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PAWL.resolve(), *words], cwd=folder, input=given, text=True,
                          capture_output=True, check=False, timeout=60,
                          env={**os.environ, "LD_PRELOAD": str(shim), "LACKS": lacks,
                               "PAWL_STORE": str(folder / "store.db")})


@pytest.mark.parametrize("words", [
    ["send", "https://127.0.0.1:1/", "-d", "x"],
    ["each", "--key", "{}", "--send", "POST https://127.0.0.1:1/"],
    ["webhook", "sign", "--secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "--id", "a",
     "--timestamp", "1"],
    ["serve", "-c", "pawl.yaml"],
], ids=lambda words: words[0])
def test_what_needs_openssl_names_it_where_it_is_missing(shim, tmp_path, words):
    (tmp_path / "pawl.yaml").write_text(CONFIG.format(store=tmp_path / "gateway.db"))
    ran = run(shim, tmp_path, "libssl.so.3", *words, given="a\n")
    assert ran.returncode != 0 and OPENSSL in ran.stderr, ran


def test_what_signs_and_sends_nothing_needs_no_openssl(shim, tmp_path):
    for _ in range(2):
        ran = run(shim, tmp_path, "libssl.so.3", "run", "--key", "a", "--", "echo", "fine")
        assert (ran.returncode, ran.stdout) == (0, "fine\n"), ran


def test_what_needs_libpq_names_it_where_it_is_missing(shim, tmp_path):
    ran = run(shim, tmp_path, "libpq.so.5", "keys", "list", "--store", "postgres://127.0.0.1:1/x")
    assert ran.returncode == 69 and "apt install libpq5" in ran.stderr
