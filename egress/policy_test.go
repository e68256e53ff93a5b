package egress

import (
	"slices"
	"strings"
	"testing"
	"unicode"
)

func policy(t testing.TB, allow, deny []string) Policy {
	t.Helper()
	p, err := NewPolicy(allow, deny)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDecide(t *testing.T) {
	some := policy(t,
		[]string{"example.com", "*.example.org", "db.example.com:5432", "Bücher.example", "*.co.jp.example:8443", "a_b.example.com",
			"two.example", "two.example:8080", "x.two.example:9", "*.two.example", "intranet", "trail.example.", "*.githubusercontent.com"},
		[]string{"bad.example.org", "*.evil.example.org", "two.example:8080", "*.two.example:443"})
	tests := []struct {
		name   string
		host   string
		port   int
		allow  bool
		reason string
	}{
		{"exact", "example.com", 443, true, "allowed by example.com"},
		{"exact, plain HTTP", "example.com", 80, true, "allowed by example.com"},
		{"case", "EXAMPLE.Com", 443, true, "allowed by example.com"},
		{"final dot", "example.com.", 443, true, "allowed by example.com"},
		{"final dot in the pattern", "trail.example", 443, true, ""},
		{"other port", "example.com", 22, false, "example.com is allowed on ports 80 and 443, not on port 22: ask for the domain example.com:22"},
		{"below exact", "www.example.com", 443, false, "ask for the domain www.example.com"},
		{"prefix", "notexample.com", 443, false, "not among"},
		{"suffix", "example.com.evil.test", 443, false, "not among"},
		{"wildcard", "a.example.org", 443, true, "allowed by *.example.org"},
		{"wildcard, deep", "a.b.c.d.example.org", 443, true, "allowed by *.example.org"},
		{"wildcard, apex", "example.org", 443, false, "not among"},
		{"wildcard, prefix", "aexample.org", 443, false, "not among"},
		{"wildcard with a port", "a.co.jp.example", 8443, true, ""},
		{"wildcard with another port", "a.co.jp.example", 443, false, "on port 8443, not on port 443"},
		{"company's suffix", "raw.githubusercontent.com", 443, true, ""},
		{"denied", "bad.example.org", 443, false, "the policy denies bad.example.org"},
		{"below denied", "x.bad.example.org", 443, true, ""},
		{"denied below", "x.evil.example.org", 443, false, "the policy denies *.evil.example.org"},
		{"apex of denied below", "evil.example.org", 443, true, ""},
		{"denied on any port", "bad.example.org", 9999, false, "the policy denies"},
		{"denied on one port", "two.example", 8080, false, "the policy denies two.example"},
		{"not denied on the others", "two.example", 443, true, ""},
		{"denied beats exact", "x.two.example", 443, false, "the policy denies *.two.example"},
		{"both exact and wildcard", "x.two.example", 9, true, ""},
		{"wildcard under exact", "x.two.example", 80, true, "allowed by *.two.example"},
		{"explicit port", "db.example.com", 5432, true, ""},
		{"explicit port only", "db.example.com", 443, false, "on port 5432, not on port 443"},
		{"international", "bücher.example", 443, true, "allowed by xn--bcher-kva.example"},
		{"international, upper case", "BÜCHER.EXAMPLE", 443, true, ""},
		{"international, decomposed", "bu\u0308cher.example", 443, true, ""},
		{"international, encoded", "xn--bcher-kva.example", 443, true, ""},
		{"international, encoded, case", "XN--BCHER-KVA.example", 443, true, ""},
		{"fullwidth letters are the same name", "\uff45xample.com", 443, true, ""},
		{"ideographic dot", "example\u3002com", 443, true, ""},
		{"homograph", "ex\u0430mple.com", 443, false, "not among"}, // Cyrillic a
		{"underscore", "a_b.example.com", 443, true, ""},
		{"single label", "intranet", 80, true, ""},
		{"port 0", "example.com", 0, false, "not a TCP port"},
		{"negative port", "example.com", -443, false, "not a TCP port"},
		{"port too large", "example.com", 65536 + 443, false, "not a TCP port"},
		{"unknown", "unknown.test", 22, false, "ask for the domain unknown.test:22"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := some.Decide(tt.host, tt.port)
			if d.Allowed != tt.allow || !strings.Contains(d.Reason, tt.reason) || d.Port != tt.port {
				t.Errorf("got %+v, want %v %q", d, tt.allow, tt.reason)
			}
		})
	}
}

// open returns the most permissive policy, so that every refusal is for its own reason.
func open(t testing.TB) Policy {
	return policy(t, []string{
		"example.com", "*.example.com", "*.nip.io", "*.internal.example", "*.a.test", "*.b.a.test", "intranet",
	}, nil)
}

// TestNoNames has texts that are invalid names under any policy.
func TestNoNames(t *testing.T) {
	tests := []struct {
		want  string
		hosts []string
	}{
		{"addresses can't be allowed", []string{
			"127.0.0.1", "1.2.3.4", "127.1", "127.0.1", "2130706433", "0", "0x7f000001", "0x7F.1", "0x7f.0x0.0x0.0x1", "0X7f000001",
			"017700000001", "0177.0.0.1", "127.0.0.1.", "1.2.3.4.5", "999.999.999.999", "example.com.1", "example.com.0x1", "0x", "1.0x",
			"127.0.0.0x1", "08", "256", "4294967296", "99999999999999999999999", "00000000000000000000000127.0.0.1",
			"::1", "[::1]", "[::1]:443", "::", "::ffff:127.0.0.1", "::ffff:7f00:1", "0:0:0:0:0:ffff:7f00:0001", "64:ff9b::127.0.0.1",
			"64:ff9b:1::a00:1", "2002:7f00:1::", "2001:0:7f00:1::", "fe80::1%eth0", "fe80::1%25eth0", "[fe80::1%25lo]", "fc00::1", "ff02::1",
			"127.0.0.1:80", "example.com:443", "1.2.3.4:example.com", "169.254.169.254", "[::ffff:169.254.169.254]", "0xa9fea9fe", "2852039166",
			// Characters that IDNA maps to digits and dots.
			"\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "\u2460.\u2461.\u2462.\u2463", "\U0001d7d9\U0001d7da\U0001d7df.0.0.1",
			"0\uff587f000001", "\u00b2\u00b2",
		}},
		{"localhost is the sandbox itself", []string{"localhost", "LOCALHOST", "localhost.", "a.localhost", "\uff4cocalhost"}},
		{"empty", []string{"", "."}},
		{"empty part", []string{"..", "example..com", ".example.com", "example.com..", "a.\u3002example.com", "xn--.example.com"}},
		{"at most 63", []string{strings.Repeat("a", 64) + ".example.com"}},
		{"at most 253", []string{strings.Repeat("a.", 130) + "example.com", strings.Repeat("a", 1<<20), strings.Repeat("\u00fc", 1<<20),
			strings.Repeat("\u3002", 400)}},
		{"URL or a user name", []string{"user@example.com", "example.com@evil.test", "evil.test#example.com", "evil.test/example.com",
			"evil.test?example.com", "evil.test\\example.com", "example.com/"}},
		{"can't be in a host name", []string{
			"example.com\x00", "example.com\x00.evil.test", "evil.test\x00.example.com", "\x00", "example.com ", " example.com", "example.com\n",
			"evil.test\r\nHost example.com", "exam\tple.com", "*.example.com", "*", "a*.example.com", "%65xample.com", "example%2ecom",
			"evil.test,example.com",
			"(example.com)", "example.com;", "example.com\x7f", "a=b.example.com", "$(id).example.com", "a'b.example.com", "~.example.com",
			"!.example.com", "127.0.0.1 example.com",
		}},
		{"not UTF-8", []string{"example.com\xff", "\xc0\xae.example.com", "ex\xe4mple.com"}},
		{"hyphen", []string{"-.example.com", "-a.example.com"}},
		{"international", []string{"xn--a.example.com", "xn--example-.example.com", "xn--ls8h\u3002xn--0.example.com", "\u0300.example.com",
			"a\u200db.example.com", "xn--0.xn--0", "\ufdd0.example.com",
			"\u05d0a.example.com"}},
	}
	p := open(t)
	for _, tt := range tests {
		for _, host := range tt.hosts {
			d := p.Decide(host, 443)
			if d.Allowed {
				t.Errorf("%.100q is allowed: %s", host, d.Reason)
			}
			if !strings.Contains(d.Reason, tt.want) {
				t.Errorf("%.100q: %q, want %q", host, d.Reason, tt.want)
			}
			showDecision(t, d)
			for _, prefix := range []string{"", "*."} {
				if _, err := NewPolicy([]string{prefix + host}, nil); err == nil && host != "*.example.com" && host != "example.com:443" {
					t.Errorf("the pattern %.100q is taken", prefix+host)
				}
			}
		}
	}
}

// showDecision fails for decisions that are not a short, printable line.
func showDecision(t testing.TB, d Decision) {
	t.Helper()
	if d.Reason == "" || len(d.Reason) > 1000 || len(d.Name) > 500 {
		t.Errorf("a reason of %d bytes, a name of %d", len(d.Reason), len(d.Name))
	}
	for _, r := range d.Name + d.Reason {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) {
			t.Errorf("%U in %q, %q", r, d.Name, d.Reason)
		}
	}
}

func TestZeroPolicy(t *testing.T) {
	var p Policy
	for _, host := range []string{"example.com", "", "localhost", "127.0.0.1", "*"} {
		for _, port := range []int{0, 80, 443} {
			if d := p.Decide(host, port); d.Allowed || d.Reason == "" {
				t.Errorf("%q %d: %+v", host, port, d)
			}
		}
	}
	if got, want := p.Decide("example.com", 443).Reason, "no network is allowed here: to use example.com, ask for the domain example.com"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !p.Empty() || len(p.Ports()) > 0 {
		t.Error("not empty")
	}
	if denied := policy(t, nil, []string{"a.test"}); !denied.Empty() {
		t.Error("a policy that only denies is not empty")
	}
}

func TestPorts(t *testing.T) {
	p := policy(t, []string{"a.test", "b.test:22", "*.c.test:22", "*.c.test:5432", "a.test"}, []string{"d.test:9"})
	if got, want := p.Ports(), []int{22, 80, 443, 5432}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDenyAll(t *testing.T) {
	p := policy(t, []string{"a.test", "b.com", "intranet"}, []string{"*"})
	for _, host := range []string{"a.test", "b.com", "intranet"} {
		if d := p.Decide(host, 443); d.Allowed || d.Reason != "the policy denies *" {
			t.Errorf("%+v", d)
		}
	}
	if d := policy(t, []string{"a.com", "a.test"}, []string{"*.com"}).Decide("a.com", 443); d.Allowed {
		t.Errorf("%+v", d)
	}
}

func TestPatterns(t *testing.T) {
	bad := map[string][]string{
		"would allow every name":     {"*", "*:443"},
		"anyone can register":        {"*.com", "*.co.uk", "*.COM.", "*.xn--p1ai", "*.рф", "*.internal", "*.com:443", "*.test"},
		"can only stand for":         {"**", "**.example.com", "*example.com", "a.*.com", "ex*mple.com", "*.*.example.com", "example.*"},
		"write *.example.com":        {".example.com"},
		"not a URL":                  {"https://example.com", "https://example.com/a?b", "file:///etc/passwd"},
		"is not a port":              {"example.com:", "example.com:0", "example.com:65536", "example.com:-1", "example.com:+443", "example.com:0443", "example.com:443x", "example.com:http", "example.com:*", "example.com:80,443", "example.com:99999999999999999999", "example.com:\u0664"},
		"addresses can't be allowed": {"127.0.0.1", "127.0.0.1:80", "::1", "[::1]:80", "2130706433", "*.0.0.1", "0x7f.1", "10.0.0.0", "a:b:443"},
		"URL or a user name":         {"user@example.com", "example.com/path", "10.0.0.0/8", "user:pass@example.com:443"},
		"the name is empty":          {"", "*.", ":443"},
		"empty part":                 {"a..b", "*..com", "example.com.."},
		"localhost":                  {"localhost", "*.localhost", "a.localhost:8080"},
		"can't be in a host name":    {"example.com\n", "example.com example.org", "a,b.com", " example.com", "example.com\x00"},
		"not a valid international":  {"xn--0.example.com", "\u0300.com"},
		"can't begin with a hyphen":  {"-a.com"},
		"at most":                    {strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 200) + "com"},
	}
	for want, patterns := range bad {
		for _, pattern := range patterns {
			_, err := NewPolicy([]string{"ok.test", pattern}, nil)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %q", pattern, err, want)
				continue
			}
			if !strings.HasPrefix(err.Error(), "allowed domain ") || strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("%q: %q", pattern, err)
			}
		}
	}
	for _, pattern := range []string{"10.0.0.1", "http://x.test", "a.*", ""} {
		if _, err := NewPolicy(nil, []string{pattern}); err == nil || !strings.HasPrefix(err.Error(), "denied domain ") {
			t.Errorf("denied %q: %v", pattern, err)
		}
	}
	if _, err := NewPolicy(make([]string, maxPatterns+1), nil); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("too many: %v", err)
	}
}

func TestLookup(t *testing.T) {
	p := policy(t,
		[]string{"example.com", "db.example.com:5432", "*.example.org", "half.test", "two.test:22", "two.test:2222", "shut.test:22", "gone.test"},
		[]string{"bad.example.org", "half.test:80", "two.test:22", "shut.test:22", "gone.test", "other.test:443"})
	tests := []struct {
		name   string
		allow  bool
		reason string
	}{
		{"example.com", true, "allowed by example.com"},
		{"EXAMPLE.com.", true, "allowed by example.com"},
		{"db.example.com", true, "allowed by db.example.com"},
		{"a.b.example.org", true, "allowed by *.example.org"},
		{"example.org", false, "example.org is not among the allowed domains: ask for the domain example.org"},
		{"bad.example.org", false, "the policy denies bad.example.org"},
		{"half.test", true, "allowed by half.test"},
		{"two.test", true, "allowed by two.test"},
		{"shut.test", false, "the policy denies shut.test"},
		{"gone.test", false, "the policy denies gone.test"},
		{"other.test", false, "other.test is not among the allowed domains: ask for the domain other.test"},
		{"127.0.0.1", false, "addresses can't be allowed"},
		{"localhost", false, "localhost is the sandbox itself"},
		{"", false, "the name is empty"},
		{"a\x00b", false, "can't be in a host name"},
	}
	for _, tt := range tests {
		d := p.Lookup(tt.name)
		showDecision(t, d)
		if d.Allowed != tt.allow || !strings.Contains(d.Reason, tt.reason) || d.Port != 0 {
			t.Errorf("%q: got %+v, want %v %q", tt.name, d, tt.allow, tt.reason)
		}
	}
	var zero Policy
	if got, want := zero.Lookup("a.test").Reason, "no network is allowed here: to use a.test, ask for the domain a.test"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if d := policy(t, []string{"a.test"}, []string{"*"}).Lookup("a.test"); d.Allowed || d.Reason != "the policy denies *" {
		t.Errorf("%+v", d)
	}
}

func TestCovers(t *testing.T) {
	p := policy(t,
		[]string{"example.com", "*.example.org", "db.test:5432", "*.deep.test:22", "web.test:443", "parts.test:80", "parts.test:443",
			"*.mixed.test:80", "a.mixed.test:443", "denied.test", "*.denied.test", "half.test", "bücher.test"},
		[]string{"denied.test", "*.denied.test:443", "half.test:80", "bad.example.org", "*.evil.example.org"})
	for pattern, want := range map[string]bool{
		"example.com": true, "EXAMPLE.com.": true, "example.com:443": true, "example.com:80": true, "example.com:22": false, "*.example.com": false, "www.example.com": false,
		"*.example.org": true, "a.example.org": true, "a.b.example.org:80": true, "*.a.example.org": true, "*.a.example.org:443": true, "*.example.org:22": false,
		"example.org": false, "*.org": false, "*": false, "aexample.org": false,
		"db.test": false, "db.test:5432": true, "db.test:443": false,
		"*.deep.test:22": true, "a.deep.test:22": true, "*.deep.test": false, "*.a.deep.test:22": true, "deep.test:22": false,
		"web.test": false, "web.test:443": true, "parts.test": true,
		"a.mixed.test": true, "b.mixed.test": false, "*.mixed.test": false,
		"denied.test": false, "denied.test:443": false, "*.denied.test": false, "*.denied.test:80": true, "a.denied.test:443": false,
		"half.test": false, "half.test:443": true,
		"bad.example.org": false, "a.evil.example.org": false, "*.evil.example.org": false, "evil.example.org": true,
		"xn--bcher-kva.test": true, "BÜCHER.test": true,
		"": false, "127.0.0.1": false, "https://example.com": false, "*.": false, "*:443": false, "example.com:0": false,
	} {
		if got := p.Covers(pattern); got != want {
			t.Errorf("%q: got %v, want %v", pattern, got, want)
		}
	}
	if (Policy{}).Covers("example.com") {
		t.Error("the zero policy covers something")
	}
}

func TestDenied(t *testing.T) {
	p := policy(t, []string{"a.test"}, []string{"a.test", "*.b.test:22"})
	tests := []struct {
		name    string
		port    int
		pattern string
		denied  bool
	}{
		{"a.test", 443, "a.test", true}, {"A.test.", 0, "a.test", true}, {"x.a.test", 443, "", false},
		{"x.b.test", 22, "*.b.test", true}, {"x.b.test", 443, "", false}, {"x.b.test", 0, "", false}, {"127.0.0.1", 443, "", true}, {"", 0, "", true},
	}
	for _, tt := range tests {
		if pattern, denied := p.Denied(tt.name, tt.port); pattern != tt.pattern || denied != tt.denied {
			t.Errorf("%s %d: got %q %v", tt.name, tt.port, pattern, denied)
		}
	}
}

// FuzzCovers: the names of a covered pattern are allowed, and no others.
func FuzzCovers(f *testing.F) {
	f.Add("example.com", "*.example.com", "www.example.com", "a")
	f.Add("*.example.com:443", "*.example.com:80", "*.a.example.com", "b.c")
	f.Add("a.test:80", "A.test.:443", "a.test", "")
	f.Add("bücher.test", "*.ü.test", "*.x.xn--tda.test:443", "ä")
	f.Fuzz(func(t *testing.T, one, two, asked, label string) {
		p, err := NewPolicy([]string{one, two}, nil)
		if err != nil {
			if p.Covers(asked) || p.Lookup(asked).Allowed {
				t.Error("a policy that was refused allows")
			}
			return
		}
		if !p.Covers(one) || !p.Covers(two) {
			t.Errorf("%q and %q don't cover themselves", one, two)
		}
		d := p.Lookup(asked)
		showDecision(t, d)
		some := false
		for _, port := range p.Ports() {
			some = some || p.Decide(asked, port).Allowed
		}
		if some != d.Allowed || d.Port != 0 {
			t.Errorf("%+v, but on some port: %v", d, some)
		}
		if !p.Covers(asked) {
			return
		}
		if _, err := NewPolicy([]string{asked}, nil); err != nil {
			t.Errorf("%q is covered, and could not be asked for: %v", asked, err)
		}
		pat, err := parsePattern(asked)
		if err != nil {
			t.Fatal(err)
		}
		name := pat.name
		if below, wildcard := strings.CutPrefix(pat.name, "*"); wildcard {
			if name, err = canonical(label + below); err != nil || !strings.HasSuffix(name, below) {
				return
			}
		}
		needed := webPorts[:]
		if pat.port != 0 {
			needed = []int{pat.port}
		}
		for _, port := range needed {
			if d := p.Decide(name, port); !d.Allowed {
				t.Errorf("%q is covered, %+v", asked, d)
			}
		}
	})
}

// FuzzDecide compares with an independent decision, and checks the invariants of every answer.
func FuzzDecide(f *testing.F) {
	for _, s := range []string{"example.com", "a.example.com", "127.0.0.1", "::1", "b\u00fccher.test", "xn--bcher-kva.test", "a@b", "\x00", "0x7f.1", "*.x", "\u3002"} {
		f.Add(s, "example.com", "*.example.com", 443)
		f.Add(s, s, "*.evil.test:8080", 8080)
	}
	f.Fuzz(func(t *testing.T, host, allowed, denied string, port int) {
		p, err := NewPolicy([]string{allowed}, []string{denied})
		d := p.Decide(host, port)
		showDecision(t, d)
		if err != nil {
			if d.Allowed {
				t.Error("a policy that was refused allows")
			}
			return
		}
		if upper := p.Decide(strings.ToUpper(host), port); host == strings.ToLower(host) && isASCII(host) && upper != d && d.Name[0] != '"' {
			t.Errorf("%+v differs from %+v by case", upper, d)
		}
		if !d.Allowed {
			return
		}
		if again := p.Decide(d.Name, port); again != d {
			t.Errorf("%+v becomes %+v", d, again)
		}
		if strings.Trim(d.Name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || len(d.Name) > 253 {
			t.Errorf("%q is not a name", d.Name)
		}
		if !covers(t, allowed, d.Name, port, false) || covers(t, denied, d.Name, port, true) {
			t.Errorf("%+v by %q, without %q", d, allowed, denied)
		}
	})
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) < 0
}

// covers decides for one pattern in the simplest way.
func covers(t *testing.T, text, name string, port int, anyPort bool) bool {
	p, err := parsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	portFits := p.port == port || p.port == 0 && (anyPort || port == 80 || port == 443)
	nameFits := name == p.name
	if below, wildcard := strings.CutPrefix(p.name, "*"); wildcard {
		nameFits = strings.HasSuffix(name, below)
	}
	return portFits && nameFits
}

func BenchmarkDecide(b *testing.B) {
	patterns := []string{"*.example.org"}
	for i := range 1000 {
		patterns = append(patterns, strings.Repeat("a", i%50+1)+".example.com")
	}
	p := policy(b, patterns, nil)
	b.ReportAllocs()
	for b.Loop() {
		p.Decide("a.b.c.example.org", 443)
	}
}

// TestWhy: a decision's advice to ask can be left out, since readers of web pages can't be asked for a domain.
func TestWhy(t *testing.T) {
	p, err := NewPolicy([]string{"example.com"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		d    Decision
		want string
	}{
		{p.Decide("other.test", 443), "other.test is not among the allowed domains"},
		{p.Decide("example.com", 22), "example.com is allowed on ports 80 and 443, not on port 22"},
		{Policy{}.Decide("a.test", 443), "no network is allowed here"},
		{Decision{Name: "a.test", Reason: "it is at 10.0.0.1"}, "it is at 10.0.0.1"},
	} {
		if got := test.d.Why(); got != test.want {
			t.Errorf("%+v: got %q", test.d, got)
		}
	}
}

func TestAllowed(t *testing.T) {
	p, err := NewPolicy([]string{"b.example", "*.a.example", "a.example:5432", "a.example:80", "b.example:22", "c.example:443", "c.example:80"}, []string{"x.a.example"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"*.a.example", "a.example:5432", "a.example:80", "b.example", "b.example:22", "c.example"}
	if got := p.Allowed(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPublicWeb(t *testing.T) {
	p, err := PublicWeb([]string{"evil.example", "*.tracker.example", "half.example:80"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		port int
		want bool
	}{
		{"example.com", 443, true}, {"a.b.example.org", 80, true}, {"bücher.example", 443, true},
		{"example.com", 22, false}, {"example.com", 8080, false}, {"example.com", 0, false},
		{"evil.example", 443, false}, {"x.tracker.example", 443, false}, {"half.example", 80, false}, {"half.example", 443, true},
		{"127.0.0.1", 80, false}, {"0x7f.1", 80, false}, {"[::1]", 80, false}, {"localhost", 80, false}, {"", 80, false},
	} {
		if d := p.Decide(tt.name, tt.port); d.Allowed != tt.want {
			t.Errorf("%s:%d: %+v", tt.name, tt.port, d)
		}
	}
	if p.Empty() {
		t.Error("it is empty")
	}
	if _, err := PublicWeb([]string{"a*b"}); err == nil {
		t.Error("a pattern that nobody understands denies nothing")
	}
}
