# init: PID 1 of a sandbox, which works like package launch's. Every signal is blocked here.

scratch = Memory(512)
POLLED, MASK, STATUS, USAGE, ACTION, INFO = 0, 16, 24, 32, 256, 320


class Init:
    def __init__(self, control):
        self.slots = [0] * SLOTS
        self.slots[SLOT_CONTROL] = control
        self.programs = set()
        scratch.words[MASK // 8] = 1 << SIGCHLD - 1
        self.signals = call(SYS_SIGNALFD4, -1, scratch.at + MASK, 8, O_CLOEXEC, 0, 0)

    def live(self):
        """Serves the server until that is gone. It returns only in a program's process, with the descriptor
        to wait for.
        """
        control = self.slots[SLOT_CONTROL]
        while True:
            scratch.halves[0], scratch.halves[1] = control, 1  # POLLIN
            scratch.halves[2], scratch.halves[3] = self.signals, 1
            call(SYS_PPOLL, scratch.at + POLLED, 2, 0, 0, 0, 0)
            if scratch.halves[3] >> 16:
                posix.read(self.signals, 128)
                self.reap()
            if scratch.halves[1] >> 16:
                held = self.begin()
                if held:
                    return held

    def reap(self):
        """Reports ended processes."""
        words = scratch.words
        while True:
            pid = call(SYS_WAIT4, -1, scratch.at + STATUS, 1, scratch.at + USAGE, 0, 0)
            if pid <= 0:
                return
            if pid in self.programs:
                self.programs.remove(pid)
                second, micro, system_second, system_micro, rss = words[USAGE // 8 : USAGE // 8 + 5]
                cpu = (second + system_second) * 1000000 + micro + system_micro
                wait = scratch.halves[STATUS // 4]
                report(self.slots[SLOT_CONTROL], EXITED, pid=pid, wait=wait, alone=alone(), cpu=cpu, rss=rss)

    def begin(self):
        """Receives a plan and executes it, or makes a new process do so."""
        size, files = take(self.slots[SLOT_CONTROL])
        if not size or not files:
            posix._exit(0)
        whom = message.bytes[BODY]
        self.slots[SLOT_FILES : SLOT_FILES + len(files) - 1] = files[1:]
        plan = Plan(files[0])
        if whom == FOR_INIT:
            self.follow(plan, plan.count)
        elif whom == FOR_PROGRAM:
            self.spawn(plan)
        elif self.hold(plan):
            return plan
        for fd in files:
            posix.close(fd)
        plan.wipe()
        return None

    def follow(self, plan, count):
        """Makes a plan's calls, or reports the call with an unexpected result, and exits."""
        failure = plan.follow(self.slots, count)
        if failure:
            report(self.slots[SLOT_CONTROL], FAILED, *failure, posix.getpid())
            posix._exit(126)

    def spawn(self, plan):
        """Starts a process that executes a program."""
        pid = call(SYS_CLONE, SIGCHLD, 0, 0, 0, 0, 0)
        if pid == 0:
            defaults()
            self.follow(plan, plan.count)
            posix._exit(126)
        self.started(pid)

    def hold(self, plan):
        """Forks a process that is to become a Python program without execve. It returns True in that
        process.
        """
        try:
            pid = posix.fork()  # not the bare call: the C library and Python must learn their new PID
        except OSError as e:
            report(self.slots[SLOT_CONTROL], FAILED, -1, e.errno)
            return False
        if pid == 0:
            self.follow(plan, plan.count - 1)
            return True
        self.started(pid)
        # Now that no process inherits them from us: an init with handlers could be signalled from inside.
        defaults()
        self.reap()  # there is nothing to reap yet, but this loads its code in advance
        alone()
        return False

    def started(self, pid):
        if pid < 0:
            report(self.slots[SLOT_CONTROL], FAILED, -1, errno())
            return
        self.programs.add(pid)


def alone():
    """Returns 1 if PID 1 has no children: it adopts orphans, so its PID namespace then has no other
    process.
    """
    peek = 0x1000005  # WNOWAIT, WEXITED and WNOHANG, of any (P_ALL is 0)
    return int(call(SYS_WAITID, 0, 0, scratch.at + INFO, peek, 0, 0) == -1 and errno() == ECHILD)


def defaults():
    """Resets every signal to its default action, except SIGCHLD, which has it: setting it would discard
    ended children.
    """
    scratch.bytes[ACTION : ACTION + 32] = bytes(32)
    for sig in range(1, 65):
        if sig != SIGCHLD:
            call(SYS_RT_SIGACTION, sig, scratch.at + ACTION, 0, 8, 0, 0)
