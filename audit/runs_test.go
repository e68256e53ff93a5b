package audit

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
)

// madeRuns makes rows and receipts like those of a server's runs, each with other hashes, times and numbers, but
// all with one key and one policy, as on a machine.
type madeRuns struct {
	*rand.Rand
	key, policy string
}

func newRuns(seed uint64) *madeRuns {
	m := &madeRuns{Rand: rand.New(rand.NewPCG(seed, seed))}
	m.key, m.policy = m.hash(), m.hash()
	return m
}

func (m *madeRuns) hash() string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, m.Uint64())))
}

var (
	madeLayers = strings.Fields("user mount pid net ipc uts cgroupns time landlock seccomp caps nnp cgroup rlimit")
	madeLimits = map[string]any{"cpu_cores": 1, "disk_bytes": 512 << 20, "output_bytes": 1 << 20, "processes": 256, "ram_bytes": 512 << 20,
		"wall_seconds": 60}
)

// run returns the rows of a run: its start, possibly some others, and its end with a receipt.
func (m *madeRuns) run() []Entry {
	id, language, ended, code := ulid.MustNew(1790000000000+m.Uint64N(1e10), ulid.Monotonic(m.reader(), 0)).String(), "python", "ok", m.hash()
	if m.IntN(4) == 0 {
		language = "shell"
	}
	if m.IntN(30) == 0 {
		ended = "exit"
	}
	name := map[string]string{"python": "script.py", "shell": "script.sh"}[language]
	began := fmt.Sprintf("2026-11-%02dT%02d:%02d:%02d.%09dZ", 1+m.IntN(28), m.IntN(24), m.IntN(60), m.IntN(60), m.IntN(1e9))
	start := map[string]any{"backend": "process", "client": "claude-code 2.0.1", "code_bytes": m.IntN(4000), "code_sha256": code,
		"language": language, "limits": madeLimits,
		"name": name, "profile": "hardened", "require": madeLayers[:12], "user": "ann"}
	end := map[string]any{"artifacts": 0, "began": began, "cpu_ms": float64(m.IntN(90000)) / 1000, "ended": ended, "exit_code": 0,
		"layers":      madeLayers,
		"peak_memory": m.IntN(1<<13) << 12, "policy_sha256": m.policy, "queue_us": m.IntN(50), "wall_ms": float64(m.IntN(300000)) / 1000,
		"timings_us": map[string]any{"egress": m.IntN(60), "exec": m.IntN(300000), "queue": m.IntN(50), "sign": m.IntN(900),
			"start": m.IntN(9000), "validate": m.IntN(200), "vault": m.IntN(2)}}
	for k, v := range start {
		end[k] = v
	}
	subjects := []any{map[string]any{"name": "code:" + code, "digest": map[string]any{"sha256": code}}}
	entries := []Entry{{Kind: "execution.started", Run: id, Namespace: "default", Data: start}}
	if m.IntN(12) == 0 {
		files := m.hash()
		end["artifacts"], end["artifacts_sha256"] = 1, files
		end["artifact_list"] = []any{map[string]any{"name": "out.csv", "size": m.IntN(9000), "sha256": files,
			"mime": "text/plain; charset=utf-8"}}
		entries = append(entries, Entry{Kind: "artifact.signed", Run: id, Namespace: "default",
			Data: map[string]any{"artifacts": 1, "artifacts_sha256": files}})
	}
	if m.IntN(20) == 0 {
		reason := "pypi.org is not among the allowed domains: ask for the domain pypi.org"
		end["egress"], end["egress_decisions"] = []any{map[string]any{"name": "pypi.org", "allowed": false, "reason": reason, "ask": "pypi.org",
			"count": 1}}, 1
		entries = append(entries, Entry{Kind: "egress.denied", Run: id, Namespace: "default",
			Data: map[string]any{"name": "pypi.org", "reason": reason}})
	}
	statement, err := json.Marshal(map[string]any{"_type": "https://in-toto.io/Statement/v1", "subject": subjects,
		"predicateType": "https://github.com/sandboxmcp/sandboxmcp/receipt/v1",
		"predicate": map[string]any{"run": id, "namespace": "default", "language": language, "name": name, "code_sha256": code,
			"policy_sha256": m.policy, "backend": "process",
			"profile": "hardened", "layers": madeLayers, "missing_layers": []int{}, "secrets": []int{}, "egress": []int{}, "ended": ended,
			"exit_code": 0, "began": began, "finished": began,
			"stdout_sha256": m.hash(), "stdout_bytes": m.IntN(900), "stderr_sha256": fmt.Sprintf("%x", sha256.Sum256(nil)), "stderr_bytes": 0,
			"artifacts_withheld": []int{}, "version": "1.0.0"}})
	if err != nil {
		panic(err)
	}
	return append(entries, Entry{Kind: "execution.completed", Run: id, Namespace: "default", Data: end, Receipt: m.envelope(statement)})
}

func (m *madeRuns) envelope(payload []byte) []byte {
	sig := make([]byte, 64)
	m.reader().Read(sig)
	text := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `{"payloadType":"application/vnd.in-toto+json","payload":"%s","signatures":[{"keyid":"%s","sig":"%s"}]}`,
		text(payload), m.key, text(sig))
}

// reader returns the source of a run's random values.
func (m *madeRuns) reader() *rand.ChaCha8 {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(m.Uint32())
	}
	return rand.NewChaCha8(seed)
}

// fillRuns appends the rows of runs until there are at least n, and returns the number of runs.
func fillRuns(t testing.TB, l *Log, n int) (runs int) {
	t.Helper()
	m := newRuns(1)
	for rows := 0; rows < n; {
		var batch []Entry
		for len(batch) < 1000 && rows+len(batch) < n {
			batch, runs = append(batch, m.run()...), runs+1
		}
		if _, err := l.Append(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
		rows += len(batch)
	}
	return runs
}
