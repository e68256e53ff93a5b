package kernel

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// chart is a figure's data, in the format of E2B's charts.
type chart struct {
	Type   string            `json:"type"`
	Title  *string           `json:"title"`
	XLabel *string           `json:"x_label"`
	YUnit  *string           `json:"y_unit"`
	XScale string            `json:"x_scale"`
	YScale string            `json:"y_scale"`
	XTicks []any             `json:"x_ticks"`
	Labels []string          `json:"y_tick_labels"`
	Each   []json.RawMessage `json:"elements"`
}

// runCharted runs code with Charts set, and returns the last displayed bundle and its data of one kind.
func (s session) runCharted(code, kind string) (visible Bundle, data string) {
	s.t.Helper()
	var all []Bundle
	out, err := s.Run(s.t.Context(), Cell{Code: code, Charts: true, Timeout: time.Minute, Display: func(b Bundle) { all = append(all, b) }})
	if err != nil || out.Error != nil {
		s.t.Fatal(err, out.Error)
	}
	if out.Value != nil {
		all = append(all, out.Value)
	}
	if len(all) == 0 {
		s.t.Fatalf("%s: nothing was shown", code)
	}
	visible = all[len(all)-1]
	return visible, visible[kind]
}

// TestCharts checks that a cell with Charts set gets the data of figures, of each chart type that E2B's readers
// know.
func TestCharts(t *testing.T) {
	s := startSession(t, newBare(t, map[string]string{"python": python(t, "matplotlib")}), "python")
	s.runCharted("import matplotlib.pyplot as plt, datetime as dt; 1", "")
	for _, c := range []struct {
		name, code string
		want       string // type, title, label of x, unit of y, scales, and elements
	}{
		{"line", "plt.plot([1, 2], [3, 4.5], label='a'); plt.title('T'); plt.xlabel('X'); plt.ylabel('V (mV)'); plt.show()",
			`line T X mV linear linear [{"label":"a","points":[[1.0,3.0],[2.0,4.5]]}]`},
		{"dates", "plt.plot([dt.date(2024, 1, 2)], [1]); plt.show()",
			`line - - - datetime linear [{"label":"","points":[["2024-01-02T00:00:00+00:00",1.0]]}]`},
		{"categories", "plt.plot([1, 2], ['low', 'high']); plt.show()",
			`line - - - linear categorical [{"label":"","points":[[1.0,"low"],[2.0,"high"]]}]`},
		{"logarithm", "plt.plot([1, 10]); plt.yscale('log'); plt.show()", `line - - - linear log [{"label":"","points":[[0.0,1.0],[1.0,10.0]]}]`},
		{"not a number", "plt.plot([1, float('nan'), float('inf')]); plt.show()",
			`line - - - linear linear [{"label":"","points":[[0.0,1.0],[1.0,null],[2.0,null]]}]`},
		{"scatter", "plt.scatter([1], [2], label='s'); plt.show()", `scatter - - - linear linear [{"label":"s","points":[[1.0,2.0]]}]`},
		{"bar", "plt.bar(['a', 'b'], [1, 2], label='n'); plt.show()",
			`bar - - -   [{"label":"a","group":"n","value":1.0},{"label":"b","group":"n","value":2.0}]`},
		{"lying bar", "plt.barh([1], [7]); plt.yticks([1], ['one']); plt.show()", `bar - - -   [{"label":"one","group":"","value":7.0}]`},
		{"pie", "plt.pie([90, 10], labels=['a', 'b']); plt.title('P'); plt.show()",
			`pie P - -   [{"label":"a","angle":324.0,"radius":1.0},{"label":"b","angle":36.0,"radius":1.0}]`},
		{"boxes", "plt.boxplot([[95, 89, 76, 91, 84, 87]], labels=['B'], patch_artist=True); plt.show()",
			`box_and_whisker - - -   [{"label":"B","min":84.0,"first_quartile":84.75,"median":88.0,"third_quartile":90.5,"max":95.0,"outliers":[76.0]}]`},
		{"unknown", "plt.gca().add_artist(plt.Circle((0, 0), 1)); plt.title('C'); plt.show()", `unknown C - -   []`},
	} {
		visible, data := s.runCharted(c.code, "e2b/chart")
		var got chart
		if err := json.Unmarshal([]byte(data), &got); err != nil || visible["image/png"] == "" {
			t.Errorf("%s: %v in %.200q", c.name, err, data)
			continue
		}
		text := func(s *string) string {
			if s == nil {
				return "-"
			}
			return *s
		}
		var each []string
		for _, e := range got.Each {
			each = append(each, string(e))
		}
		is := fmt.Sprintf("%s %s %s %s %s %s [%s]", got.Type, text(got.Title), text(got.XLabel), text(got.YUnit), got.XScale, got.YScale,
			strings.Join(each, ","))
		if diff := cmp.Diff(c.want, is); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if hasAxes := got.Type == "line" || got.Type == "scatter"; hasAxes && (len(got.XTicks) == 0 || len(got.Labels) == 0) {
			t.Errorf("%s: no ticks in %s", c.name, data)
		}
	}
	_, data := s.runCharted("fig, (a, b) = plt.subplots(1, 2); fig.suptitle('S'); a.plot([1]); b.scatter([1], [1]); plt.show()", "e2b/chart")
	var got chart
	if err := json.Unmarshal([]byte(data), &got); err != nil || got.Type != "superchart" || *got.Title != "S" || len(got.Each) != 2 {
		t.Errorf("%v: %.300s", err, data)
	}
	if r := s.run("plt.plot([1]); plt.show()"); len(r.Displays) != 1 || r.Displays[0]["e2b/chart"] != "" {
		t.Errorf("who did not ask for data gets %v", mimeTypes(r.Displays[0]))
	}
}

// TestTables checks the data of data frames, and of saved pictures.
func TestTables(t *testing.T) {
	s := startSession(t, newBare(t, map[string]string{"python": python(t, "pandas", "PIL")}), "python")
	_, data := s.runCharted("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', None], 'c': [0.5, float('nan')], 'd': "+
		"pd.to_datetime(['2024-01-02', '2024-01-03'])})", "e2b/data")
	if want := `{"a":[1,2],"b":["x",null],"c":[0.5,null],"d":["2024-01-02T00:00:00","2024-01-03T00:00:00"]}`; data != want {
		t.Errorf("got %s, want %s", data, want)
	}
	if visible, _ := s.runCharted("from PIL import Image; Image.new('RGB', (3, 3)).save('a.png')", ""); imageWidth(t, visible) != 3 {
		t.Errorf("a picture that was saved is shown as %s", mimeTypes(visible))
	}
	if r := s.run("Image.new('RGB', (3, 3)).save('a.png')"); len(r.Displays) != 0 {
		t.Error("who did not ask for data is shown what was saved")
	}
}
