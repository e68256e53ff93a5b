package manual

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testPage() Page {
	return Page{Name: "tool", About: "do it", Source: "tool 1.2", Sections: []Section{
		{Title: "DESCRIPTION", Text: "It's two\nlines.\n\nAn example:\n  tool -x 'a\\b'\n\n.hidden is a file."},
		{Title: `a "quoted" title`, Sub: true, Synopsis: "tool [-x]", Terms: []Term{{"-x, --long X", ".5 is X"}}},
	}}
}

func TestWrite(t *testing.T) {
	var b strings.Builder
	if err := Write(&b, testPage()); err != nil {
		t.Fatal(err)
	}
	want := `.TH "TOOL" 1 "" "tool 1.2" "User Commands"
.SH NAME
tool \- do it
.SH "DESCRIPTION"
.PP
It\(aqs two
lines.
.PP
An example:
.PP
.RS 4
.nf
tool \-x \(aqa\eb\(aq
.fi
.RE
.PP
\&.hidden is a file.
.SS "a \(dqquoted\(dq title"
.PP
.RS 4
.nf
tool [\-x]
.fi
.RE
.TP
\fB\-x, \-\-long X\fR
\&.5 is X
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

// TestGroff has groff read a page with all warnings on.
func TestGroff(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("no groff")
	}
	var b strings.Builder
	if err := Write(&b, testPage()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(groff, "-man", "-ww", "-Tascii")
	cmd.Stdin = strings.NewReader(b.String())
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		t.Errorf("%v: %s", err, errs.String())
	}
	if !strings.Contains(out.String(), `tool -x 'a\b'`) || !strings.Contains(out.String(), ".hidden is a file.") {
		t.Errorf("got %s", out.String())
	}
}
