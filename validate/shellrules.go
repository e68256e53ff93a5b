package validate

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// commandHits inspects a shell command in a program of another language. All hits have the place of that call.
func commandHits(command string, at int) []hit {
	if len(command) > maxWord {
		return nil
	}
	f, _ := parseShell(command)
	hits := shellHits(f, 0)
	for i := range hits {
		hits[i].At = at
	}
	return hits
}

// maxNested is the depth to which sh -c 'sh -c ...' is followed.
const maxNested = 4

type shellInspector struct {
	names  *shellNames
	hits   []hit
	nested int
	steps  int // through what feeds interpreters
}

// shellHits inspects a script's tree, which is nil if nothing could be read.
func shellHits(f *syntax.File, nested int) []hit {
	if f == nil {
		return nil
	}
	l := &shellInspector{names: namesOf(f), nested: nested}
	syntax.Walk(f, func(node syntax.Node) bool {
		if len(l.hits) > 2*maxDangers {
			return false
		}
		switch x := node.(type) {
		case *syntax.CallExpr:
			l.call(x)
		case *syntax.BinaryCmd:
			if x.Op != syntax.Pipe && x.Op != syntax.PipeAll {
				break
			}
			if _, reads := l.reader(x.Y); reads {
				l.sources(x.X, x)
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

func (l *shellInspector) say(rule string, n syntax.Node) {
	l.hits = append(l.hits, hit{rule, int(n.Pos().Offset())})
}

func (l *shellInspector) call(x *syntax.CallExpr) {
	c, ok := l.names.command(x)
	if !ok {
		return
	}
	if slices.ContainsFunc(c.wrappers, func(w string) bool { return hasWord("sudo doas pkexec", w) }) {
		l.say("shell-sudo", x)
	}
	short, long, rest := c.flags()
	switch c.program {
	case "rm", "chmod", "chown", "chgrp":
		l.recursive(c, x)
	case "find":
		l.find(c, x)
	case "dd":
		for _, a := range c.args {
			if to, is := strings.CutPrefix(a, "of="); is {
				l.writes(x, []string{to})
			}
		}
	case "tee", "touch", "truncate", "mkdir", "rmdir", "unlink", "shred", "wipefs", "blkdiscard":
		l.writes(x, rest)
	case "cp", "mv", "install", "ln", "rsync":
		if len(rest) > 1 {
			l.writes(x, rest[len(rest)-1:])
		}
	case "sed", "perl":
		if strings.Contains(short, "i") || slices.ContainsFunc(long, func(s string) bool { return strings.HasPrefix(s, "--in-place") }) {
			l.writes(x, rest)
		}
	case "eval", "source", ".":
		l.evaluates(c, x)
	}
	if runsCode(c.program) {
		l.runs(c, x)
	}
	if rule := c.rule(commandRules()); rule != "" {
		l.say(rule, x)
	}
}

// recursive inspects rm, chmod, chown and chgrp.
func (l *shellInspector) recursive(c shellCommand, x syntax.Node) {
	short, long, rest := c.flags()
	rule := "shell-delete-all"
	if c.program != "rm" {
		rule, rest = "shell-permissions-all", rest[min(1, len(rest)):]
	}
	if (strings.ContainsAny(short, "rR") || slices.Contains(long, "--recursive")) && slices.ContainsFunc(rest, everything) {
		l.say(rule, x)
		return
	}
	l.writes(x, rest)
}

// writes inspects the files that a command changes.
func (l *shellInspector) writes(x syntax.Node, names []string) {
	for _, name := range names {
		switch {
		case diskDevice().MatchString(name):
			l.say("shell-raw-disk", x)
		case strings.HasPrefix(name, "/etc/cron") || strings.HasPrefix(name, "/var/spool/cron"):
			l.say("shell-schedule", x)
		case strings.HasSuffix(name, "/.bash_history") || strings.HasSuffix(name, "/.zsh_history"):
			l.say("shell-history", x)
		case systemFile(name):
			l.say("shell-system-write", x)
		}
	}
}

var (
	findDeletes = lazy.Regexp(`(^| )(-delete|-exec(dir)? (/bin/)?rm)( |$)`)
	findNarrows = lazy.Regexp(`(^| )-(name|iname|path|regex|newer|mtime|user|size)( |$)`)
)

func (l *shellInspector) find(c shellCommand, x syntax.Node) {
	roots := c.args
	if i := slices.IndexFunc(roots, func(a string) bool { return strings.HasPrefix(a, "-") || a == "(" || a == "!" }); i >= 0 {
		roots = roots[:i]
	}
	if all := strings.Join(c.args, " "); findDeletes().MatchString(all) && !findNarrows().MatchString(all) && slices.ContainsFunc(roots, everything) {
		l.say("shell-delete-all", x)
	}
}

func (l *shellInspector) redirect(r *syntax.Redirect, s *syntax.Stmt) {
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
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		l.standardInput(r, s)
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut:
		l.writes(r, []string{name})
	}
}

func (l *shellInspector) assign(x *syntax.Assign) {
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
