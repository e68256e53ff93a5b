# prefault: a waiting process copies the pages that its program will write to, before the program is known.

PAGE, ALONE, FILE, POPULATE_WRITE = 4096, 1 << 56, 1 << 61, 23
MAX_PAGES = 90  # an idle process should hold at most 4 MiB
deepest = []  # depth of the C stack at the end of a script, as measured by a rehearsal: see leave.py
rehearsal = []  # in a rehearsing child: where it reports, and the pages that were its own


def owned():
    """Returns the numbers of the pages that belong to this process alone, in writable memory."""
    pages = set()
    with open("/proc/self/maps", "rb", 0) as maps, open("/proc/self/pagemap", "rb", 0) as map:
        for line in maps.read().splitlines():
            span, rights = line.split()[:2]
            if rights != b"rw-p":
                continue
            first, last = (int(n, 16) // PAGE for n in span.split(b"-"))
            entries = memoryview(posix.pread(map.fileno(), 8 * (last - first), 8 * first)).cast("Q")
            pages.update(first + i for i, entry in enumerate(entries) if entry & ALONE and not entry & FILE)
    return pages


def spans(pages):
    """Returns the first of pages, the interpreter's own before those that it allocated, as addresses and
    lengths.
    """
    found = []
    for page in sorted(pages)[:MAX_PAGES]:
        if found and page == found[-1][1]:
            found[-1][1] = page + 1
        else:
            found.append([page, page + 1])
    return [(first * PAGE, (end - first) * PAGE) for first, end in found]


def rehearse():
    """Has a child run a minimal program, and returns the spans that it wrote to, none if they are unknown;
    in the child it returns None, and the child continues like a program's process. No program that could
    interfere has run yet.
    """
    heard, tell = posix.pipe()
    pid = posix.fork()
    if pid == 0:
        posix.close(heard)
        try:
            stage()
            rehearsal[:] = tell, owned()
        except BaseException:
            posix._exit(1)
        return None
    posix.close(tell)
    scratch.halves[0], scratch.halves[1] = heard, 1
    scratch.words[MASK // 8], scratch.words[MASK // 8 + 1] = 2, 0  # seconds, which is plenty
    parts = []
    while call(SYS_PPOLL, scratch.at, 1, scratch.at + MASK, 0, 0, 0) == 1:
        part = posix.read(heard, 65536)
        if not part:
            break
        parts.append(part)
    else:
        posix.kill(pid, 9)
    posix.close(heard)
    pairs = [line.split() for line in b"".join(parts).splitlines()]
    deepest[:] = [int(numbers[0]) for numbers in pairs if len(numbers) == 1]
    return [(int(pair[0]), int(pair[1])) for pair in pairs if len(pair) == 2]


def stage():
    """Makes the files of a program's process, at the paths where it would look for its script."""
    nothing = posix.open("/dev/null", posix.O_RDWR)
    posix.dup2(nothing, 1)
    posix.dup2(nothing, 2)
    call(SYS_UNSHARE, CLONE_NEWNS, 0, 0, 0, 0, 0)
    names = [Memory(64) for _ in range(2)]
    for memory, name in zip(names, (b"tmpfs", posix.getcwdb())):
        memory.bytes[: len(name)] = name
    if call(SYS_MOUNT, names[0].at, names[1].at, names[0].at, 0, 0, 0) != 0:
        raise OSError(errno())
    posix.chdir(posix.getcwdb())
    with open(base[1], "wb") as f:
        f.write(b"print(1)\n")
    assignment = posix.open("assignment", posix.O_RDWR | posix.O_CREAT)
    environ = [b"%b=%b" % pair for pair in os.environ._data.items()]
    posix.pwrite(assignment, b"\0".join([b"r0"] + environ) + b"\0", 0)  # the first byte replaces the ready byte
    posix.dup2(assignment, PRIVATE)


def report_rehearsal():
    """Reports, at the end of a rehearsal, the depth of the stack and the copied pages."""
    if rehearsal:
        lines = [b"%d\n" % at for at in deepest] + [b"%d %d\n" % span for span in spans(owned() - rehearsal[1])]
        posix.write(rehearsal[0], b"".join(lines))
        posix._exit(0)


def copy_ahead(spans):
    """Copies the pages that are still shared; a kernel without support leaves them unchanged."""
    for at, size in spans:
        call(SYS_MADVISE, at, size, POPULATE_WRITE, 0, 0, 0)
