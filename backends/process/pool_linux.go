package process

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// pool keeps sandboxes ready whose interpreters wait for programs that may come. Each is for one
// program, and only what a program of the same recipe has asked for is made.
type pool struct {
	backend *Backend
	config  Pool
	making  sync.WaitGroup
	enough  context.Context // ends when nothing more is to be made
	stop    context.CancelFunc

	compiling sync.Mutex
	compiled  map[string][]byte // by interpreter: what it waits in

	mu      sync.Mutex
	closed  bool
	makers  int // sandboxes in the making, of all kinds
	shelves map[recipe]*shelf
	tally   backends.Tally
	sweep   *time.Timer // for kinds that nobody asks for any more
	refill  *time.Timer // after what was taken last
}

// shelf is what stands ready of one recipe.
type shelf struct {
	ready  []*sandbox // the oldest first
	want   int        // how many are to stand ready
	making int
	given  bool      // up: what is still in the making is closed
	made   int       // so far
	memory int64     // bytes of one, as last measured
	asked  time.Time // last
	failed string    // why the last could not be made
	retry  time.Time // not before, if so
	unborn string    // why the last was not forked from a zygote
}

const (
	poolMemory = 256 << 20       // unless Pool.Memory says otherwise
	poolIdle   = 5 * time.Minute // and Pool.Idle
	// guessed is what one is taken to hold before any of its shelf has been measured.
	guessed = 8 << 20
	// measured is how many are made between two measurements, which cost as much as a small program.
	measured = 64
	// respite is how long a program that runs on puts off that another takes its place: shorter ones are
	// to have the machine to themselves.
	respite = 50 * time.Millisecond
	// again is when something that failed is tried once more.
	again = time.Minute
	// mostShelves bounds what is remembered of what callers choose: scripts' names and limits.
	mostShelves = 64
	// longestFailure is how many bytes of a failure are told to those who find nothing ready.
	longestFailure = 150
)

// open says what the pool is for. Nothing is made before somebody asks.
func (p *pool) open(b *Backend, c Pool) {
	if b.config.Inside {
		c.Max = 1 // for the one program of the container
	}
	c.Memory, c.Idle = cmp.Or(c.Memory, poolMemory), cmp.Or(c.Idle, poolIdle)
	p.backend, p.config = b, c
	p.shelves, p.compiled = map[recipe]*shelf{}, map[string][]byte{}
	p.enough, p.stop = context.WithCancel(context.Background())
}

// take returns a sandbox that stands ready for spec's program; or why there is none, if one was wanted.
func (p *pool) take(spec backends.Spec) (*sandbox, string) {
	if p.config.Max <= 0 || spec.Program == nil {
		return nil, ""
	}
	r, why := recipeOf(spec)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ""
	}
	if why != "" {
		return nil, why
	}
	s, why := p.pick(r)
	if s != nil {
		s.id, s.program = spec.ID, spec.Program
	}
	return s, why
}

// clear ends what stands ready, and waits for it.
func (p *pool) clear() {
	p.mu.Lock()
	for r := range p.shelves {
		p.giveUp(r)
	}
	p.mu.Unlock()
	p.making.Wait()
}

// prepare has one stand ready for spec's program if that can be, and returns when it does.
func (p *pool) prepare(spec backends.Spec) {
	r, why := recipeOf(spec)
	if why != "" {
		return
	}
	sh := &shelf{want: 1, making: 1, asked: time.Now()}
	p.mu.Lock()
	p.shelves[r] = sh
	p.makers++
	p.mu.Unlock()
	p.make(r, sh)
}

// record counts a sandbox that has started for a program: whether that stood ready, or was forked at once, as its result
// will say; why not, or "".
func (p *pool) record(language string, ram int64, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if tally := p.tally.Of(language, ram); why == "" {
		tally.Hits++
	} else {
		tally.Miss(why)
	}
}

// missed says that what was recorded as ready was of no use after all.
func (p *pool) missed(s *sandbox, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tally := p.tally.Of(s.runtime.Name, s.limits.RAM)
	tally.Hits--
	tally.Miss(why)
}

// pick takes the oldest of a shelf that is alive.
func (p *pool) pick(r recipe) (*sandbox, string) {
	sh := p.shelves[r]
	if sh == nil {
		if asked := p.byAsked(); len(asked) >= mostShelves {
			p.giveUp(asked[len(asked)-1])
		}
		sh = &shelf{want: 1}
		p.shelves[r] = sh
	}
	sh.asked = time.Now()
	if !p.backend.config.Inside {
		p.later(&p.sweep, p.config.Idle/4, p.tidy)
		p.later(&p.refill, respite, p.fill)
	}
	for len(sh.ready) > 0 {
		s := sh.ready[0]
		sh.ready = sh.ready[1:]
		if s.parked.leave() && p.backend.nests.current(s.birth) {
			return s, ""
		}
		p.discard(s)
	}
	// They come faster than they are made, or several at once.
	sh.want = min(sh.want+1, 2*runtime.NumCPU())
	why := "none stood ready"
	if cause := cmp.Or(sh.failed, sh.unborn); cause != "" {
		why += ": " + cause
	}
	return nil, why
}

// later has f run after a while, once at a time. close stops it, or waits for it. The caller has locked.
func (p *pool) later(t **time.Timer, after time.Duration, f func()) {
	if *t != nil || p.closed {
		return
	}
	p.making.Add(1)
	*t = time.AfterFunc(after, func() {
		defer p.making.Done()
		p.mu.Lock()
		*t = nil
		p.mu.Unlock()
		f()
	})
}

// giveUp forgets a shelf and what stands on it. The caller has locked.
func (p *pool) giveUp(r recipe) {
	sh := p.shelves[r]
	delete(p.shelves, r)
	sh.given = true
	for _, s := range sh.ready {
		p.discard(s)
	}
	sh.ready = nil
}

// discard closes, in the background, a sandbox that nobody has.
func (p *pool) discard(s *sandbox) { p.making.Go(func() { s.Close() }) }

// fill has made what is wanted, kinds asked for last first, and a few at a time.
func (p *pool) fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	now := time.Now()
	for _, r := range p.byAsked() {
		sh := p.shelves[r]
		for len(sh.ready)+sh.making < sh.want && p.makers < max(1, runtime.NumCPU()/2) && now.After(sh.retry) && p.room(sh) {
			sh.making++
			p.makers++
			p.making.Go(func() { p.make(r, sh) })
		}
	}
}

// byAsked lists the shelves' recipes, those asked for last first.
func (p *pool) byAsked() []recipe {
	return slices.SortedFunc(maps.Keys(p.shelves), func(a, b recipe) int { return p.shelves[b].asked.Compare(p.shelves[a].asked) })
}

// room says whether one more of a shelf may be made. What was asked for long before has to make room, and a second of a
// kind for the first of another: two languages asked for at once had a host of two cores keep nothing for a third.
func (p *pool) room(sh *shelf) bool {
	for {
		count, bytes := 1, sh.bytes()
		for _, other := range p.shelves {
			n := len(other.ready) + other.making
			count, bytes = count+n, bytes+int64(n)*other.bytes()
		}
		if count <= p.config.Max && bytes <= p.config.Memory {
			return true
		}
		oldest, fullest := sh, sh
		for _, other := range p.shelves {
			if len(other.ready) > 0 && other.asked.Before(oldest.asked) {
				oldest = other
			}
			if len(other.ready) > len(fullest.ready) {
				fullest = other
			}
		}
		gives := oldest
		switch {
		case len(sh.ready)+sh.making == 0 && len(fullest.ready) > 1: // one of each kind goes before a second
			gives = fullest
		case sh.asked.Sub(oldest.asked) < p.config.Idle/8:
			return false
		}
		p.discard(gives.ready[0])
		gives.ready = gives.ready[1:]
		gives.want = len(gives.ready)
	}
}

func (sh *shelf) bytes() int64 { return cmp.Or(sh.memory, guessed) }

// make makes one and puts it on its shelf.
func (p *pool) make(r recipe, sh *shelf) {
	ctx, cancel := p.backend.starting(p.enough)
	defer cancel()
	s, err := p.backend.stand(ctx, r)
	p.mu.Lock()
	sh.made++
	measure := sh.made%measured == 0 || sh.made&(sh.made-1) == 0 // the more there are, the more they share
	p.mu.Unlock()
	var memory int64
	if err == nil && measure {
		memory = s.pss()
	}
	p.mu.Lock()
	sh.making-- // not before it is on its shelf, or tidy could give that up meanwhile
	p.makers--
	sh.failed = ""
	switch {
	case err != nil:
		sh.failed, sh.retry = brief(err), time.Now().Add(again)
	case p.closed || sh.given:
		defer s.Close()
	default:
		sh.unborn = ""
		if s.unborn != nil {
			sh.unborn = brief(s.unborn)
		}
		sh.ready = append(sh.ready, s)
		sh.memory = cmp.Or(memory, sh.memory)
		p.attend(s, sh)
	}
	p.mu.Unlock()
	if err == nil {
		p.fill()
	}
}

// brief is what an error says, in one line that is not too long to be counted.
func brief(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	return strings.ToValidUTF8(text[:min(len(text), longestFailure)], "")
}

// attend discards a sandbox whose interpreter ends while it waits.
func (p *pool) attend(s *sandbox, sh *shelf) {
	k := s.parked
	var exit <-chan launch.Message
	if k.pid != 0 {
		exit = s.life(k.pid).exit
	}
	k.watching.Add(1)
	p.making.Go(func() {
		select {
		case <-exit:
		case <-s.gone:
		case <-k.left:
			k.watching.Done()
			return
		}
		k.dead = true
		k.watching.Done()
		p.mu.Lock()
		i := slices.Index(sh.ready, s)
		if i >= 0 {
			sh.ready = slices.Delete(sh.ready, i, i+1)
		}
		p.mu.Unlock()
		if i >= 0 { // or somebody has it in hand
			s.Close()
			p.fill()
		}
	})
}

// tidy gives up what nobody has asked for lately, and a little of what was wanted at the busiest time.
func (p *pool) tidy() {
	left := p.backend.zygotes.tidy(p.config.Idle)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	for r, sh := range p.shelves {
		sh.want = max(1, sh.want-1)
		if time.Since(sh.asked) > p.config.Idle {
			sh.want = 0
		}
		for len(sh.ready) > sh.want {
			p.discard(sh.ready[0])
			sh.ready = sh.ready[1:]
		}
		if sh.want == 0 && sh.making == 0 {
			p.giveUp(r)
		}
	}
	if left || len(p.shelves) > 0 {
		p.later(&p.sweep, p.config.Idle/4, p.tidy)
	}
}

// list implements Backend.Pools.
func (p *pool) list() []backends.Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ready []backends.Pool
	for r, sh := range p.shelves {
		ready = append(ready, backends.Pool{Language: r.language, RAM: r.limits.RAM, Ready: len(sh.ready), Memory: int64(len(sh.ready)) * sh.bytes()})
	}
	return p.tally.Pools(ready)
}

// close ends what stands ready, and waits for it.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	for _, t := range []*time.Timer{p.sweep, p.refill} {
		if t != nil && t.Stop() {
			p.making.Done()
		}
	}
	var all []*sandbox
	for _, sh := range p.shelves {
		all = append(all, sh.ready...)
		sh.ready = nil
	}
	p.mu.Unlock()
	p.stop()
	for _, s := range all {
		s.Close()
	}
	p.making.Wait()
}
