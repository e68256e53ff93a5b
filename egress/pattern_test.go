package egress

import "testing"

func TestCanonical(t *testing.T) {
	for text, want := range map[string]string{
		"EXAMPLE.com.": "example.com", "*.Example.com": "*.example.com", "example.com:5432": "example.com:5432",
		"example.com.:80":      "example.com:80",
		"g\u043e\u043egle.com": "xn--ggle-55da.com", "*.b\u00fccher.example:443": "*.xn--bcher-kva.example:443", "*": "*", "a b.com": "",
		"127.0.0.1": "", "": "",
	} {
		got, err := Canonical(text)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
		if again, _ := Canonical(got); got != "" && again != got {
			t.Errorf("%q is %q", got, again)
		}
	}
}
