# SPDX-License-Identifier: Apache-2.0
"""scripts/lint finds what it says it finds, and leaves good code alone."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

LINT = Path(__file__).resolve().parents[2] / "scripts" / "lint"
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"
ARCHITECTURE = """
## Folders, and who may include whom
| folder | holds | may include |
|---|---|---|
| `src/base` | bytes | libc, zlib |
| `src/core` | decisions | base |
| `src/shell` | values | base, and the header `core/rule.h` |
| `src/cli` | doors | anything |
## One owner for each foreign header
| header | included only by |
|---|---|
| `sqlite3.h` | `src/base/store*` |
| `base/inner.h` | `src/base/*` |
## Where a change goes
| change | files |
|---|---|
| bytes | `src/base/bytes.h`, `base/bytes.c` |
"""
FOR_TESTS = """
## Exports that only tests call
| export | why |
|---|---|
| `bytes_made` | bytes without a source |
"""
GOOD = {
    "ARCHITECTURE.md": ARCHITECTURE,
    "CONTRIBUTING.md": "checked since `00000000`",
    "docs/decisions/README.md": "[0001](0001-fibers-and-parking.md)\n[0002](0002-committer.md)\n",
    "docs/decisions/0001-fibers-and-parking.md": "a\n",
    "docs/decisions/0002-committer.md": "b\n",
    "src/base/bytes.h": SPDX + """
/* How many bytes. */
int bytes_count(int first, void (*each)(int a, int b), ...) __attribute__((format(printf, 1, 2)));
int bytes_sum(int first);

struct bytes {
    int (*read)(int a, int b, int c, int d, int e, int f); /* not a function */
};
void bytes_free(struct bytes *bytes);
""",
    "src/base/bytes.c": SPDX + """#include "base/bytes.h"
#include <string.h>

/* strcpy(a, b), malloc(1) and { in a comment */
static const char *text = "strcpy(a, b) {";

int bytes_sum(int first)
{
    object.free(object->malloc(first));
    return first + mem_free(text);
}
""",
    "src/cli/main.c": SPDX + """#include "base/bytes.h"
#include "core/rule.h"

int main(void)
{
    return bytes_sum(1);
}
""",
    "src/core/rule.h": SPDX + '#include "base/bytes.h"\n#include "core/set.h"\n',
    "src/core/set.h": SPDX,
    "src/core/key.h": SPDX,
    "src/shell/shell.c": SPDX + '#include "core/rule.h"\n',
}
ASSERTED = """
## Assertions
| folder | beliefs a hundred exports |
|---|---|
| `src/base` | {} |
"""
LONG = "    first++;\n"
SUM = GOOD["src/base/bytes.c"]
MADE = SUM + "int bytes_made(void)\n{\n}\n"


def body_of(lines: int) -> str:
    return SPDX + "int bytes_long(int first)\n{\n" + LONG * (lines - 2) + "}\n"


BAD = [
    ("layers", "src/base/bytes.c", SPDX + '#include "core/rule.h"\n', "base may not include core"),
    ("layers", "src/base/bytes.c", SPDX + '#include "bytes.h"\n', "is not a path from src/"),
    ("layers", "src/shell/shell.c", SPDX + '#include "core/rule.h"\n#include "core/key.h"\n',
     "shell may not include core"),
    ("layers", "src/new/bytes.c", SPDX, "folder new is not in"),
    ("layers", "ARCHITECTURE.md", "# nothing\n", "no table"),
    ("include-cycles", "src/base/bytes.h", SPDX + '#include "base/bytes.h"\n', "include cycle"),
    ("include-cycles", "src/base/bytes.h", SPDX + '#include "core/rule.h"\n', "include cycle"),
    ("module-cycles", "src/core/set.c", SPDX + '#include "core/rule.h"\n',
     "include cycle: src/core/rule -> src/core/set -> src/core/rule"),
    ("header-owners", "src/base/bytes.c", SPDX + "#include <sqlite3.h>\n", "sqlite3.h belongs to"),
    ("header-owners", "src/base/bytes.c", SPDX + "#include <curl/curl.h>\n", "has no owner"),
    ("header-owners", "src/cli/main.c", SPDX + '#include "base/inner.h"\n', "belongs to"),
    ("function-length", "src/base/bytes.c", body_of(71), "bytes_long has 71 lines"),
    ("parameters", "src/base/bytes.c", SPDX + "int f(int a, int b, int c, int d, int e, int f)\n"
     "{\n}\n", "f takes 6 parameters"),
    ("parameters", "src/base/bytes.h", SPDX + "/* x */\nint f(int a, int b, int c, int d, int e,\n"
     "      int f);\n", "f takes 6 parameters"),
    ("file-length", "src/base/bytes.c", SPDX + "\n" * 600, "601 lines"),
    ("columns", "src/base/bytes.c", SPDX + "/*" + "x" * 99 + "\n", "101 columns"),
    ("licence", "src/base/bytes.c", "int a;\n", "no SPDX line"),
    ("licence", "scripts/run", "#!/bin/sh\ntrue\n", "no SPDX line"),
    ("promises", "src/base/bytes.c", SPDX + "/* TO" "DO: later */\n", "later"),
    ("documented-headers", "src/base/bytes.h", SPDX + "/* a */\nint a(void);\n\nint b(void);\n",
     "b has no comment above"),
    ("documented-headers", "src/base/bytes.h", SPDX.strip() + "\n/* a */\nint a(void);\n\n"
     "int b(void);\n", "b has no comment above"),
    ("true-comments", "src/base/bytes.c", SPDX + "/*\n * bytes_sum(), bytes_gone() */\n",
     "src/base/bytes.c:3: the comment names bytes_gone, which is nowhere"),
    ("dialect", "src/base/bytes.c", SPDX + "bool a = b == NULL;\n", "compares with NULL"),
    ("dialect", "src/base/bytes.c", SPDX + "int a = sizeof(*b);\n", "in parentheses"),
    ("predicates", "src/base/bytes.c", SPDX + "bool a_is_b(const int *c, int *d);\n",
     "a_is_b may change int *d"),
    ("banned-calls", "src/base/bytes.c", SPDX + "int a = atoi (b);\n", "atoi()"),
    ("allocation", "src/base/bytes.c", SPDX + "void *a = (char *)malloc(1);\n", "malloc()"),
    ("allocation", "src/core/rule.c", SPDX + "void a(void)\n{\n    free(b);\n}\n", "free()"),
    ("assertions", "ARCHITECTURE.md", ARCHITECTURE + ASSERTED.format(200),
     "src/base asserts 0 beliefs in 1 exported functions, and wants 200"),
    ("assertions", "ARCHITECTURE.md", ARCHITECTURE + ASSERTED.format(1).replace("base", "gone"),
     "src/gone asserts 0 beliefs in 0 exported functions"),
    ("homes", "src/base/bytes.c", MADE, "bytes_made is not declared in its own header"),
    ("homes", "src/base/bytes.c", SUM + "int bytes_table[] = {1};\n",
     "bytes_table is not declared in its own header"),
    ("homes", "src/base/made.c", SPDX + "int bytes_sum(int first)\n{\n}\n",
     "bytes_sum is not declared in its own header"),
    ("exports", "src/base/bytes.c", MADE, "bytes_made: nobody uses it"),
    ("exports", "src/base/bytes.c", SUM + "struct table bytes_table[N] = {{1, f(2)}};\n",
     "bytes_table: nobody uses it"),
    ("exports", "src/base/bytes.c", MADE + "static int a(void)\n{\n    bytes_made();\n}\n",
     "bytes_made: used in this file alone: make it static"),
    ("exports", "ARCHITECTURE.md", ARCHITECTURE + FOR_TESTS, "bytes_made does not exist"),
    ("exports", "ARCHITECTURE.md", ARCHITECTURE + FOR_TESTS.replace("made", "sum"),
     "bytes_sum is not for tests alone"),
    ("own-names", "src/core/set.c", SPDX + "static int bytes_sum(int first)\n{\n}\n",
     "bytes_sum is a function of src/base/bytes.c, too"),
    ("own-names", "src/core/set.c", SPDX + "static int sum(int first)\n{\n}\n", "sum is one word"),
    ("names", "src/base/string_utils.c", SPDX, "string_utils says nothing"),
    ("where-a-change-goes", "ARCHITECTURE.md", ARCHITECTURE.replace("bytes.c", "gone.c"),
     "base/gone.c does not exist"),
    ("decisions", "docs/decisions/README.md",
     "[0002](0002-committer.md)\n[0001](0001-fibers-and-parking.md)\n",
     "names 0002-committer.md where 0001-fibers-and-parking.md comes next"),
    ("decisions", "docs/decisions/README.md", "[0001](0001-fibers-and-parking.md)\n",
     "names None where 0002-committer.md comes next"),
    ("subjects", "CONTRIBUTING.md", "# Contributing\n", "does not say"),
    ("clang-format", "src/base/bytes.c", SPDX + "int  a ;\n", "clang-format would change this"),
]
FINE = [
    ("function-length", "src/base/bytes.c", body_of(70)),
    ("file-length", "src/base/bytes.c", SPDX + "\n" * 599),
    ("columns", "src/base/bytes.c", SPDX + "x" * 100 + "\n"),
    ("header-owners", "src/base/store_rows.c", SPDX + "#include <sqlite3.h>\n"),
    ("promises", "src/base/bytes.c", SPDX + "/* TO" "DO (#12): later */\n"),
    ("allocation", "src/base/mem.c", SPDX + "void *a = malloc(1);\n"),
    ("homes", "src/base/bytes_sum.c", SUM),
    ("true-comments", "src/base/bytes.c", SUM + "/* bytes_sum(a); bytes_gone(3) */\n"),
    ("documented-headers", "src/base/bytes.h", SPDX + "/* both */\nint a(void);\nint b(void);\n"),
]


TESTED = {"src/base/bytes.c": MADE, "tests/unit/made.c": SPDX + "int a = bytes_made();\n"}
HOOKED = "#ifdef PAWL_HOOKS\nint bytes_made(void);\n#endif\n"


def lint(root: Path, *arguments: str) -> tuple[int, str]:
    ran = subprocess.run([LINT, "--root", root, *arguments], capture_output=True, text=True)
    return ran.returncode, ran.stdout + ran.stderr


@pytest.fixture
def tree(tmp_path):
    shutil.copy(LINT.parents[1] / ".clang-format", tmp_path)
    for path, text in GOOD.items():
        put(tmp_path, path, text)
    return tmp_path


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_good_code_passes_every_rule_but_the_look(tree):
    rules = sorted({case[0] for case in BAD} - {"clang-format"})
    status, printed = lint(tree, *rules)
    assert (status, printed) == (0, f"{len(rules)} passed, 0 failed\n")


@pytest.mark.parametrize("rule, path, text, expected", BAD,
                         ids=[f"{case[0]}-{i}" for i, case in enumerate(BAD)])
def test_a_breach_is_found_and_fails(tree, rule, path, text, expected):
    put(tree, path, text)
    status, printed = lint(tree, rule)
    assert status == 1
    assert expected in printed and path in printed
    assert printed.endswith("0 passed, 1 failed\n")


@pytest.mark.parametrize("rule, path, text", FINE, ids=[case[0] for case in FINE])
def test_what_just_keeps_a_rule_passes(tree, rule, path, text):
    put(tree, path, text)
    assert lint(tree, rule) == (0, "1 passed, 0 failed\n")


def test_a_folder_of_more_than_14_headers_wants_rooms(tree):
    for n in range(13):
        put(tree, f"src/base/bytes_{n}.h", SPDX)
    assert lint(tree, "modules")[0] == 0
    put(tree, "src/base/room/bytes_13.h", SPDX)
    assert lint(tree, "modules")[0] == 0
    put(tree, "src/base/bytes_13.h", SPDX)
    status, printed = lint(tree, "modules")
    assert status == 1 and "src/base: 15 modules, at most 14" in printed


def test_each_part_of_an_assertion_is_a_belief(tree):
    put(tree, "ARCHITECTURE.md", ARCHITECTURE + ASSERTED.format(300))
    put(tree, "src/base/bytes.c", SUM.replace("    object.", "    CHECK(a && b(c && d));\n    o."))
    assert lint(tree, "assertions")[0] == 1
    put(tree, "src/base/bytes.c",
        SUM.replace("    object.", "    CHECK(a && (b || c));\n    CHECK(d);\n    object."))
    assert lint(tree, "assertions") == (0, "1 passed, 0 failed\n")


def test_an_export_for_tests_alone_needs_a_row_or_the_hooks(tree):
    for path, text in TESTED.items():
        put(tree, path, text)
    status, printed = lint(tree, "exports")
    assert status == 1 and "bytes_made: only tests use it" in printed
    put(tree, "ARCHITECTURE.md", ARCHITECTURE + FOR_TESTS)
    assert lint(tree, "exports") == (0, "1 passed, 0 failed\n")
    put(tree, "ARCHITECTURE.md", ARCHITECTURE)
    put(tree, "src/base/bytes.h", GOOD["src/base/bytes.h"] + HOOKED)
    assert lint(tree, "exports") == (0, "1 passed, 0 failed\n")


def test_a_long_subject_is_found_from_the_commit_on_that_is_named(tree):
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        return subprocess.run(["git", "-C", tree, *who, *words], check=True, capture_output=True,
                              text=True).stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "old: " + "x" * 80)
    put(tree, "CONTRIBUTING.md", f"checked since `{git('rev-parse', 'HEAD')}`")
    git("commit", "-q", "--allow-empty", "-m", "x" * 72)
    assert lint(tree, "subjects") == (0, "1 passed, 0 failed\n")
    git("commit", "-q", "--allow-empty", "-m", "x" * 73)
    status, printed = lint(tree, "subjects")
    assert status == 1 and "its subject has 73 characters" in printed


def test_members_of_tables_of_functions_may_have_one_name(tree):
    kind = SPDX + "static int claim(void)\n{\n}\nstatic struct kind a = {%s};\n"
    put(tree, "src/core/set.c", kind % ".claim = claim")
    put(tree, "src/core/rule.c", kind % "claim, 1")
    assert lint(tree, "own-names") == (0, "1 passed, 0 failed\n")
    put(tree, "src/core/rule.c", kind % ".claim = claim()")
    status, printed = lint(tree, "own-names")
    assert status == 1 and "src/core/rule.c:2: claim is a function of src/core/set.c" in printed


def test_a_private_header_belongs_to_its_module(tree):
    put(tree, "src/core/rule_priv.h", SPDX)
    put(tree, "src/core/set.c", SPDX + '#include "core/rule_priv.h"\n')
    status, printed = lint(tree, "module-cycles")
    assert status == 1 and "src/core/rule -> src/core/set -> src/core/rule" in printed


@pytest.mark.parametrize("path, head", [
    ("src/base/bytes.c", "/* Inside of bytes. */\n"),
    ("src/base/made.c", "/* Made in made.c. */\n"),
    ("src/base/bytes.c", "/* A table. */\n#define X(name) int name##_made(void);\nX(bytes)\n"),
    ("src/base/made.c", "/* A table. */\n#define X(name) extern int bytes_##name;\nX(made)\n"),
])
def test_a_private_header_and_one_that_names_its_sources_are_homes(tree, path, head):
    put(tree, path, MADE)
    assert lint(tree, "homes")[0] == 1
    put(tree, "src/base/bytes_priv.h", SPDX + head + "#ifndef A\nint bytes_made(void);\n#endif\n")
    put(tree, "src/base/made.h", SPDX + "int bytes_sum(int first);\n")
    assert lint(tree, "homes") == (0, "1 passed, 0 failed\n")


@pytest.mark.parametrize("header", ["#define BYTES_MADE() bytes_made()\n",
                                    "static inline int a(void)\n{\n    bytes_made();\n}\n"])
def test_a_header_uses_an_export_by_a_macro_or_a_body(tree, header):
    put(tree, "src/base/bytes.c", MADE)
    put(tree, "src/base/bytes.h", GOOD["src/base/bytes.h"] + "int bytes_made(void);\n" + header)
    assert lint(tree, "exports") == (0, "1 passed, 0 failed\n")


def test_every_rule_has_a_breach_here(tree):
    _, printed = lint(tree, "no-such-rule")
    assert set(printed.split("rules: ")[1].split()) == {"modules"} | {case[0] for case in BAD}
