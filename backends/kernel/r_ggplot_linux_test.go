package kernel

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestRGgplot: a ggplot2 plot is drawn once as the value of a cell or printed in a loop, and not at all if it is
// only created; its messages are text, and a tibble or a data frame is a table.
func TestRGgplot(t *testing.T) {
	if exec.Command("Rscript", "-e", "library(ggplot2)").Run() != nil {
		hosttest.SkipMissing(t, "ggplot2", "R has no ggplot2")
	}
	s := sandboxed(t, "r", backends.Limits{})
	for code, want := range map[string]int{
		"library(ggplot2)\nggplot(mtcars, aes(wt, mpg)) + geom_point()":                      1,
		"p <- ggplot(mtcars, aes(wt, mpg)) + geom_point()":                                   0,
		"for (n in 1:2) print(ggplot(mtcars, aes(wt, mpg)) + geom_point())\ninvisible(NULL)": 2,
		"p <- ggplot(mtcars, aes(wt)) + geom_histogram(bins = 9)\np; 1":                      1,
	} {
		r := s.run("suppressMessages(library(ggplot2))\n" + code)
		images := 0
		for _, d := range r.Displays {
			if strings.HasPrefix(d["image/png"], "iVBORw0KGgo") {
				images++
			}
		}
		if r.Error != nil || images != want {
			t.Errorf("%s: %d images, want %d: %v %s", code, images, want, r.Error, r.Stderr)
		}
	}
	if r := s.run("head(mpg[, 1:2], 2)"); !strings.Contains(r.Value["text/html"], "<td>audi</td>") {
		t.Errorf("a tibble: %v %v", r.Value, r.Error)
	}
	if r := s.run("p <- ggplot(mtcars, aes(nope)) + geom_point()\np"); r.Error == nil || !strings.Contains(r.Error.Message+r.Error.Traceback,
		"nope") {
		t.Errorf("a plot that fails: %+v", r.Outcome)
	}
}
