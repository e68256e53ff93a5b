package kernel

import "testing"

// TestShows checks MayDisplay with code that may display something, and with code that can't and must not become
// slower.
func TestShows(t *testing.T) {
	for _, test := range []struct {
		code string
		want bool
	}{
		{"print(6*7)", false},
		{"print('a', {'b': [1]}) # no", false},
		{"x = 5", false},
		{"x[f('=')] += 5\n\n# x\n", false},
		{"x: int = (\n 5)", false},
		{"import os\nfor x in y:\n    f(x)", false},
		{"if __name__ == '__main__':\n    main()", false},
		{"def f():\n    '''\nx\n'''\n    return 1\n@f\nclass A: pass", false},
		{"f('''a\nb''')\nx = '''\nx\n'''", false},
		{"x = \\\n 5", false},
		{"print(1);", true},
		{"print(1), 5", true},
		{"print(1).x", true},
		{"x", true},
		{"x == 5", true},
		{"f(a=1)", true},
		{"f(\n  a=1\n)\n# x\n", true},
		{"df.sum(\n).x", true},
		{"lambda x=1: x", true},
		{"x = 1; x", true},
		{"x <= y", true},
		{"'''a\n= b'''", true},
		{"x = 1\n'a=b'", true},
		{"importlib", true},
		{"x = (", true},
		{"x = 'a", true},
		{"x = '''a", true},
		{"import matplotlib.pyplot as plt\nx = plt.plot([1])", true},
		{"!ls\nx = 1", true},
		{"x = 5\nfor i in x:\n    !ls {i}", true},
		{"x = !ls", true},
		{"%pip install numpy\nx = 1", true},
	} {
		if got := MayDisplay([]byte(test.code)); got != test.want {
			t.Errorf("%q: got %v", test.code, got)
		}
	}
}
