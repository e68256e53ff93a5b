package validate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/sandboxmcp/sandboxmcp/cli/role"
)

// job is the request to the parsing process.
type job struct {
	Language   string // Node or Shell
	Name       string
	Source     []byte
	TypeScript bool

	Tree bool // Found is needed, too
}

// answer is the response of the parsing process.
type answer struct {
	Name     string
	Source   []byte // nil if unchanged
	Problems []Problem
	Unsure   bool // the interpreter may accept it
	Found    findings
}

const (
	isolatedTimeout = 15 * time.Second // 10 MB of ordinary TypeScript take five
	isolatedMemory  = 1 << 30          // bytes
	isolatedStack   = 256 << 20        // bytes
	isolatedAnswer  = 16 * MaxSource   // bytes; the map of a source, in base64, is the largest part
)

// parserSlots is the semaphore of parsing processes, since a bomb uses all of a parser's memory.
var parserSlots = make(chan struct{}, max(2, runtime.NumCPU()/2))

// errParserLimits is the error for a source that exceeds the parser's time or memory.
var errParserLimits = errors.New("it takes too much time or memory to parse (is it nested very deeply?)")

func init() { role.TakeOver(role.Parser, serveParser) }

// serveParser runs a single job. The process ends with its parent, whose end of the pipe closes.
func serveParser() int {
	limitParser()
	debug.SetMaxStack(isolatedStack)
	debug.SetMemoryLimit(isolatedMemory / 2)
	in := json.NewDecoder(os.Stdin)
	var j job
	if in.Decode(&j) != nil {
		return 1
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	if json.NewEncoder(os.Stdout).Encode(j.parseHere()) != nil {
		return 1
	}
	return 0
}

// parseIsolated runs a job in another process, which may run out of time, stack or memory without harm to this one:
// there is no other way to stop a parser, or to survive a stack overflow.
func parseIsolated(ctx context.Context, j job, longest time.Duration) (answer, error) {
	select {
	case parserSlots <- struct{}{}:
		defer func() { <-parserSlots }()
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	cmd := exec.CommandContext(ctx, executablePath())
	cmd.Args = []string{role.Parser}
	cmd.Env = []string{"GOTRACEBACK=none"}
	cmd.WaitDelay = time.Second
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	err := cmp.Or(inErr, outErr)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return answer{}, fmt.Errorf("start the parser: %w", err)
	}
	var a answer
	sent := json.NewEncoder(stdin).Encode(j)
	got := json.NewDecoder(io.LimitReader(stdout, isolatedAnswer)).Decode(&a)
	cancel() // the answer is complete
	cmd.Wait()
	if sent != nil || got != nil {
		return answer{}, errParserLimits
	}
	return a, nil
}

// executablePath returns the path of this program, also after an update has replaced the file.
func executablePath() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe"
	}
	name, _ := os.Executable()
	return name
}
