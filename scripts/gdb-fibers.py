# SPDX-License-Identifier: Apache-2.0
"""Lists the stack of every fiber that is not running, in a live process or a core:

    gdb -p PID -batch -x scripts/gdb-fibers.py
    gdb build/pawl core -batch -x scripts/gdb-fibers.py

or, in a session, `source scripts/gdb-fibers.py` and `fibers`. The running fiber of a thread is in
`thread apply all backtrace` as usual. A parked fiber keeps the frame that left it
(src/fiber/switch.h); from there the saved frame pointers are followed, so a function of a library
built without them hides its callers.
"""
import gdb

DEEPEST = 64


def text(value):
    return value.string(errors="replace") if int(value) else "?"


def word(address):
    size = gdb.lookup_type("long").sizeof
    return int.from_bytes(gdb.selected_inferior().read_memory(address, size), "little")


def functions_at(pc):
    """Innermost first: the functions inlined at pc, then the one they were inlined into."""
    try:
        block = gdb.block_for_pc(pc)
    except RuntimeError:
        block = None
    found = False
    while block is not None and not block.is_global and not block.is_static:
        if block.function is not None:
            found = True
            yield block.function.print_name
        block = block.superblock
    if not found:
        yield gdb.execute(f"info symbol {pc:#x}", to_string=True).strip()


def print_stack(fiber):
    context = fiber["context"]
    frame = int(context["frame"])
    bottom = int(context["stack_bottom"])
    top = bottom + int(context["stack_size"])
    depth = 0
    while bottom <= frame < top and depth < DEEPEST:
        # The return address is behind the call it belongs to.
        pc = word(frame + gdb.lookup_type("long").sizeof) - 1
        line = gdb.find_pc_line(pc)
        where = f"{line.symtab.filename}:{line.line}" if line.symtab else "?"
        for name in functions_at(pc):
            print(f"    #{depth:<2} {pc + 1:#018x} {name} ({where})")
            where = "its caller by inlining"
            depth += 1
            if name == "context_main":
                return
        frame = word(frame)


def print_loop(loop):
    print(f"loop {loop} with {int(loop['n_live'])} fibers")
    fiber = loop["live"]
    while int(fiber):
        state = str(fiber["state"]).replace("FIBER_", "").lower()
        print(f"  fiber {fiber} '{text(fiber['name'])}' {state}")
        if int(fiber["context"]["frame"]):
            print_stack(fiber)
        fiber = fiber["live_next"]


def loop_of_selected_thread():
    """The thread's variable; in a core without thread library, the loop in one of its frames."""
    try:
        return gdb.parse_and_eval("'loop.c'::loop_of_thread")
    except gdb.error:
        pass
    frame = gdb.newest_frame()
    while frame is not None:
        try:
            if frame.name() == "loop_run":
                return frame.read_var("loop")
            if frame.name() == "fiber_main":
                return frame.read_var("self")["loop"]
        except (ValueError, gdb.error):
            pass
        frame = frame.older()
    return None


class Fibers(gdb.Command):
    """List the stacks of the fibers of all loops."""

    def __init__(self):
        super().__init__("fibers", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        before = gdb.selected_thread()
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            loop = loop_of_selected_thread()
            if loop is None or loop.is_optimized_out or not int(loop):
                continue
            print(f"thread {thread.num} '{thread.name or '?'}':", end=" ")
            print_loop(loop)
        if before is not None:
            before.switch()


Fibers()
if gdb.selected_inferior().pid:
    gdb.execute("fibers")
