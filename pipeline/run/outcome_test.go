package run_test

import (
	"encoding/json"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/status"
)

// TestJSON pins the keys of values that are returned, written to rows and stored, in whatever package the type is.
func TestJSON(t *testing.T) {
	const decisions = `[{"name":"a.example","port":443,"allowed":true,"reason":"allowed by a.example","count":2,"sent":10,"received":20},` +
		`{"name":"b.example","allowed":true,"failed":true,"reason":"no such host"},{"name":"c.example","port":80,"allowed":false,"reason":"not among","ask":"c.example"}]`
	const result = `{"id":"1","namespace":"n","language":"python","name":"a.py","backend":"process","profile":"hardened","ended":"ok","exit_code":0,` +
		`"stdout":"","stderr":"","stdout_cut":0,"stderr_cut":0,"packages":[{"name":"a","version":"1","hash":"sha256:x","requested":true},{"name":"b","version":"","hash":"","requested":false}],` +
		`"artifacts":[{"name":"a.png","size":3,"sha256":"ab","mime":"image/png"},{"name":"b","size":0,"sha256":"","mime":"","withheld":"a secret"}],` +
		`"egress":` + decisions + `,"layers":[{"name":"user","in_force":true,"detail":"uid 1"},{"name":"pid","in_force":false}],` +
		`"timings":{"validate":0,"queue":0,"vault":0,"egress":0,"start":0,"exec":0,"sign":0,"audit":0,"total":0},"wall_ms":0,"cpu_ms":0,"peak_memory":0}`
	const stats = `{"began":"0001-01-01T00:00:00Z","running":0,"waiting":0,"slots":0,"runs":null,"sessions":null,"jobs":0,"p50_ms":0,"p90_ms":0,"p99_ms":0,` +
		`"pools":[{"backend":"process","language":"python","ready":1,"memory":2,"hits":3,"misses":4,"cold":{"busy":4}},{"backend":"process","language":"r","ready":0,"memory":0,"hits":0,"misses":0}]}`
	for _, c := range []struct {
		want string
		into any
	}{{result, new(pipeline.Outcome)}, {stats, new(status.Stats)}} {
		if err := json.Unmarshal([]byte(c.want), c.into); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(c.into); err != nil || string(got) != c.want {
			t.Errorf("%T: got %s, %v, want %s", c.into, got, err, c.want)
		}
	}
}
