package main

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// After another process rotated the log, the people's API and the page still show rows of all its files.
func TestRotatedBesideServer(t *testing.T) {
	requireFeatures(t, "sandbox")
	s := &fullServer{t: t, home: t.TempDir(), tokens: map[string]string{}}
	s.start()
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	var runs []string
	for range 3 {
		var ran struct {
			Result struct {
				RequestID string `json:"request_id"`
			}
		}
		s.getJSON(&ran, "POST", "/v1/tools/execute_code", "f1", `{"language":"shell","code":"echo hi"}`)
		runs = append(runs, ran.Result.RequestID)
		if len(runs) == 3 {
			break
		}
		if out, err := command(t.Context(), t, s.home, "audit", "rotate").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	_, entrance := s.request("GET", "/", "", "")
	room := "/" + regexp.MustCompile(`~[a-z2-7]{32}`).FindString(entrance)
	in, text := s.request("POST", room+"/enter", "", url.Values{"bearer": {s.tokens["p"]}}.Encode(), "Content-Type",
		"application/x-www-form-urlencoded", "Origin", "http://localhost")
	if len(in.Cookies()) == 0 {
		t.Fatalf("not let in: %s %s", in.Status, text)
	}
	page := func(path string) string {
		res, text := s.request("GET", room+path, "", "", "Cookie", in.Cookies()[0].Name+"="+in.Cookies()[0].Value)
		if res.StatusCode != 200 {
			t.Errorf("%s: %s %s", path, res.Status, text)
		}
		return text
	}
	_, found := s.request("GET", "/v1/log?kind=execution.completed", "p", "")
	ran := page("/ran")
	for _, id := range runs {
		if !strings.Contains(found, id) || !strings.Contains(ran, id) || !strings.Contains(page("/run?id="+id), id) {
			t.Errorf("run %s is not found, of %q: %s", id, runs, found)
		}
		var story struct{ Rows []struct{ Kind string } }
		if s.getJSON(&story, "GET", "/v1/log/"+id, "p", ""); len(story.Rows) < 2 {
			t.Errorf("the story of run %s is %+v", id, story)
		}
		var evidence struct{ Proof string }
		if s.getJSON(&evidence, "GET", "/v1/log/"+id+"/evidence", "p", ""); evidence.Proof == "" {
			t.Errorf("run %s has no proof", id)
		}
	}
	var figures struct {
		Days []struct {
			Day  string
			Runs int
		}
	}
	s.getJSON(&figures, "GET", "/v1/figures", "p", "")
	sum := 0
	for _, d := range figures.Days { // two, at midnight
		sum += d.Runs
	}
	if sum != len(runs) {
		t.Errorf("figures of %d runs, want %d", sum, len(runs))
	}
	if charts := page("/charts"); sum > 0 && !strings.Contains(charts, figures.Days[0].Day) {
		t.Errorf("no figures are shown: %s", charts)
	}
}
