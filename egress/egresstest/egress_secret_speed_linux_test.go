package egresstest

import (
	"encoding/json"
	"net/http"
	"testing"
)

// TestSecretSpeed tells what a bound secret costs a small request, beside a name without one in the same run.
func TestSecretSpeed(t *testing.T) {
	a := &api{value: newValue()}
	w := newWorld(t, map[string]http.Handler{bound: a.own(), "front.test": a.own()})
	w.bind(t, "", "API_KEY", a.value, "--host", bound)
	r := w.run("", "secret_speed.py", "--secret", "API_KEY", "--allow", bound, "--allow", "front.test")
	var took map[string][2]float64
	if err := json.Unmarshal([]byte(r.Stdout), &took); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	relayed, spliced := took[bound], took["front.test"]
	for i, what := range []string{"new connection", "kept connection"} {
		t.Logf("%s: %.2f ms with a secret, %.2f ms without", what, relayed[i], spliced[i])
		if relayed[i] > 10*spliced[i]+20 {
			t.Errorf("%s: too slow", what)
		}
	}
}
