package kernel

import (
	"bytes"
	"encoding/base64"
	"image/png"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func newR(t testing.TB) session {
	t.Helper()
	if _, err := exec.LookPath("Rscript"); err != nil {
		hosttest.SkipMissing(t, "r", "it is not here")
	}
	return startSession(t, newBare(t, nil), "r")
}

func TestR(t *testing.T) {
	s := newR(t)
	for _, c := range []struct{ name, code, stdout, stderr, text string }{
		{"value", "6 * 7", "", "", "[1] 42"},
		{"invisible", "x <- 5", "", "", ""},
		{"state", "x + 1", "", "", "[1] 6"},
		{"output", `cat("out\n"); message("err")`, "out\n", "err\n", ""},
		{"visible ones before the last", "x\n\"a\"", "[1] 5\n", "", `[1] "a"`},
		{"last is invisible", "x\ny <- 1", "[1] 5\n", "", ""},
		{"nothing", "", "", "", ""},
		{"unicode", `"ü€😀"`, "", "", `[1] "ü€😀"`},
		{"null", "NULL", "", "", "NULL"},
		{"library", "library(stats4); setClass('P', representation(n = 'numeric')); new('P', n = 1)@n", "", "", "[1] 1"},
		{"S4", "new('P', n = 1)", "", "", "An object of class \"P\"\nSlot \"n\":\n[1] 1\n"},
		{"error", `stop("boom")`, "", "", "simpleError: boom"},
		{"error in a function", "f <- function(x) g(x); g <- function(x) stop('deep ', x); f(1)", "", "", "simpleError: deep 1"},
		{"own condition", `stop(structure(class = c("mine", "error", "condition"), list(message = "m", call = NULL)))`, "", "", "mine: m"},
		{"no such name", "nothing", "", "", "simpleError: object 'nothing' not found"},
		{"syntax", "x <- 1\ny <- )", "", "", "SyntaxError: cell 1:2:6: unexpected ')'\n1: x <- 1\n2: y <- )\n        ^"},
		{"nothing of it ran", "x", "", "", "[1] 5"},
		{"endless recursion", "r <- function() r(); r()", "", "", "Error: "},
		{"warning", `warning("careful"); 1`, "", "Warning: careful\n", "[1] 1"},
		{"children", `invisible(system("echo child; echo err >&2"))`, "child\n", "err\n", ""},
		{"input", `length(readLines("stdin"))`, "", "", "[1] 0"},
		{"readline", `readline("name? ")`, "name? \n", "", `[1] ""`},
		{"sink is for the cell", `sink(tempfile()); cat("hidden\n")`, "", "", ""},
		{"after sink", `cat("seen\n")`, "seen\n", "", ""},
		{"names that are taken", "c <- print <- paste0 <- charToRaw <- function(...) stop('fake'); 3", "", "", "[1] 3"},
		{"and removed", "rm(c, print, paste0, charToRaw); c(1)", "", "", "[1] 1"},
		{"all connections are closed", "f <- file(tempfile(), 'w'); closeAllConnections(); nrow(showConnections()) == 4", "", "", "[1] TRUE"},
		{"warning in a function", "f <- function() warning('w'); f(); 1", "", "Warning in f() : w\n", "[1] 1"},
		{"warning as error", "options(warn = 2); tryCatch(as.integer('x'), error = function(e) 'caught')", "", "", `[1] "caught"`},
		{"finally", "tryCatch(quit(status = 1), finally = cat('bye\n'))", "bye\n", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.cell(t.Context(), Cell{Code: c.code, Name: "cell 1"})
			text := got.text()
			if strings.HasSuffix(c.text, "Error: ") && strings.Contains(text, c.text) {
				text = c.text
			}
			if got.Lost || got.Stdout != c.stdout || got.Stderr != c.stderr || text != c.text {
				t.Errorf("got %q, %q, %q; want %q, %q, %q (%+v)", got.Stdout, got.Stderr, text, c.stdout, c.stderr, c.text, got.Error)
			}
		})
	}
}

func TestRTraceback(t *testing.T) {
	s := newR(t)
	got := s.run("f <- function(x) g(x)\ng <- function(x) stop('deep ', x)\nf(1)")
	want := "Error in g(x) : deep 1\n3: stop(\"deep \", x)\n2: g(x)\n1: f(1)"
	if got.Error == nil || got.Error.Traceback != want {
		t.Errorf("got %+v, want %q", got.Error, want)
	}
}

func TestRExit(t *testing.T) {
	s := newR(t)
	for _, c := range []struct {
		code string
		want int
	}{{"quit(status = 7)", 7}, {"q()", 0}, {"f <- function() q('no', 300); f(); cat('no')", 44}} {
		got := s.run("kept <- 1; " + c.code)
		if got.Exit == nil || *got.Exit != c.want || got.Stdout != "" || got.Lost {
			t.Errorf("%s: %+v", c.code, got)
		}
	}
	if got := s.run("kept"); got.text() != "[1] 1" {
		t.Errorf("afterwards: %+v", got)
	}
	if got := s.run("tools::pskill(Sys.getpid(), 9)"); got.Ended != "dead" || !got.Lost {
		t.Errorf("killed: %+v", got)
	}
}

func TestRInterrupt(t *testing.T) {
	s := newR(t)
	s.run("kept <- 1")
	for _, code := range []string{"cat('begun'); Sys.sleep(100); cat('no')", "cat('begun'); repeat {}",
		"cat('begun'); tryCatch(repeat {}, error = function(e) 1)",
		"f <- function(n) f2(n); f2 <- function(n) repeat n <- n + 1; cat('begun'); f(1)"} {
		got := s.runInterrupted(code)
		if got.Ended != "cancelled" || got.Lost || got.Error == nil || got.Error.Type != "Interrupted" || got.Stdout != "begun" {
			t.Fatalf("%s: %+v %v", code, got, got.Error)
		}
		if after := s.run("kept"); after.text() != "[1] 1" {
			t.Fatalf("afterwards: %+v", after)
		}
	}
}

func TestRShows(t *testing.T) {
	s := newR(t)
	if got := s.run(`capabilities("png")`).text(); !strings.Contains(got, "TRUE") {
		hosttest.SkipMissing(t, "r-png", "this R draws no png")
	}
	for _, c := range []struct {
		name, code string
		images     int
	}{
		{"one", "plot(1:10)", 1},
		{"added to", "plot(1:10); lines(1:10); abline(0, 1)", 1},
		{"two", "hist(c(1, 2, 2)); barplot(1:3)", 2},
		{"none", "1", 0},
		{"before an error", "plot(1); stop('x')", 1},
		{"the program's own file", "png('own.png'); plot(1); invisible(dev.off())", 0},
		{"again", "pie(1:3)", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.run(c.code)
			if len(got.Displays) != c.images {
				t.Fatalf("%d shown, want %d: %+v %v", len(got.Displays), c.images, got.Outcome, got.Error)
			}
			for _, b := range got.Displays {
				raw, err := base64.StdEncoding.DecodeString(b["image/png"])
				if err != nil {
					t.Fatal(err)
				}
				if _, err := png.Decode(bytes.NewReader(raw)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	got := s.run(`data.frame(n = 1:2, s = c("<a>", "b"))`)
	if !strings.Contains(got.Value["text/html"], "<td>&lt;a&gt;</td>") || !strings.Contains(got.Value["text/plain"], "1 1 <a>") {
		t.Errorf("data frame: %q", got.Value)
	}
	if got := s.run(`strrep("x", 1e6)`); len(got.text()) > 260<<10 || !strings.Contains(got.text(), "left out") {
		t.Errorf("a long text: %d bytes", len(got.text()))
	}
}

func TestRValues(t *testing.T) {
	s := newR(t)
	for _, c := range []struct{ value, code, want, get string }{
		{`42`, "class(x)", `[1] "integer"`, `42`},
		{`0.1`, "x", `[1] 0.1`, `0.1`},
		{`[1, 2.5, null]`, "sum(x, na.rm = TRUE)", `[1] 3.5`, `[1,2.5,null]`},
		{`["a", "\"\\\n\u0001ü"]`, "x[2]", `[1] "\"\\\n\001ü"`, `["a","\"\\\u000a\u0001ü"]`},
		{`[true, false]`, "x", `[1]  TRUE FALSE`, `[true,false]`},
		{`{"b": [1], "a": {"c": null, "": "x"}}`, "names(x)", `[1] "b" "a"`, ""},
		{`{"b": 1, "a": [1, "x"]}`, "x$a[[2]]", `[1] "x"`, `{"b":1,"a":[1,"x"]}`},
		{`{}`, "length(x)", `[1] 0`, ""},
		{`[]`, "length(x)", `[1] 0`, `[]`},
		{`null`, "is.null(x)", `[1] TRUE`, `null`},
		{`[[1,2],[3]]`, "x[[1]]", `[1] 1 2`, `[[1,2],3]`},
		{`1e400`, "x", `[1] Inf`, `null`},
	} {
		t.Run(c.value, func(t *testing.T) {
			if err := s.Set(t.Context(), "x", []byte(c.value)); err != nil {
				t.Fatal(err)
			}
			if got := s.run(c.code).text(); strings.ReplaceAll(got, `\n`, "\\n") != strings.ReplaceAll(c.want, "\n", `\n`) {
				t.Errorf("got %s, want %s", got, c.want)
			}
			got, err := s.Get(t.Context(), "x")
			if c.get != "" && (err != nil || string(got) != c.get) {
				t.Errorf("got %s %v, want %s", got, err, c.get)
			}
		})
	}
	s.run("f <- factor(c('u', 'v')); d <- data.frame(a = 1:2, b = c('x', NA)); m <- matrix(1:4, 2); pi2 <- 1/3; day <- " +
		"as.Date('2024-02-29'); fun <- function() 1; named <- c(a = 1, b = 2)")
	for _, c := range []struct{ name, want string }{
		{"f", `["u","v"]`}, {"d", `[{"a":1,"b":"x"},{"a":2,"b":null}]`}, {"m", `[[1,3],[2,4]]`}, {"pi2", `0.33333333333333331`},
		{"day", `"2024-02-29"`}, {"named", `{"a":1,"b":2}`}, {"fun", "type closure can't be written"}, {"nothing", "nothing is not set"},
	} {
		got, err := s.Get(t.Context(), c.name)
		if err != nil {
			got = []byte(err.Error())
		}
		if !strings.Contains(string(got), c.want) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRVariables(t *testing.T) {
	s := newR(t)
	s.run("n <- 1:3; d <- data.frame(a = 1:2); makeActiveBinding('bad', function() stop('x'), globalenv())")
	list, err := s.Variables(t.Context())
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	if got, want := list[2], (Variable{"n", "integer", "1 2 3", 3, "elements"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := list[1]; got.Type != "data.frame" || got.Size != 2 || got.Unit != "rows" {
		t.Errorf("got %+v", got)
	}
}

func TestRInSandbox(t *testing.T) {
	s := sandboxed(t, "r", backends.Limits{})
	got := s.cell(t.Context(), Cell{Code: "plot(1:3); cat(getwd(), Sys.getenv('K')); sum(1:4)", Env: []string{"K=v=w"}})
	if got.Stdout != "/workspace v=w" || got.text() != "[1] 10" || len(got.Displays) != 1 {
		t.Errorf("got %+v %v", got, got.Error)
	}
	out := s.cell(t.Context(), Cell{Code: "Sys.sleep(100)", Timeout: 300 * time.Millisecond, Grace: time.Minute})
	if out.Ended != "timeout" || out.Lost {
		t.Errorf("interrupt: %+v", out)
	}
}
