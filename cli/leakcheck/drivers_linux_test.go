package leakcheck

import (
	"fmt"
	"os/exec"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// leakByDrivers has sessions of each language hold each secret in variables whose description, as for inspect_state, the
// language's driver cuts, without knowledge of secrets: some cuts fall into a secret.
func (b *bench) leakByDrivers() {
	for language, cells := range map[string][]string{
		"python": {
			"import os\nfor n, s in list(os.environ.items()):\n  if n.startswith('LEAK_'):\n    pad = 'p' * (hash(n) % 190)\n    globals().update({'a_' + n: s, 'b_' + n: pad + s, 'c_' + n: [pad, {s: s}], 'd_' + n: '\U0001F600' * 95 + s})",
			"[s for n, s in os.environ.items() if n.startswith('LEAK_')]",
			"'p' * ((256 << 10) - 20) + os.environ['LEAK_033']",
			"class E(Exception): pass\nE.__name__ = 'e' * 150 + os.environ['LEAK_033']\nraise E(os.environ['LEAK_034'])",
		},
		"node": {
			"for (const [n, s] of Object.entries(process.env)) if (n.startsWith('LEAK_')) {\n  const pad = 'p'.repeat(n.charCodeAt(7) * 7 % 190);\n" +
				"  Object.assign(globalThis, {['a_' + n]: s, ['b_' + n]: pad + s, ['c_' + n]: [pad, s], ['d_' + n]: {[s]: 1, s}, ['f_' + n]: '\U0001F600'.repeat(95) + s});\n}",
			"Object.entries(process.env).filter(([n]) => n.startsWith('LEAK_')).map(([n, s]) => s)",
			"'p'.repeat((256 << 10) - 20) + process.env.LEAK_033",
			"[1, {k: 'p'.repeat((256 << 10) - 20) + process.env.LEAK_033}]",
			"const e = new Error(process.env.LEAK_034); e.name = 'e'.repeat(150) + process.env.LEAK_033; throw e",
		},
		"shell": {
			"for n in ${!LEAK_*}; do\n  printf -v pad %*s $((16#${n: -1} * 13 % 190)) ''\n  declare \"a_$n=${!n}\" \"b_$n=$pad${!n}\"\n  declare -a \"c_$n=(\\\"\\$pad\\\" \\\"\\${!n}\\\")\"; declare -A \"d_$n=([x]=\\\"\\$pad\\${!n}\\\" [y]=\\\"\\${!n}\\\")\"\ndone",
		},
		"r": {
			"for (n in grep('^LEAK_', names(Sys.getenv()), value = TRUE)) {\n  s <- Sys.getenv(n); pad <- strrep('p', (sum(utf8ToInt(n)) * 7) %% 190)\n" +
				"  assign(paste0('a_', n), s); assign(paste0('b_', n), c(pad, s)); assign(paste0('c_', n), list(x = pad, y = s)); assign(paste0('d_', n), data.frame(x = pad, y = paste0(pad, s)))\n}",
			"data.frame(v = vapply(sprintf('LEAK_%03d', 0:59), function(n) paste0(strrep('p', 140), Sys.getenv(n)), ''))",
			"f <- function(x) stop('failed'); eval(call('f', paste0(strrep('p', 150), Sys.getenv('LEAK_033'))))",
		},
	} {
		if _, err := exec.LookPath(map[string]string{"python": "python3", "node": "node", "shell": "bash", "r": "Rscript"}[language]); err != nil {
			b.Logf("not tried: %v", err)
			continue
		}
		_, opened, err := pipeline.Do(b.Context(), b.Pipeline, session.New{Language: language})
		if err != nil {
			b.Errorf("%s: %v", language, err)
			continue
		}
		for i, code := range cells {
			res := b.runRequest(language, fmt.Sprintf("driver %d", i), run.Request{Where: run.Where{Session: opened.ID}, Code: []byte(code)})
			if i == 0 && res.Ended != "ok" {
				b.Errorf("%s: %s %s %+v", language, res.Ended, res.Stderr, res.Error)
			}
		}
		state, err := session.Inspect(b.Context(), b.Pipeline, "", opened.ID)
		if err != nil || len(state.Variables) < 3*len(b.names) {
			b.Errorf("%s: %v, %d variables, %s", language, err, len(state.Variables), state.Note)
		}
		b.collect(language, "inspect", "", state)
		pipeline.Do(b.Context(), b.Pipeline, session.End{Session: opened.ID})
	}
}
