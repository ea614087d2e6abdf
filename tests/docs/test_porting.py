# SPDX-License-Identifier: Apache-2.0
"""docs/porting.md names every file of src that calls what only Linux, or only glibc, has."""
from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMENT = re.compile(r"/\*.*?\*/", re.S)
OF_LINUX = re.compile(
    r"\b(?:epoll_\w+|eventfd|signalfd|pidfd_open|P_PIDFD|pipe2|accept4|SO_REUSEPORT|TCP_QUICKACK|"
    r"F_OFD_\w+|statx|statfs|renameat2|getrandom|explicit_bzero|malloc_trim|MADV_DONTDUMP|"
    r"CLOCK_BOOTTIME|sched_getaffinity|pthread_setname_np|makecontext|gnu_get_libc_version|"
    r"SOCK_CLOEXEC|O_PATH|MAP_STACK|st_mtim|HOST_NAME_MAX|MSG_NOSIGNAL|"
    r"pthread_condattr_setclock)\b|<linux/|\"/proc/|\"/sys/")


def test_the_page_names_each_place():
    page = (ROOT / "docs/porting.md").read_text("utf-8")
    places = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "src").rglob("*.[ch]"))
              if OF_LINUX.search(COMMENT.sub("", path.read_text("utf-8")))]
    assert len(places) > 20
    assert not [place for place in places if f"`{place}`" not in page]
