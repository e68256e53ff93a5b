package control

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// mayBeBlank are the arguments for which an empty value is valid, and the meaning of that value.
var mayBeBlank = map[string]string{
	"code": "a program without a statement", "reason": "none", "value": "any JSON is a value of a variable",
}

// TestNothingIsNotAll sends each argument of each operation of people as an empty value or one of another type. Such an
// argument is refused and not treated as an absent one, which may ask for more. A new operation or argument is sent,
// too.
func TestNothingIsNotAll(t *testing.T) {
	p := overHTTP(t)
	sent := 0
	for _, o := range Operations() {
		method, path, _ := strings.Cut(o.Route, " ")
		for _, name := range o.In.Names() {
			if strings.Contains(path, "{"+name+"}") || mayBeBlank[name] != "" {
				continue
			}
			at := strings.ReplaceAll(path, "{id}", "01ABCDEFGHJKMNPQRSTVWXYZ00")
			var tries [][2]string // path and body
			if method == http.MethodGet || method == http.MethodDelete || o.Content != "" {
				for _, value := range []string{"", "+"} {
					tries = append(tries, [2]string{at + "?" + name + "=" + value, ""})
				}
			} else {
				for _, value := range []string{`null`, `""`, `" "`, `[]`, `[""]`, `[null]`, `{}`} {
					if value == `{}` && name == "limits" {
						continue // each limit in it is left out
					}
					tries = append(tries, [2]string{at, `{"` + name + `":` + value + `}`})
				}
			}
			for _, try := range tries {
				sent++
				status, text := p.refusal(t, method, try[0], try[1])
				if status != http.StatusBadRequest || !strings.Contains(text, `\"`+name+`\"`) {
					t.Errorf("%s %s %s: got %d %s", method, try[0], try[1], status, text)
				}
			}
		}
	}
	if sent < 150 {
		t.Errorf("only %d were sent", sent)
	}
}

// refusal sends one request of a person of all namespaces, and reads the answer if it is a refusal: others may have no
// end.
func (p people) refusal(t *testing.T, method, path, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
	must(t, err)
	req.Header.Set(who, "all")
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusBadRequest {
		refusal, err := io.ReadAll(resp.Body)
		must(t, err)
		text = string(refusal)
	}
	return resp.StatusCode, text
}

// TestNobodyIsNotAll: a requester without an identity, or with one that has no namespaces, sees and reaches nothing.
func TestNobodyIsNotAll(t *testing.T) {
	if by := (requester{}); by.sees("") || by.sees("default") || by.seesAll() || by.checkNamespace("default") == nil {
		t.Error("nobody sees something")
	}
}
