# plans: the lists of system calls that the server compiles, as package launch describes them.


class Plan:
    def __init__(self, fd):
        memory = Memory(posix.fstat(fd).st_size)
        posix.preadv(fd, [memory.bytes], 0)
        self.memory = memory
        _, steps, self.count, fixups, fixed = memory.halves[:5]
        self.steps = memory.words[steps // 8 : steps // 8 + 9 * self.count].tolist()
        for i in range(fixups // 8, fixups // 8 + fixed):
            fixup = memory.words[i]
            memory.words[(fixup & 0xFFFFFFFF) // 8] = memory.at + (fixup >> 32)

    def follow(self, slots, count):
        """Makes the first count calls. It returns the index and errno of the first with an unexpected
        result.
        """
        steps, base, halves, make, at = self.steps, self.memory.at, self.memory.halves, call, 0
        for i in range(count):
            head, tail, want, *args = steps[at : at + 9]
            at += 9
            kinds, number = head >> 32, head & 0xFFFFFFFF
            if number == POKE:
                halves[args[0] // 4] = signed(slots[args[1]])
                continue
            if kinds:
                resolve(args, kinds, base, slots)
            answer = make(number, *args)
            failed = errno() if answer == -1 else 0
            may = signed(tail)
            if failed != may and may != ANY_ERRNO:
                return i, failed
            if not failed and (0 <= want != answer or want == SOME and answer == 0):
                return i, 0
            if tail >> 32 >= 0:
                slots[tail >> 32] = answer
        return None

    def last(self, slots):
        """The arguments of the last call."""
        args = self.steps[9 * self.count - 6 :]
        resolve(args, self.steps[9 * self.count - 9] >> 32, self.memory.at, slots)
        return args

    def wipe(self):
        """Clears its possible secrets."""
        self.memory.bytes[:] = bytes(len(self.memory.bytes))


def resolve(args, kinds, base, slots):
    """Converts a step's arguments for the call."""
    i = 0
    while kinds:
        kind = kinds & 15
        if kind == ADDRESS:
            args[i] += base
        elif kind == SLOT:
            args[i] = slots[args[i]]
        kinds >>= 4
        i += 1


def signed(n):
    """Returns the low 32 bits of n as a signed number."""
    return (n & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
