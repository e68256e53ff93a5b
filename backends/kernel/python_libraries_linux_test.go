package kernel

import (
	"bytes"
	"encoding/base64"
	"image/png"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// imageWidth decodes a bundle's picture and returns its width, 0 without a picture.
func imageWidth(t *testing.T, b Bundle) int {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(b["image/png"])
	if err != nil {
		t.Fatal(err)
	}
	if len(data) == 0 {
		return 0
	}
	i, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return i.Bounds().Dx()
}

func mimeTypes(b Bundle) string {
	var names []string
	for name := range b {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestMatplotlib(t *testing.T) {
	s := startSession(t, newBare(t, map[string]string{"python": python(t, "matplotlib")}), "python")
	for _, c := range []struct {
		name, code string
		output     int
		text       string // of the value
	}{
		{"open at the end", "import matplotlib.pyplot as plt\nplt.plot([1, 2]);", 1, ""},
		{"and closed", "plt.get_fignums()", 0, "[]"},
		{"show", "plt.plot([1]); plt.show(); print(plt.get_fignums())", 1, ""},
		{"show twice", "plt.plot([1]); plt.show(); plt.plot([2]); plt.show()", 2, ""},
		{"several", "for i in range(3): plt.figure(); plt.plot([i])", 3, ""},
		{"value of the last call", "plt.plot([1])", 1, `\[<matplotlib.lines.Line2D.*>\]`},
		{"figure as value is shown once", "fig, ax = plt.subplots(); ax.plot([1]); fig", 0, "<?Figure.*"},
		{"displayed and then open is shown once", "fig, ax = plt.subplots(); display(fig)", 1, ""},
		{"figure of an earlier cell", "display(fig)", 1, ""},
		{"figure.show", "fig, ax = plt.subplots(); fig.show()", 1, ""},
		{"saved and closed", "plt.plot([1]); plt.savefig('a.png'); plt.close()", 0, ""},
		{"an error keeps what was drawn", "plt.plot([1]); 1/0", 1, "ZeroDivisionError: division by zero"},
		{"figure that can't be drawn", "plt.title('$\\\\frac{$'); 7", 0, "ValueError.*"},
		{"is closed", "plt.get_fignums()", 0, "[]"},
		{"no warnings", "import warnings; warnings.simplefilter('error'); plt.plot([1]); plt.show()", 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.t = t
			r := s.run(c.code)
			if text := r.text(); text != c.text && !regexp.MustCompile("(?s)^("+c.text+")$").MatchString(text) {
				t.Errorf("value %q, want %q", text, c.text)
			}
			if r.Stderr != "" {
				t.Errorf("stderr %q", r.Stderr)
			}
			if len(r.Displays) != c.output {
				t.Errorf("%d shown, want %d", len(r.Displays), c.output)
			}
			for _, b := range r.Displays {
				if imageWidth(t, b) < 300 {
					t.Errorf("shown %s, %d wide", mimeTypes(b), imageWidth(t, b))
				}
			}
			if c.name == "figure as value is shown once" && imageWidth(t, r.Value) < 300 {
				t.Errorf("value %s", mimeTypes(r.Value))
			}
		})
	}
}

// TestStandIn: cells display values by IPython's classes, also if IPython is not installed, and code that asks
// whether it runs in IPython sees that it doesn't.
func TestStandIn(t *testing.T) {
	s := startSession(t, newBare(t, map[string]string{"python": python(t)}), "python")
	if r := s.run("import importlib.machinery as m; m.PathFinder.find_spec('IPython')"); r.text() != "" {
		t.Skip("IPython is installed")
	}
	s.run("open('p', 'wb').write(b'\\x89PNG'); open('j', 'wb').write(b'\\xff\\xd8')")
	for code, want := range map[string]Bundle{
		"HTML('<b>x</b>')":           {"text/html": "<b>x</b>", "text/plain": "<IPython.core.display.HTML object>"},
		"Markdown('# x')":            {"text/markdown": "# x", "text/plain": "<IPython.core.display.Markdown object>"},
		"Math('x^2')":                {"text/latex": `$\displaystyle x^2$`, "text/plain": "<IPython.core.display.Math object>"},
		"JSON({'a': [1]})":           {"application/json": `{"a":[1]}`, "text/plain": "<IPython.core.display.JSON object>"},
		"SVG('<svg/>')":              {"image/svg+xml": "<svg/>", "text/plain": "<IPython.core.display.SVG object>"},
		"Image('p')":                 {"image/png": "iVBORw==", "text/plain": "<IPython.core.display.Image object>"},
		"Image(filename='j')":        {"image/jpeg": "/9g=", "text/plain": "<IPython.core.display.Image object>"},
		"Image(url='http://x/?\"<')": {"text/html": `<img src="http://x/?&quot;&lt;"/>`, "text/plain": "<IPython.core.display.Image object>"},
	} {
		r := s.run("from IPython.display import *\nfrom IPython.core.display import display\n" + code + "\ndisplay(" + code + ")\n" + code)
		if !maps.Equal(r.Value, want) || len(r.Displays) != 1 || !maps.Equal(r.Displays[0], want) {
			t.Errorf("%s: got %v, shown %v", code, r.Value, r.Displays)
		}
	}
	r := s.run("from IPython.display import display\ndisplay({'text/latex': 'x'}, raw=True)\nimport IPython\nIPython.get_ipython() is None")
	if r.text() != "True" || len(r.Displays) != 1 || mimeTypes(r.Displays[0]) != "text/latex" {
		t.Errorf("got %v, shown %v", r.Value, r.Displays)
	}
	if r := s.run("import IPython.terminal"); !strings.Contains(r.text(), "ModuleNotFoundError") {
		t.Errorf("got %v", r.Value)
	}
}

func TestPandas(t *testing.T) {
	s := startSession(t, newBare(t, map[string]string{"python": python(t, "pandas")}), "python")
	r := s.run("import pandas as pd, numpy as np\ndf = pd.DataFrame({'a': [1, 2], 'b': ['x', None]}); df")
	if mimeTypes(r.Value) != "text/html text/plain" || !strings.Contains(r.Value["text/html"], "<table") ||
		!strings.HasPrefix(r.text(), "   a     b\n0  1     x") {
		t.Errorf("got %v", r.Value)
	}
	for code, want := range map[string]string{
		"df":                                     `[{"a":1,"b":"x"},{"a":2,"b":null}]`,
		"df['a']":                                `[1,2]`,
		"df.index":                               `[0,1]`,
		"np.float64(1.5)":                        `1.5`,
		"np.int32(3)":                            `3`,
		"np.bool_(True)":                         `true`,
		"np.array([[1.0, np.nan], [np.inf, 2]])": `[[1.0,null],[null,2.0]]`,
		"{np.int64(1): np.array([1])}":           `{"1":[1]}`,
		"pd.Timestamp('2024-01-02 03:04')":       `"2024-01-02T03:04:00"`,
		"[pd.NaT]":                               `[null]`,
		"pd.DataFrame({'t': [pd.Timestamp('2024-01-02'), pd.NaT]})": `[{"t":"2024-01-02T00:00:00"},{"t":null}]`,
		"pd.NA": "null",
	} {
		s.run("v = " + code)
		if got, err := s.Get(t.Context(), "v"); err != nil || !sameJSON(got, want) {
			t.Errorf("%s: got %s %v, want %s", code, got, err, want)
		}
	}
	s.run("array = np.zeros((1000, 1000)); long = pd.DataFrame({'n': range(100000)})")
	vars, err := s.Variables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Variable{"array": {Size: 1000000, Unit: "elements"}, "long": {Size: 100000, Unit: "rows"}}
	for _, v := range vars {
		if w, ok := want[v.Name]; ok && (v.Size != w.Size || v.Unit != w.Unit) {
			t.Errorf("%s: %d %s", v.Name, v.Size, v.Unit)
		}
	}
}

func TestPIL(t *testing.T) {
	s := startSession(t, newBare(t, map[string]string{"python": python(t, "PIL")}), "python")
	for _, mode := range []string{"RGB", "RGBA", "L", "1", "P"} {
		r := s.run("from PIL import Image; Image.new('" + mode + "', (7, 5))")
		if mimeTypes(r.Value) != "image/png text/plain" || imageWidth(t, r.Value) != 7 || r.Stderr != "" {
			t.Errorf("%s: got %s, stderr %q", mode, mimeTypes(r.Value), r.Stderr)
		}
	}
	if r := s.run("Image.new('F', (7, 5))"); !strings.HasPrefix(r.text(), "<PIL.Image.Image image mode=F") {
		t.Errorf("got %v %v", r.Value, r.Error)
	}
}
