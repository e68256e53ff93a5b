package validate

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestShellAsBash compares with this machine's bash: a script that bash -n accepts, or that bash runs to its end,
// is never refused.
func TestShellAsBash(t *testing.T) {
	bash := hosttest.Program(t, "bash")
	scripts := []string{
		"echo", "if true; then echo; fi", "if then", "if true; then", "for i in 1 2; do", "while :; do echo", "fi", "esac",
		"then", "}", "{", "(", ")", "((", "((1+2))", "$((", "'", "\"", "`", "echo 'a'b\"c", "cat <<E", "cat <<E\n$(", "a=(", "a=(1 2)",
		"case a in a) echo;; esac", "case a in a)", "function f { echo; }", "f() echo", "f()", "select x in 1; do :; done", "coproc x { :; }",
		"[[ a = b", "[[ a =~ (b|c) ]]", "echo $[1+2]", "echo ${a", "echo ${a@Q}", "! ! true", "!", "a[1 2]=3", "declare -A a=([x]=1)",
		"exit 0\nif then '", "exec true\ndone", "f() { exit 1; }\n'", "shopt -s expand_aliases\nalias begin=if\nbegin true; then :; fi",
		"eval 'alias x=\"if true; then\"'; shopt -s expand_aliases\nx echo; fi", "set -o noexec\nfi", "return\nfi", "kill $$\nfi",
		"# exit\nfi", ". ./x\nfi", "echo a.b\nfi", "time", "time -p", "a=b c=d", "for ((;;)) do break; done", "for ((i=0;i<1;i++)) { echo; }",
		"diff <(echo) <(echo)", "echo {1..3}", "shopt -s extglob\necho !(a)", "echo a |& cat", "echo &>x", "echo \\", "\\", "echo é 'ü",
		"<<<a cat",
	}
	for _, script := range scripts {
		_, bad := check(t, Code{Name: "a.sh", Source: []byte(script)})
		if bad == nil {
			continue
		}
		cmd := exec.Command(bash, "-n")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("%q: refused, and bash takes it: %v %s", script, bad, out)
		}
	}
	for _, script := range []string{"exit 0\nfi", "exec true\n'", "kill $$\nfi"} {
		if _, bad := check(t, Code{Name: "a.sh", Source: []byte(script)}); bad != nil {
			t.Errorf("%q: refused, and bash never comes to the error: %v", script, bad)
		}
	}
}
