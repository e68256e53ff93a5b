package host

import (
	"path/filepath"
	"slices"
	"strings"
)

// exactOnly are programs that treat a word without a dash as code, a file of code, or another program to start:
// shells, interpreters, launchers, build tools, and kernel module loaders. The list warns people who allow a pattern,
// and is not a barrier: it can't be complete. Versions in names are ignored: see plainName.
const exactOnly = `
	sandboxmcp sh bash rbash dash ash zsh ksh mksh fish csh tcsh pwsh nu xonsh elvish busybox toybox coreutils python pypy pydoc perl
	prove ruby irb node nodejs deno bun php lua luajit r rscript java jshell tclsh wish expect julia guile racket sbcl ghci runghc ocaml
	erl escript elixir iex scala groovy dotnet swift osascript awk gawk mawk nawk original-awk sed ed ex vi vim view nvim nano emacs
	less more man gdb lldb bc dc jq sqlite psql mysql lli env sudo su doas pkexec runuser setpriv gosu chroot unshare nsenter bwrap
	firejail fakeroot xargs parallel find gfind fd fdfind rg tar gtar bsdtar star nice ionice chrt taskset nohup setsid timeout stdbuf
	time script scriptlive watch entr strace ltrace perf valgrind sotruss pidstat not msgfilter flock run-parts start-stop-daemon
	systemd-run systemd-socket-activate at batch crontab ssh sshd scp sftp rsync telnet socat nc ncat screen tmux agetty
	x-terminal-emulator xterm dbus-send busctl gdbus debconf runc crun chromium ld ldd make gmake cmake ninja gradle mvn ant bazel pip pipx uv uvx
	npx npm yarn pnpm cargo go insmod modprobe kexec`

// manyCommands are programs whose first word selects a subcommand, some of which run other programs.
const manyCommands = "git docker podman nerdctl buildah kubectl helm systemctl ip gh apt apt-get dnf yum zypper snap flatpak"

// starDoubt describes why a pattern for a program can't have a star, or returns "".
func (p Pattern) starDoubt(prog Program) string {
	args, exact := p.fixed()
	switch {
	case exact:
		return ""
	case prog.isOneOf(exactOnly):
		return p.Program() + " takes a word for code, or for another program"
	case prog.isOneOf(manyCommands) && (len(args) == 0 || strings.HasPrefix(args[0], "-")):
		return "the word behind " + p.Program() + " has to say which of its commands it is"
	}
	return ""
}

// isOneOf reports whether any name of a program is in the list. A multi-call program acts as its name says.
func (prog Program) isOneOf(list string) bool {
	names := strings.Fields(list)
	own := filepath.Base(prog.Entry)
	return slices.ContainsFunc(prog.Names, func(name string) bool {
		many := name != own && slices.Contains([]string{"busybox", "toybox", "coreutils"}, name)
		return !many && (slices.Contains(names, name) || slices.Contains(names, plainName(name)))
	})
}

// plainName returns the name of a program in lower case, without its version and anything after that:
// python3.12-config is python.
func plainName(name string) string {
	name = strings.ToLower(name)
	if i := strings.IndexAny(name, "0123456789."); i > 0 {
		name = name[:i]
	}
	if strings.HasPrefix(name, "ld-") { // such as ld-linux-x86-64.so.2
		return "ld"
	}
	return strings.Trim(name, "-_")
}
