package mcp

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image/png"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// pixel is a PNG of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// images returns the base64 data of an answer's images of a type.
func images(r result) (all []string) {
	for _, c := range r.Content {
		if c.Type == "image" {
			all = append(all, c.Data)
		}
	}
	return all
}

// TestVisible: runs without a session return their values, displays and small image files.
func TestVisible(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	put := fmt.Sprintf("import base64\npng = base64.b64decode(%q)\n", pixel)
	for _, test := range []struct {
		name, code string
		images     int
		want       []string
	}{
		{"value", "x = 6\nx * 7", 0, []string{"exit code 0", "value: 42\n"}},
		{"display", put + "display({'image/png': png}, raw=True)\nprint(1)", 1, []string{"display: [image/png of ", "stdout (2 bytes)"}},
		{"no image", "display({'image/png': b'no'}, raw=True)", 0, []string{"not shown: not image/png"}},
		{"cut off", put + "display({'image/png': png[:50]}, raw=True)", 0, []string{"not shown: truncated"}},
		{"saved", put + "for n in 'ab': open(n + '.png', 'wb').write(png + n.encode())", 2, []string{"- a.png", "image/png, shown\n- b.png"}},
		{"saved and shown", put + "open('a.png', 'wb').write(png)\ndisplay({'image/png': png}, raw=True)", 1, []string{"- a.png", "display: "}},
		{"saved many", put + "for n in 'abcdefg': open(n + '.png', 'wb').write(png + n.encode())", 4, []string{"shown\n"}},
		{"saved large", put + "open('a.png', 'wb').write(png + bytes(1 << 20))", 0, []string{"- a.png"}},
		{"saved wrong", put + "open('a.png', 'wb').write(png[:50])", 0, []string{"- a.png"}},
		{"notebook", "```python\n%matplotlib inline\n!echo hi\n%pip install numpy\n6*7\n```", 0, []string{"stdout (3 bytes):\nhi", "value: 42",
			`install_package with packages ["numpy"]`}},
		{"no such magic", "x = 1\n%nosuch\n", 0, []string{"exit code 1", `line 2`, "NotImplementedError: %nosuch"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := p.tool("execute_code", `{"code":`+quoted(test.code)+`}`)
			contains(t, r.text, test.want...)
			if got := images(r); len(got) != test.images {
				t.Errorf("%d images: %s", len(got), r.text)
			}
		})
	}
}

// TestFigures: a typical matplotlib figure is returned, without a session.
func TestFigures(t *testing.T) {
	if exec.Command("/usr/bin/python3", "-c", "import matplotlib, pandas").Run() != nil {
		hosttest.SkipMissing(t, "matplotlib", "the system's Python has no matplotlib and pandas")
	}
	t.Setenv("PATH", "/usr/bin:/bin")
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	r := p.tool("execute_code", `{"code":"import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()","resource_limits":{"max_processes":50}}`)
	got := images(r)
	if len(got) != 1 || strings.Contains(r.text, "no output") || strings.Contains(r.text, "stderr") {
		t.Fatalf("%d images: %s", len(got), r.text)
	}
	if raw, err := base64.StdEncoding.DecodeString(got[0]); err != nil {
		t.Error(err)
	} else if _, err := png.Decode(bytes.NewReader(raw)); err != nil {
		t.Errorf("no image: %v", err)
	}
	r = p.tool("execute_code", `{"code":"import pandas as pd\npd.DataFrame({'a': [1]})","resource_limits":{"max_processes":50}}`)
	contains(t, r.text, "value:    a\n0  1\n")
}

// TestPlots: R's plots are returned; by default they would be a PDF.
func TestPlots(t *testing.T) {
	hosttest.Program(t, "Rscript")
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	r := p.tool("execute_code", `{"language":"r","code":"plot(1:3)\nplot(3:1)\n1+1"}`)
	if got := images(r); len(got) != 2 || !strings.Contains(r.text, "[1] 2") {
		t.Errorf("%d images: %s", len(got), r.text)
	}
}

// TestValidateNotebook: validate_code accepts the same code as execute_code.
func TestValidateNotebook(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	for _, test := range []struct{ code, want string }{
		{"!ls\nx = !ls\n%pip install y\n", "valid python"},
		{"```python\nprint(1)\n```", "valid python"},
		{"```js\nlet x = 1\n```", "valid js"},
		{"%%bash\nfor i in 1; do\n  echo\ndone", "valid python"},
		{"a = '''\n!ls\n'''\nx = = 1", "line 4, column 5"},
		{"!ls\nx = = 1", "line 2, column 5"},
		{"x = 5\n% 3", "not valid"},
		{"!rm -rf /", "line 1"},
	} {
		r := p.tool("validate_code", `{"code":`+quoted(test.code)+`}`)
		contains(t, r.text, test.want)
	}
}
