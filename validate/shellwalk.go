package validate

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

const (
	interpreters = "sh bash zsh dash ksh ash fish python python2 python3 perl ruby node php pwsh"
	// wrappers start the command after the arguments that wrapperArgument matches; wrapperOptions take an argument.
	wrappers       = "sudo doas pkexec env command builtin exec nohup time nice ionice timeout xargs busybox toybox stdbuf setsid"
	wrapperOptions = "-u -g -C -T -D -a -o -f -I -d -s --user --group --unset --chdir --signal"
	// maxSteps bounds the inspection of interpreters' inputs: a pipe of n of them takes n*n.
	maxSteps = 100_000
)

// wrapperArgument matches an option, a number and an assignment.
var wrapperArgument = lazy.Regexp(`^(-|[0-9.]+[smhd]?$|\w+=)`)

// shellWalk lists the calls of a script. Besides commands these are "write:", a redirection to a file, "socket:", one
// to a network, "assign:", an assignment, "code:", an interpreter that reads its code from elsewhere, and "bomb:", a
// function that starts itself twice.
type shellWalk struct {
	calls     []call
	functions map[string]bool // they hide commands
	steps     int             // taken through the inputs of interpreters
}

func shellCalls(f *syntax.File) []call {
	w := &shellWalk{functions: map[string]bool{}}
	if f != nil {
		syntax.Walk(f, w.visitNode)
	}
	return w.calls
}

func (w *shellWalk) addCall(at syntax.Node, c call) {
	c.At = int(at.Pos().Offset())
	w.calls = append(w.calls, c)
}

func (w *shellWalk) visitNode(node syntax.Node) bool {
	switch x := node.(type) {
	case *syntax.CallExpr:
		program, args := w.unwrapCommand(x)
		c := call{Path: program, Args: args}
		if hasWord(interpreters+" eval source .", program) {
			c.Inner = w.commands(x)
		}
		if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "of=") }); i >= 0 { // of dd
			c.Of = args[i][len("of="):]
		}
		if w.addCall(x, c); len(x.Args) > len(args)+1 {
			w.addCall(x, call{Path: path.Base(commandWords(x)[0])}) // a wrapper
		}
	case *syntax.BinaryCmd:
		if program, reads := w.stdinReader(x.Y); reads && (x.Op == syntax.Pipe || x.Op == syntax.PipeAll) {
			w.addCall(x, call{Path: "code:", Of: program, Inner: w.commands(x.X)})
		}
	case *syntax.Stmt:
		for _, r := range x.Redirs {
			w.addRedirect(r, x)
		}
	case *syntax.FuncDecl:
		if x.Name != nil {
			w.functions[x.Name.Value] = true
			w.addForkBomb(x)
		}
	case *syntax.Assign:
		if x.Name != nil {
			w.addCall(x, call{Path: "assign:" + x.Name.Value, Args: []string{wordText(cmp.Or(x.Value, &syntax.Word{}).Parts)}})
		}
	}
	return true
}

// unwrapCommand returns a call without its wrappers. The program is "" if it is known only at run time, or is a
// function.
func (w *shellWalk) unwrapCommand(c syntax.Command) (program string, args []string) {
	wrapped, all := false, commandWords(c)
	for i := 0; i < len(all); i++ {
		switch program = path.Base(all[i]); {
		case wrapped && wrapperArgument().MatchString(all[i]):
			if hasWord(wrapperOptions, all[i]) {
				i++
			}
		case w.functions[all[i]] || strings.Contains(all[i], unknownText):
			return "", all[i+1:]
		case !hasWord(wrappers, program) || i == len(all)-1:
			return program, all[i+1:]
		default:
			wrapped = true
		}
	}
	return "", nil
}

// commandWords returns the words of a simple command.
func commandWords(c syntax.Command) (all []string) {
	if x, is := c.(*syntax.CallExpr); is {
		for _, word := range x.Args {
			all = append(all, wordText(word.Parts))
		}
	}
	return all
}

// wordText returns a word without its quotes. Values known only at run time are unknownText followed by their name.
func wordText(parts []syntax.WordPart) string {
	text := ""
	for _, p := range parts {
		switch x := p.(type) {
		case *syntax.Lit:
			text += strings.ReplaceAll(x.Value, `\`, "")
		case *syntax.SglQuoted:
			text += x.Value
		case *syntax.DblQuoted:
			text += wordText(x.Parts)
		case *syntax.ParamExp:
			if x.Param != nil && x.Param.Value == "HOME" && x.Exp == nil {
				text += "~"
				break
			}
			text += unknownText
		default:
			text += unknownText
		}
		if len(text) > maxWord {
			break
		}
	}
	return text
}

// commands returns the commands in a node, with their arguments.
func (w *shellWalk) commands(from syntax.Node) (all []string) {
	syntax.Walk(from, func(node syntax.Node) bool {
		if x, is := node.(*syntax.CallExpr); is {
			program, args := w.unwrapCommand(x)
			all = append(all, program+" "+strings.Join(args, " "))
		}
		w.steps++
		return w.steps < maxSteps
	})
	return all
}

// stdinReader returns the program of a statement, and whether it is an interpreter that reads its code from standard
// input.
func (w *shellWalk) stdinReader(s *syntax.Stmt) (program string, reads bool) {
	program, args := w.unwrapCommand(s.Cmd)
	file := slices.ContainsFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	input := slices.ContainsFunc(args, func(a string) bool { return hasWord("- -s /dev/stdin", a) })
	return program, hasWord(interpreters, program) && (input || !file)
}

func (w *shellWalk) addRedirect(r *syntax.Redirect, s *syntax.Stmt) {
	program, reads := w.stdinReader(s)
	word := r.Word
	if r.Hdoc != nil {
		word = r.Hdoc
	}
	c := call{Of: program, Args: []string{wordText(word.Parts)}}
	network := strings.HasPrefix(c.Args[0], "/dev/tcp/") || strings.HasPrefix(c.Args[0], "/dev/udp/")
	switch {
	case r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc || r.Op == syntax.WordHdoc:
		if c.Path = "code:"; reads {
			c.Inner = w.commands(word)
			w.addCall(s, c)
		}
	case network:
		c.Path = "socket:"
		w.addCall(s, c)
	case r.Op != syntax.RdrIn && r.Op != syntax.DplIn:
		c.Path = "write:"
		w.addCall(r, c)
	}
}

// addForkBomb reports a function that calls itself in the background or in a pipe.
func (w *shellWalk) addForkBomb(f *syntax.FuncDecl) {
	itself := func(s *syntax.Stmt) bool { return slices.Equal(commandWords(s.Cmd), []string{f.Name.Value}) }
	found := false
	syntax.Walk(f.Body, func(node syntax.Node) bool {
		switch x := node.(type) {
		case *syntax.Stmt:
			found = found || x.Background && itself(x)
		case *syntax.BinaryCmd:
			found = found || (x.Op == syntax.Pipe || x.Op == syntax.PipeAll) && (itself(x.X) || itself(x.Y))
		}
		w.steps++
		return !found && w.steps < maxSteps
	})
	if found {
		w.addCall(f, call{Path: "bomb:"})
	}
}
