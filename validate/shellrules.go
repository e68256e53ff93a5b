package validate

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// lookShell looks at a script's tree.
func lookShell(source string) findings {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(source), "")
	var out findings
	if err != nil {
		out.Unread = "our parser does not know all of its syntax"
	}
	if f != nil {
		out.Hits = shellHits(f, 0)
	}
	return out
}

// commandHits looks at a command that a program in another language hands to a shell, and puts what
// it finds at the place of that call.
func commandHits(command string, at int) []hit {
	if len(command) > maxWord {
		return nil
	}
	hits := lookShell(command).Hits
	for i := range hits {
		hits[i].At = at
	}
	return slices.DeleteFunc(hits, func(h hit) bool { return h.Rule == unread })
}

// mostNested is how deep sh -c 'sh -c ...' is followed.
const mostNested = 4

type shellLook struct {
	names  *shellNames
	hits   []hit
	nested int
}

func shellHits(f syntax.Node, nested int) []hit {
	l := &shellLook{names: namesOf(f), nested: nested}
	syntax.Walk(f, func(node syntax.Node) bool {
		if len(l.hits) > 2*mostDangers {
			return false
		}
		switch x := node.(type) {
		case *syntax.CallExpr:
			l.call(x)
		case *syntax.BinaryCmd:
			if x.Op == syntax.Pipe || x.Op == syntax.PipeAll {
				l.pipe(x)
			}
		case *syntax.Stmt:
			for _, r := range x.Redirs {
				l.redirect(r, x)
			}
		case *syntax.FuncDecl:
			l.function(x)
		case *syntax.WhileClause:
			l.loop(x)
		case *syntax.Assign:
			l.assign(x)
		}
		return true
	})
	return l.hits
}

func (l *shellLook) say(rule string, n syntax.Node) {
	l.hits = append(l.hits, hit{rule, int(n.Pos().Offset())})
}

func (l *shellLook) call(x *syntax.CallExpr) {
	c, ok := l.names.command(x)
	if !ok {
		return
	}
	for _, w := range c.wrappers {
		if w == "sudo" || w == "doas" || w == "pkexec" {
			l.say("shell-sudo", x)
		}
	}
	short, long, rest := c.flags()
	recursive := strings.ContainsAny(short, "rR") || slices.Contains(long, "--recursive")
	switch c.program {
	case "rm":
		if recursive && slices.ContainsFunc(rest, everything) {
			l.say("shell-delete-all", x)
		} else {
			l.writes(x, rest)
		}
	case "find":
		l.find(c, x)
	case "chmod", "chown", "chgrp":
		if recursive && slices.ContainsFunc(rest[min(1, len(rest)):], everything) {
			l.say("shell-permissions-all", x)
		} else {
			l.writes(x, rest[min(1, len(rest)):])
		}
	case "dd":
		for _, a := range c.args {
			if to, is := strings.CutPrefix(a, "of="); is {
				l.writes(x, []string{to})
			}
		}
	case "tee", "touch", "truncate", "mkdir", "rmdir", "unlink":
		l.writes(x, rest)
	case "cp", "mv", "install", "ln", "rsync", "cat":
		if len(rest) > 1 && c.program != "cat" {
			l.writes(x, rest[len(rest)-1:])
		}
	case "sed", "perl":
		if strings.Contains(short, "i") || slices.ContainsFunc(long, func(s string) bool { return strings.HasPrefix(s, "--in-place") }) {
			l.writes(x, rest)
		}
	case "shred", "wipefs", "blkdiscard":
		l.writes(x, rest)
	case "kill", "killall5":
		if c.program == "killall5" || killsAll(c.args) {
			l.say("shell-kill-all", x)
		}
	case "su":
		l.say("shell-sudo", x)
	case "crontab":
		if !strings.ContainsAny(short, "l") {
			l.say("shell-schedule", x)
		}
	case "at", "batch":
		l.say("shell-schedule", x)
	case "history":
		if strings.ContainsAny(short, "cd") {
			l.say("shell-history", x)
		}
	case "unset":
		if slices.ContainsFunc(rest, func(s string) bool { return s == "HISTFILE" || s == "HISTSIZE" }) {
			l.say("shell-history", x)
		}
	case "set":
		if slices.Contains(c.args, "+o") && slices.Contains(c.args, "history") {
			l.say("shell-history", x)
		}
	case "mkfs", "mke2fs", "mkswap", "fdisk", "sfdisk", "parted", "mkdosfs":
		l.say("shell-format", x)
	case "nc", "ncat", "netcat":
		if strings.ContainsAny(short, "ec") || slices.Contains(long, "--exec") || slices.Contains(long, "--sh-exec") {
			l.say("shell-reverse-shell", x)
		} else {
			l.say("shell-network", x)
		}
	case "socat":
		if slices.ContainsFunc(rest, func(s string) bool {
			s = strings.ToUpper(s)
			return strings.HasPrefix(s, "EXEC:") || strings.HasPrefix(s, "SYSTEM:")
		}) {
			l.say("shell-reverse-shell", x)
		}
	case "curl", "wget", "ssh", "scp", "sftp", "ftp", "telnet":
		l.say("shell-network", x)
	case "eval", "source", ".":
		l.evaluates(c, x)
	default:
		if strings.HasPrefix(c.program, "mkfs.") {
			l.say("shell-format", x)
		}
		if runsCode(c.program) {
			l.runs(c, x)
		}
	}
}

// writes looks at the files that a command changes.
func (l *shellLook) writes(x syntax.Node, names []string) {
	for _, name := range names {
		switch {
		case diskDevice().MatchString(name):
			l.say("shell-raw-disk", x)
		case strings.HasPrefix(name, "/etc/cron") || strings.HasPrefix(name, "/var/spool/cron"):
			l.say("shell-schedule", x)
		case historyFile(name):
			l.say("shell-history", x)
		case systemFile(name):
			l.say("shell-system-write", x)
		}
	}
}

func historyFile(name string) bool {
	return strings.HasSuffix(name, "/.bash_history") || strings.HasSuffix(name, "/.zsh_history")
}

func (l *shellLook) find(c shellCommand, x syntax.Node) {
	var roots []string
	for _, a := range c.args {
		if strings.HasPrefix(a, "-") || a == "(" || a == "!" {
			break
		}
		roots = append(roots, a)
	}
	narrows := func(s string) bool {
		return slices.Contains([]string{"-name", "-iname", "-path", "-regex", "-newer", "-mtime", "-user", "-size"}, s)
	}
	deletes := slices.Contains(c.args, "-delete")
	for i, a := range c.args {
		if (a == "-exec" || a == "-execdir") && i+1 < len(c.args) && strings.TrimPrefix(c.args[i+1], "/bin/") == "rm" {
			deletes = true
		}
	}
	if deletes && slices.ContainsFunc(roots, everything) && !slices.ContainsFunc(c.args, narrows) {
		l.say("shell-delete-all", x)
	}
}

// killsAll reads the arguments of kill: kill -9 -1, kill -- -1, kill -KILL 1.
func killsAll(args []string) bool {
	if len(args) > 1 && strings.HasPrefix(args[0], "-") && !slices.Contains([]string{"-l", "-L"}, args[0]) {
		if args[0] == "-s" || args[0] == "-n" {
			args = args[1:]
		}
		return slices.ContainsFunc(args[1:], func(a string) bool { return a == "-1" || a == "1" || a == "0" })
	}
	return slices.Equal(args, []string{"1"}) || slices.Equal(args, []string{"0"})
}

// interpreters run what they are given as code.
var interpreters = []string{"sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "python", "python3", "python2", "perl", "ruby", "node", "php", "pwsh"}

func runsCode(program string) bool {
	return slices.Contains(interpreters, program) || strings.HasPrefix(program, "python3.")
}

func isShell(program string) bool {
	return slices.Contains(interpreters[:7], program)
}

// runs looks at sh -c and at sh <(...).
func (l *shellLook) runs(c shellCommand, x syntax.Node) {
	for i, w := range c.words {
		l.fed(w, x)
		option := i > 0 && strings.HasPrefix(c.args[i-1], "-") && strings.HasSuffix(c.args[i-1], "c")
		if option && isShell(c.program) {
			l.nest(c.args[i], x)
		}
	}
}

// evaluates looks at eval and source.
func (l *shellLook) evaluates(c shellCommand, x syntax.Node) {
	before := len(l.hits)
	for _, w := range c.words {
		l.fed(w, x)
	}
	if c.program != "eval" || len(l.hits) > before {
		return
	}
	text := strings.Join(c.args, " ")
	if strings.Contains(text, unknownText) {
		l.say("shell-eval", x)
	}
	l.nest(text, x)
}

// nest looks at a command that stands in a word.
func (l *shellLook) nest(text string, x syntax.Node) {
	if l.nested >= mostNested || len(text) > maxWord {
		return
	}
	f, _ := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if f == nil {
		return
	}
	for _, h := range shellHits(f, l.nested+1) {
		l.say(h.Rule, x)
	}
}

// fed looks for downloads and decoders in a word that becomes code.
func (l *shellLook) fed(w *syntax.Word, x syntax.Node) {
	for _, p := range w.Parts {
		l.fedPart(p, x)
	}
}

func (l *shellLook) fedPart(p syntax.WordPart, x syntax.Node) {
	switch p := p.(type) {
	case *syntax.DblQuoted:
		for _, q := range p.Parts {
			l.fedPart(q, x)
		}
	case *syntax.CmdSubst:
		l.sources(p, x)
	case *syntax.ProcSubst:
		l.sources(p, x)
	case *syntax.ParamExp:
		if p.Param != nil {
			if values := l.names.set[p.Param.Value]; len(values) == 1 && values[0] != nil && l.names.depth < 10 {
				l.names.depth++
				l.fed(values[0], x)
				l.names.depth--
			}
		}
	}
}

// sources says what the output of commands, which becomes code, is made of.
func (l *shellLook) sources(from, x syntax.Node) {
	syntax.Walk(from, func(node syntax.Node) bool {
		call, is := node.(*syntax.CallExpr)
		if !is {
			return true
		}
		c, ok := l.names.command(call)
		if !ok {
			return true
		}
		if downloads(c) {
			l.say("shell-remote-code", x)
		}
		if decodes(c) {
			l.say("shell-encoded-code", x)
		}
		return true
	})
}

func downloads(c shellCommand) bool {
	return slices.Contains([]string{"curl", "wget", "fetch", "lynx", "aria2c", "ftp"}, c.program)
}

func decodes(c shellCommand) bool {
	short, long, rest := c.flags()
	switch c.program {
	case "base64", "base32":
		return strings.ContainsAny(short, "dD") || slices.Contains(long, "--decode")
	case "xxd":
		return strings.Contains(short, "r")
	case "openssl":
		return strings.Contains(short, "d") && len(rest) > 0 && (rest[0] == "enc" || rest[0] == "base64")
	}
	return false
}

// pipe looks at what is fed to an interpreter that reads its code from standard input.
func (l *shellLook) pipe(x *syntax.BinaryCmd) {
	call, is := x.Y.Cmd.(*syntax.CallExpr)
	if !is {
		return
	}
	c, ok := l.names.command(call)
	if !ok || !runsCode(c.program) || !readsCode(c) {
		return
	}
	l.sources(x.X, x)
}

// readsCode says whether an interpreter has neither a file nor a text to run.
func readsCode(c shellCommand) bool {
	for i, a := range c.args {
		switch {
		case a == "-" || a == "/dev/stdin" || strings.HasPrefix(a, "-s"):
			return true
		case a == "-c" || a == "-e" || a == "-m" || a == "--eval":
			return false
		case !strings.HasPrefix(a, "-") && (i == 0 || c.args[i-1] != "-o"):
			return false
		}
	}
	return true
}

func (l *shellLook) redirect(r *syntax.Redirect, s *syntax.Stmt) {
	name := l.names.text(r.Word)
	if strings.HasPrefix(name, "/dev/tcp/") || strings.HasPrefix(name, "/dev/udp/") {
		if call, is := s.Cmd.(*syntax.CallExpr); is {
			if c, ok := l.names.command(call); ok && isShell(c.program) {
				l.say("shell-reverse-shell", s)
				return
			}
		}
		l.say("shell-socket", r)
		return
	}
	switch r.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut:
		l.writes(r, []string{name})
	}
}

// function looks for a function that calls itself in a pipe or in the background.
func (l *shellLook) function(x *syntax.FuncDecl) {
	if x.Name == nil || x.Body == nil {
		return
	}
	if l.multiplies(x.Body, x.Name.Value) {
		l.say("shell-fork-bomb", x)
	}
}

// loop looks for a script that starts itself, again and again.
func (l *shellLook) loop(x *syntax.WhileClause) {
	if len(x.Cond) != 1 || len(x.Do) == 0 {
		return
	}
	if call, is := x.Cond[0].Cmd.(*syntax.CallExpr); is && len(call.Args) > 0 {
		if name := call.Args[0].Lit(); (name == "true" || name == ":") == x.Until || name != "true" && name != ":" && name != "false" {
			return
		}
		for _, s := range x.Do {
			if l.multiplies(s, "") {
				l.say("shell-fork-bomb", x)
				return
			}
		}
	}
}

// multiplies says whether a statement starts the function, or with "" the script itself, without
// waiting for it or twice at a time.
func (l *shellLook) multiplies(body *syntax.Stmt, name string) bool {
	found := false
	itself := func(s *syntax.Stmt) bool {
		call, is := s.Cmd.(*syntax.CallExpr)
		if !is || len(call.Args) == 0 {
			return false
		}
		if name == "" {
			return slices.ContainsFunc(call.Args, func(w *syntax.Word) bool {
				p, is := word(w).(*syntax.ParamExp)
				return is && p.Param != nil && p.Param.Value == "0"
			})
		}
		return call.Args[0].Lit() == name && len(call.Args) == 1
	}
	syntax.Walk(body, func(node syntax.Node) bool {
		switch x := node.(type) {
		case *syntax.Stmt:
			found = found || x.Background && itself(x)
		case *syntax.BinaryCmd:
			if x.Op == syntax.Pipe || x.Op == syntax.PipeAll {
				found = found || itself(x.X) || itself(x.Y)
			}
		}
		return !found
	})
	return found
}

// word returns the only part of a word, out of its quotes.
func word(w *syntax.Word) syntax.WordPart {
	if len(w.Parts) != 1 {
		return nil
	}
	if q, is := w.Parts[0].(*syntax.DblQuoted); is && len(q.Parts) == 1 {
		return q.Parts[0]
	}
	return w.Parts[0]
}

func (l *shellLook) assign(x *syntax.Assign) {
	if x.Name == nil {
		return
	}
	value := l.names.text(x.Value)
	switch x.Name.Value {
	case "HISTFILE":
		if value == "/dev/null" || value == "" {
			l.say("shell-history", x)
		}
	case "HISTSIZE", "HISTFILESIZE":
		if value == "0" {
			l.say("shell-history", x)
		}
	}
}
