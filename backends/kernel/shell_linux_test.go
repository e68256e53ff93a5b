package kernel

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// newShell starts a shell without a sandbox.
func newShell(t testing.TB) session {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		hosttest.SkipMissing(t, "bash", "it is not here")
	}
	return startSession(t, newBare(t, nil), "shell")
}

// exit returns the exit status of a cell, 0 if it did not exit.
func (r transcript) exit() int {
	if r.Exit == nil {
		return 0
	}
	return *r.Exit
}

// TestShell runs each case in a session of its own, and checks the output of its last cell.
func TestShell(t *testing.T) {
	t.Parallel() // one case waits for TMOUT
	for _, c := range []struct {
		name   string
		cells  []string
		stdout string
		stderr string // a substring
		exit   int
	}{
		{"output", []string{"echo out; echo err >&2"}, "out\n", "err\n", 0},
		{"nothing", []string{""}, "", "", 0},
		{"a comment", []string{"# only this"}, "", "", 0},
		{"variables", []string{"x=5; declare -A m=([k]=v); a=(1 2)", `echo "$x ${m[k]} ${a[@]}"`}, "5 v 1 2\n", "", 0},
		{"functions", []string{"f() {\n echo \"f $1\"\n}", "f 1"}, "f 1\n", "", 0},
		{"aliases", []string{"alias hello='echo hi'", "hello"}, "hi\n", "", 0},
		{"directory and umask", []string{"cd /; umask 027", "pwd; umask"}, "/\n0027\n", "", 0},
		{"options", []string{"set -o pipefail; shopt -s nullglob", "false | true; echo $? /nosuch*"}, "1\n", "", 0},
		{"positional parameters", []string{"set -- a 'b c'", `echo "$#$2"`}, "2b c\n", "", 0},
		{"traps", []string{"trap 'echo got' USR1", "kill -USR1 $$; true"}, "got\n", "", 0},
		{"trap on INT", []string{"trap 'echo got' INT", "false", "kill -INT $$; echo on"}, "got\non\n", "", 0},
		{"background jobs", []string{"sleep 100 &", "jobs -r | wc -l; kill %1; wait; jobs -r"}, "1\n", "", 0},
		{"exec with redirections is for the cell", []string{"exec >/dev/null 2>&1 </dev/zero", "read x; echo $?"}, "1\n", "", 0},
		{"closed descriptors", []string{"exec 0<&- 1>&- 2>&- 3>&-", "echo out; echo err >&2"}, "out\n", "err\n", 0},

		{"last status", []string{"echo a; false"}, "a\n", "", 1},
		{"status of the cell before", []string{"(exit 9)", "echo $?"}, "9\n", "", 0},
		{"exit", []string{"exit 7; echo no"}, "", "", 7},
		{"state after exit", []string{"x=1; exit 7", "echo $? $x"}, "7 1\n", "", 0},
		{"exit without a number", []string{"(exit 4); exit"}, "", "", 4},
		{"exit with a word", []string{"exit abc; echo no"}, "", "numeric argument required", 2},
		{"exit with too much", []string{"exit 1 2; echo yes"}, "yes\n", "too many arguments", 0},
		{"exit in functions and loops", []string{"f() { while :; do for i in 1; do g; echo no; done; done; }; g() { { exit 3; } 2>/dev/null; " +
			"}; f; echo no"}, "", "", 3},
		{"exit in eval and source", []string{"eval 'source /dev/stdin <<<\"exit 8\"; echo no'; echo no"}, "", "", 8},
		{"exit in a subshell", []string{"(exit 4); echo $?; x=$(exit 5); echo $?; echo | exit 6; echo $?"}, "4\n5\n6\n", "", 0},
		{"exit in a trap", []string{"trap 'exit 6' USR1; kill -USR1 $$; echo no"}, "", "", 6},
		{"return", []string{"f() { return 4; }; f"}, "", "", 4},

		{"errexit", []string{"set -e; echo a; false; echo no"}, "a\n", "", 1},
		{"errexit stays", []string{"set -e; false", "echo a; (exit 3); echo no"}, "a\n", "", 3},
		{"errexit in a function", []string{"set -e; f() { (exit 5); echo no; }; f; echo no"}, "", "", 5},
		{"errexit in a subshell", []string{"set -e; (set -e; false; echo no); echo no"}, "", "", 1},
		{"errexit with pipefail", []string{"set -eo pipefail; (exit 4) | cat; echo no"}, "", "", 4},
		{"errexit and conditions", []string{"set -e; f() { false; echo in; }; f || :; if f; then echo yes; fi; ! true; false && true; echo end"},
			"in\nin\nyes\nend\n", "", 0},
		{"errexit and a trap on ERR", []string{"set -eE; trap 'echo \"failed with $?\"' ERR; x=1; (exit 3); echo no"}, "failed with 3\n", "", 3},
		{"state after that", []string{"set -e; trap 'echo failed' ERR; x=1; false", "echo $x $-"}, "1 ehiBEs\n", "", 0},
		{"trap on ERR alone", []string{"trap 'echo failed' ERR; false; echo on"}, "failed\non\n", "", 0},
		{"trap on RETURN", []string{"f() { trap 'echo ret' RETURN; echo body; }; f; trap - RETURN"}, "body\nret\n", "", 0},

		{"nounset", []string{"set -u; echo $nothing\necho no"}, "", "nothing: unbound variable", 1},
		{"nounset and a trap on EXIT", []string{"set -euo pipefail; trap 'echo cleanup' EXIT; x=1", "echo $nothing", "echo $x"}, "1\n", "", 0},
		{"trap on EXIT in a subshell", []string{"(trap 'echo \"bye $?\"' EXIT; exit 3); echo $?"}, "bye 3\n3\n", "", 0},
		{"what the driver needs", []string{"unset PROMPT_COMMAND; TMOUT=1; PS1='$(exit)'", "sleep 1.2; echo ok",
			"PROMPT_COMMAND=exit; TMOUT=1; exit 3", "sleep 1.2; echo ok"}, "ok\n", "", 0},
		{"nounset in depth", []string{"set -eu; f() { eval 'echo $nothing'; echo no; }; f; echo no"}, "", "unbound variable", 1},
		{"state after nounset", []string{"x=1; set -u; echo $nothing", "echo $x"}, "1\n", "", 0},
		{"parameter error", []string{"echo ${x:?boom}\necho no"}, "", "boom", 1},
		{"readonly", []string{"readonly r=1; r=2\necho no"}, "", "readonly", 1},
		{"exec of nothing", []string{"exec /no/such; echo on"}, "on\n", "No such file", 0},
		{"no such command", []string{"nosuchcommand"}, "", "nosuchcommand: command not found", 127},

		{"empty input", []string{"read x; echo \"$?\"; cat"}, "1\n", "", 0},
		{"here document without an end", []string{"cat <<X\ntext"}, "text\n", "here-document", 0},
		{"line that goes on", []string{`echo a \`}, "a \\\n", "", 0},
		{"extglob", []string{"shopt -s extglob\ncase abc in !(x)) echo yes;; esac"}, "yes\n", "", 0},
		{"unusual bytes", []string{"printf '%s' $'\\xff\\x01' 'ü\t\xfe\x7f'; echo '\r'"}, "\xff\x01ü\t\xfe\x7f\r\n", "", 0},
		{"binary output", []string{`printf '\0\1\377\0'`}, "\x00\x01\xff\x00", "", 0},
		{"children's output", []string{"sh -c 'echo child; echo err >&2'"}, "child\n", "err\n", 0},
		{"names that are taken", []string{"printf() { echo fake; }; read() { :; }; eval() { :; }; exec() { :; }; local() { :; }; set() { :; " +
			"}; alias if=echo; status=1; readonly status", "unset -f printf; printf ok"}, "ok", "", 0},
		{"settings that confuse", []string{"IFS=0123456789; set -fu; set -o noclobber; LC_ALL=C; shopt -s nocasematch nullglob " +
			"dotglob; unset HOME", "echo ok"}, "ok\n", "", 0},
		{"text like a mark", []string{"printf '\\0deadbeefdeadbeefdeadbeefdeadbeef\\0'"}, "\x00deadbeefdeadbeefdeadbeefdeadbeef\x00", "", 0},
		{"nothing is inherited", []string{"ls /proc/self/fd | sort -n | tail -n +5 | while read n; do readlink /proc/$$/fd/$n; done " +
			"| grep socket"}, "", "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			var got transcript
			for _, code := range c.cells {
				got = s.run(code)
			}
			if got.Lost || got.Error != nil {
				t.Fatalf("ended %q, lost %v, error %v, stderr %q", got.Ended, got.Lost, got.Error, got.Stderr)
			}
			if got.Stdout != c.stdout || got.exit() != c.exit || !strings.Contains(got.Stderr, c.stderr) {
				t.Errorf("got %q, %q, exit %d; want %q, %q, exit %d", got.Stdout, got.Stderr, got.exit(), c.stdout, c.stderr, c.exit)
			}
			if c.stderr == "" && got.Stderr != "" {
				t.Errorf("stderr %q", got.Stderr)
			}
		})
	}
}

func TestShellSyntax(t *testing.T) {
	s := newShell(t)
	for _, c := range []struct{ name, code, want string }{
		{"first line", "echo )", "SyntaxError: line 1: "},
		{"later line", "if true; then\n echo x\nfi\nfor", "SyntaxError: line 4: "},
		{"not closed", "echo a\nif true; then", "unexpected end of file"},
		{"quote", "echo 'abc", "unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.run("echo ran >&2\n" + c.code)
			c.want = strings.NewReplacer("line 1:", "line 2:", "line 4:", "line 5:").Replace(c.want)
			if got.Ended != "error" || !strings.Contains(got.text(), c.want) || got.Stderr+got.Stdout != "" {
				t.Errorf("got %q %q, stderr %q; want %q", got.Ended, got.text(), got.Stderr, c.want)
			}
		})
	}
	if got := s.run("echo on"); got.Stdout != "on\n" {
		t.Errorf("afterwards: %+v", got)
	}
}

func TestShellInterrupt(t *testing.T) {
	for _, c := range []struct{ name, code string }{
		{"child", "echo begun; sleep 100; echo no"},
		{"pipeline", "echo begun; sleep 100 | cat; echo no"},
		{"loop", "echo begun; while :; do :; done"},
		{"loop of children", "echo begun; while :; do sleep 100; echo no; done"},
		{"child that catches it", "while :; do bash -c 'trap \"exit 0\" INT; echo begun; sleep 100'; done; echo no"},
		{"loop of short children", "echo begun; while :; do /bin/true; done"},
		{"function", "f() { echo begun; while :; do sleep 0.01; done; }; f; echo no"},
		{"substitution", "echo begun; x=$(sleep 100; echo no); echo no"},
		{"subshell", "(echo begun; sleep 100; echo no); echo no"},
		{"wait", "sleep 100 & echo begun; wait; echo no"},
		{"in a condition", "echo begun; if sleep 100; then echo no; fi; sleep 100 || echo no"},
		{"eval", "eval 'echo begun; sleep 100; echo no'; echo no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			// from then on it ignores SIGINT
			s.run("kept=1; set -e; sleep 1000 & job=$!; until read -r name </proc/$job/comm && [ $name = sleep ]; do :; done")
			got := s.runInterrupted(c.code)
			if got.Ended != "cancelled" || got.Lost || got.Error == nil || got.Error.Type != "Interrupted" || strings.Contains(got.Stdout, "no") {
				t.Fatalf("got %+v, error %v, exit %d", got, got.Error, got.exit())
			}
			if after := s.run("kill -0 $job; echo $kept"); after.Stdout != "1\n" || after.exit() != 0 {
				t.Errorf("afterwards: %+v", after)
			}
			if strings.Contains(got.Stderr, "set -e is off") {
				return // and only those bytes were lost
			}
			if after := s.run("(exit 4); echo no"); after.exit() != 4 || after.Lost || after.Stdout != "" {
				t.Errorf("errexit afterwards: %+v", after)
			}
		})
	}
}

func TestShellDeath(t *testing.T) {
	for _, code := range []string{"exec true", "kill -9 $$", "builtin exit 3"} {
		t.Run(code, func(t *testing.T) {
			s := newShell(t)
			if got := s.run(code); got.Ended != "dead" || !got.Lost {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestShellLarge(t *testing.T) {
	s := newShell(t)
	t.Run("code", func(t *testing.T) {
		got := s.run("x='" + strings.Repeat("abcdefg\n", 128<<10) + "'\necho ${#x}")
		if got.Stdout != fmt.Sprintln(8*128<<10) {
			t.Errorf("got %q %q", got.Stdout, got.Stderr)
		}
	})
	t.Run("lines of code", func(t *testing.T) {
		got := s.run(strings.Repeat("n=$((n + 1))\n", 50000) + "echo $n")
		if got.Stdout != "50000\n" {
			t.Errorf("got %q %q", got.Stdout, got.Stderr)
		}
	})
	t.Run("one line of output", func(t *testing.T) {
		var n count
		if _, err := s.Run(t.Context(), Cell{Code: "head -c 8000000 /dev/zero | tr '\\0' x; echo", Stdout: &n, Timeout: time.Hour}); err != nil ||
			n != 8000001 {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
	t.Run("value", func(t *testing.T) {
		many := hosttest.Rounds(256<<10, 5<<20)
		text := strings.Repeat("ü\\\"", many)
		if err := s.Set(t.Context(), "big", []byte(`"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)+`"`)); err != nil {
			t.Fatal(err)
		}
		if got := s.run("echo ${#big}"); got.Stdout != fmt.Sprintln(3*many) {
			t.Errorf("got %q", got.Stdout)
		}
		got, err := s.Get(t.Context(), "big")
		if err != nil || len(got) != 6*many+2 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}

type count int64

func (c *count) Write(p []byte) (int, error) {
	*c += count(len(p))
	return len(p), nil
}

func TestShellValues(t *testing.T) {
	s := newShell(t)
	for _, c := range []struct{ name, value, text, get string }{
		{"string", `"a \"b\"\n\\n $HOME ü"`, "a \"b\"\n\\n $HOME ü", `"a \"b\"\n\\n $HOME ü"`},
		{"empty", `""`, "", `""`},
		{"number", `1e400`, "1e400", `"1e400"`},
		{"null", `null`, "null", `"null"`},
		{"true", `true`, "true", `"true"`},
		{"object", `{"a": [1, "x y"]}`, `{"a":[1,"x y"]}`, `"{\"a\":[1,\"x y\"]}"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.run("unset key; declare -a key=(1 2)") // must not stay an array
			if err := s.Set(t.Context(), "key", []byte(c.value)); err != nil {
				t.Fatal(err)
			}
			got := s.run(`printf '%s|' "$key"; cat "$BRIDGE/key.json"`)
			if want := c.text + "|" + c.value; got.Stdout != want {
				t.Errorf("got %q %q, want %q", got.Stdout, got.Stderr, want)
			}
			if got, err := s.Get(t.Context(), "key"); err != nil || string(got) != c.get {
				t.Errorf("got %s %v, want %s", got, err, c.get)
			}
		})
	}
	s.run("a=(x '' 'y z'); e=(); declare -A m=([k]=v [l]=''); declare -i n=4; sparse[5]=five; set -u; readonly r=1; bad=$'a\\xff'")
	for _, c := range []struct{ name, want string }{
		{"a", `["x","","y z"]`}, {"e", `[]`}, {"m", `{"k":"v","l":""}`}, {"n", `"4"`}, {"sparse", `["five"]`}, {"bad", `"a�"`},
		{"nothing", "NameError: nothing is not set"}, {"no-name", "NameError: no-name can't be"}, {"x[$(id)]", "can't be"},
	} {
		t.Run("get "+c.name, func(t *testing.T) {
			got, err := s.Get(t.Context(), c.name)
			if err != nil {
				got = []byte(err.Error())
			}
			if !strings.Contains(string(got), c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	for _, c := range []struct{ name, key, value, want string }{
		{"set a readonly one", "r", `"2"`, "can't be changed"},
		{"set an invalid name", "a b", `"2"`, "can't be the name"},
		{"set a directory elsewhere", "../x", `"2"`, "can't be the name"},
		{"set a NUL byte", "x", `"\u0000"`, "NUL byte"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := s.Set(t.Context(), c.key, []byte(c.value)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestShellVariables(t *testing.T) {
	s := newShell(t)
	s.run("x=hello; declare -a list=(1 2 3); declare -A m=([k]=v); declare -i n=7; f() { :; }; cd /")
	list, err := s.Variables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range list {
		got = append(got, fmt.Sprintf("%s %s %s %d %s", v.Name, v.Type, v.Text, v.Size, v.Unit))
	}
	want := "list array ([0]=1 [1]=2 [2]=3) 3 elements\nm map ([k]=v) 1 elements\nn integer 7 1 bytes\nx string hello 5 bytes"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

func TestShellEnvironment(t *testing.T) {
	s := newShell(t)
	s.cell(t.Context(), Cell{Code: ":", Env: []string{"K=a b\nc", "E="}})
	if got := s.run(`sh -c 'printf "%s|$E" "$K"'`); got.Stdout != "a b\nc|" {
		t.Errorf("got %q %q", got.Stdout, got.Stderr)
	}
}

func TestShellInSandbox(t *testing.T) {
	s := sandboxed(t, "shell", backends.Limits{})
	for _, c := range []struct{ code, want string }{
		{"x=1; set -eu; pwd; echo $BRIDGE", "/workspace\n/workspace/.bridge\n"},
		{"echo $nothing", ""},
		{"exit 3", ""},
		{"echo $x; sort <<<$'b\\na'", "1\na\nb\n"},
	} {
		if got := s.run(c.code); got.Stdout != c.want || got.Lost {
			t.Errorf("%s: %+v", c.code, got)
		}
	}
	got := s.cell(t.Context(), Cell{Code: "sleep 100; echo no", Timeout: 300 * time.Millisecond, Grace: time.Minute})
	if got.Ended != "timeout" || got.Lost || got.Stdout != "" {
		t.Errorf("interrupt: %+v", got)
	}
	if err := s.Set(t.Context(), "k", []byte(`{"a":1}`)); err != nil {
		t.Error(err)
	}
	if got := s.run("echo $k; cat .bridge/k.json"); got.Stdout != "{\"a\":1}\n{\"a\":1}" {
		t.Errorf("got %+v", got)
	}
}

func BenchmarkShell(b *testing.B) {
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			newShell(b).Close()
		}
	})
	b.Run("cell", func(b *testing.B) {
		s := newShell(b)
		for b.Loop() {
			if _, err := s.Run(b.Context(), Cell{Code: "echo hi", Stdout: io.Discard, Timeout: time.Minute}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
