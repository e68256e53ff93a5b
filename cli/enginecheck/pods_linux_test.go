package enginecheck_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/kubernetes"
)

// newPods returns a scene whose servers use the cluster of KUBECONFIG, in the namespace default.
func newPods(t *testing.T) *scene {
	t.Helper()
	own, plain := enginetest.NodeImage(t, enginetest.Own), enginetest.NodeImage(t, enginetest.Plain)
	s := &scene{kind: kubernetes.Name, program: testProgram(t), dir: stateDir(t)}
	os.Mkdir(s.dir+"/run", 0o700)
	text := fmt.Sprintf("backend: kubernetes\nimages: {python: %[1]q, node: %[1]q, shell: %[1]q}\ncontainers: {pull: never}\n"+
		"kubernetes: {kubeconfig: %[2]q, namespace: default, image: %[3]q, overcommit: 20}\n", plain, enginetest.Kubeconfig, own)
	if err := os.WriteFile(s.config(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// podsLeft lists the pods of a scene's servers.
func (s *scene) podsLeft(t *testing.T) (names []string) {
	t.Helper()
	engine := kubernetes.New(kubernetes.Config{Kubeconfig: enginetest.Kubeconfig, Namespace: "default", Image: "none"})
	defer engine.Close()
	if _, err := engine.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := engine.List(context.Background(), container.LabelState)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.ID)
	}
	return names
}

// isRefusal reports whether a tool's response is an error that contains text.
func isRefusal(answer, text string) bool {
	return strings.Contains(answer, `"isError":true`) && strings.Contains(answer, text)
}

// TestProductInPods uses an MCP server whose sandboxes are pods: code, sessions of each language that keep their
// variables, and packages, which are refused with a reason.
func TestProductInPods(t *testing.T) {
	s := newPods(t)
	v := s.serve(t)
	if out := v.call("execute_code", map[string]any{"language": "python", "code": "print(6 * 7)"}); !strings.Contains(out, `\n42\n`) {
		t.Errorf("a program: %s", out)
	}
	for language, cells := range map[string][2]string{
		"python": {"x = 41", "print(x + 1)"},
		"node":   {"globalThis.x = 41", "console.log(x + 1)"},
		"shell":  {"x=41", "echo $((x + 1))"},
	} {
		made := v.call("create_session", map[string]any{"language": language})
		id := textBetween(made, "session_id: ", `\n`)
		if id == "" {
			t.Errorf("%s: no session: %s", language, made)
			continue
		}
		v.call("execute_code", map[string]any{"session_id": id, "code": cells[0]})
		if out := v.call("execute_code", map[string]any{"session_id": id, "code": cells[1]}); !strings.Contains(out, `\n42\n`) {
			t.Errorf("%s: %s", language, out)
		}
		if language != "shell" {
			if out := v.call("install_package", map[string]any{"session_id": id, "packages": []string{"tone"}}); !isRefusal(out,
				"packages can't be installed here: kubernetes runs elsewhere") {
				t.Errorf("%s: packages: %s", language, out)
			}
		}
		if out := v.call("terminate_session", map[string]any{"session_id": id}); strings.Contains(out, `"isError":true`) {
			t.Errorf("%s: %s", language, out)
		}
	}
	if out := v.call("create_session", map[string]any{"language": "python", "packages": []string{"tone"}}); !isRefusal(out,
		"packages can't be installed here") {
		t.Errorf("a session with packages: %s", out)
	}
	if out := v.call("list_runtimes", map[string]any{"packages": true}); strings.Contains(out, "can't mount") {
		t.Errorf("list_runtimes: %s", out)
	}
	v.stop()
	hosttest.Until(t, "no pod is left", func() bool { return len(s.podsLeft(t)) == 0 })
}
