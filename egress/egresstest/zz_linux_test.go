package egresstest
import ("testing";"net/http")
func TestZZ(t *testing.T){
	a := &api{value: newValue()}
	w := newWorld(t, map[string]http.Handler{bound: http.NotFoundHandler(), "front.test": http.NotFoundHandler()})
	w.bind(t, "", "API_KEY", a.value, "--host", bound)
	r := w.run("", "zz_up.sh", "--secret", "API_KEY", "--allow", bound, "--allow", "front.test")
	t.Log(r.Stdout, r.Stderr)
}
