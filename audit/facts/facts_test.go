package facts

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

func TestSummary(t *testing.T) {
	for _, tt := range []struct{ kind, data, want string }{
		{"execution.started", `{"name":"a.py"}`, "a.py"},
		{"execution.started", `{"language":"python"}`, "python"},
		{"execution.completed", `{"name":"a.py","ended":"exit","exit_code":3,"wall_ms":1234}`, "a.py exit 3 in 1.23 s"},
		{"execution.completed", `{"name":"a.py","ended":"ok","missing_layers":["cgroup","time"]}`, "a.py ok without cgroup, time"},
		{"execution.completed", `{"name":"a.py","ended":"signal","signal":"SIGSEGV"}`, "a.py SIGSEGV"},
		{"execution.failed", `{"name":"a.py","ended":"limit","limit":"memory"}`, "a.py limit of memory"},
		{"execution.timeout", `{"name":"a.py","ended":"timeout"}`, "a.py timeout"},
		{"execution.refused", `{"name":"a.py","ended":"refused","reason":"no Landlock"}`, "a.py: no Landlock"},
		{"egress.denied", `{"name":"evil.example","reason":"nobody allowed it"}`, "evil.example: nobody allowed it"},
		{"egress.approved", `{"name":"example.com","port":443,"reason":"allowed"}`, "example.com:443: allowed"},
		{"egress.approved", `{"name":"example.com","port":443,"bytes":7}`, "example.com:443 7 bytes"},
		{"egress.denied", `{"reason":"and 3 more"}`, "and 3 more"},
		{"egress.requested", `{"kind":"egress","what":"example.com","client":"agent","reason":"to fetch"}`,
			`example.com asked by agent for "to fetch"`},
		{"egress.approved", `{"kind":"egress","what":"example.com","by":"cli","user":"ann","scope":"run","until":"2026-01-01T00:00:00Z"}`,
			"example.com by ann (cli) for the run until 2026-01-01T00:00:00Z"},
		{"egress.revoked", `{"kind":"egress","what":"example.com","by":"cli"}`, "example.com by cli"},
		{"approval.denied", `{"kind":"host","what":"git push","by":"cli","user":"ann"}`, "host git push by ann (cli)"},
		{"approval.denied", `{"kind":"host","what":"git push","by":"http","user":"ann","identity":"token:ada"}`,
			"host git push by token:ada (http)"},
		{"token.created", `{"name":"ci","kind":"agent","by":"command line","user":"ann","until":"2026-01-01T00:00:00Z"}`,
			"ci agent by ann (command line) until 2026-01-01T00:00:00Z"},
		{"vault.accessed", `{"secrets":["A","B"]}`, "A, B"},
		{"vault.added", `{"name":"A","hosts":["example.com"]}`, "A for example.com"},
		{"vault.deleted", `{"name":"A"}`, "A"},
		{"session.created", `{"language":"python","backend":"podman","layers":[{"name":"user"}]}`, "python in podman"},
		{"session.killed", `{"language":"python","why":"idle","cells":1,"restarts":2}`, "python idle 1 cell 2 restarts"},
		{"session.bridged", `{"session":"S","from":"R","key":"x","bytes":5}`, `"x" from R into S 5 bytes`},
		{"package.installed", `{"language":"python","packages_installed":[{"name":"numpy","version":"2.1"},{"name":"x"}]}`,
			"python numpy 2.1, x"},
		{"resource.exceeded", `{"limit":"memory","hit":["disk","memory"]}`, "limit of memory, disk"},
		{"artifact.signed", `{"artifacts":1}`, "1 artifact"},
		{"limits.changed", `{"session":"S","limits":{"ram_bytes":1}}`, `limits {"ram_bytes":1}, session S`},
		{"key.created", `{"key":"ab"}`, "ab"},
		{"key.rotated", `{"key":"ab","replaces":"cd"}`, "ab in the place of cd"},
		{"audit.deleted", `{"first":1,"last":9}`, "rows 1 to 9"},
		{"audit.lost", `{"first":3,"last":9,"until":"2026-01-01T00:00:00Z"}`, "rows 3 to 9"},
		{"novel", `{"b":"text","a":1,"long":"` + string(slices.Repeat([]byte("x"), 100)) + `"}`, "a 1, b text"},
		{"execution.completed", `{"name":7,"ended":"ok"}`, "ok"}, // values of the wrong type are ignored
		{"execution.completed", `not JSON`, ""},
		{"execution.completed", `[1]`, ""},
		{"", `{}`, ""},
	} {
		if got := Summary(audit.Row{Kind: tt.kind, Data: json.RawMessage(tt.data)}); got != tt.want {
			t.Errorf("%s %s: got %q, want %q", tt.kind, tt.data, got, tt.want)
		}
	}
}

func TestNames(t *testing.T) {
	for text, want := range map[string][]string{
		`["a","b"]`: {"a", "b"}, `[{"name":"a","x":1},{"x":1}]`: {"a"}, `"a"`: {"a"}, `null`: nil, `7`: nil, `[[1],"",null,"c"]`: {"c"},
		`{}`: nil,
	} {
		n := Names{"old"}
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if text != "null" && !slices.Equal(n, want) {
			t.Errorf("%s: got %v, want %v", text, n, want)
		}
	}
}

// FuzzOf reads data from an untrusted writer.
func FuzzOf(f *testing.F) {
	f.Add("egress.denied", []byte(`{"name":"a","egress":[{"port":"x"}],"secrets":{"name":"b"}}`))
	f.Add("session.killed", []byte(`{"cells":1e99}`))
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		Summary(audit.Row{Kind: kind, Data: data})
	})
}
