package container

import (
	"context"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// parked are containers that were started ahead. Their inits have greeted and wait for what they are to be.
// Each is for one sandbox, and one that ends before is forgotten.
type parked struct {
	mu      sync.Mutex
	closed  bool
	shelves map[shape]*shelf
	tally   backends.PoolCounters
	images  map[string]named // by language, as it was found last
	uses    int              // a clock
}

// named is an image, and what it is called in results.
type named struct {
	image Image
	title string
}

func (k *parked) last(language string) (named, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, known := k.images[language]
	return n, known
}

func (k *parked) saw(language string, n named) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.images[language] = n
}

// shelf has those of one shape.
type shelf struct {
	boxes   []*box
	used    int // when it was wanted last
	filling bool
}

// mostShelves is how many shapes there are containers for at one time: as many as languages.
const mostShelves = 4

// take returns one that nobody else gets, or nil.
func (k *parked) take(of shape) *box {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.shelves[of]
	if s == nil || len(s.boxes) == 0 {
		return nil
	}
	x := s.boxes[0]
	s.boxes = s.boxes[1:]
	return x
}

// put adds one, unless its shape is not wanted any more.
func (k *parked) put(of shape, x *box) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.shelves[of]
	if k.closed || s == nil {
		return false
	}
	s.boxes = append(s.boxes, x)
	return true
}

// drop forgets one, and says whether it was still there.
func (k *parked) drop(x *box) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.shelves {
		for i, other := range s.boxes {
			if other == x {
				s.boxes = append(s.boxes[:i:i], s.boxes[i+1:]...)
				return true
			}
		}
	}
	return false
}

// want notes that a shape was asked for, and says how many are missing, if nobody fills its shelf yet. The shape
// that was not wanted for longest makes room.
func (k *parked) want(of shape, ahead int) (missing int, unwanted []*box) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || ahead <= 0 {
		return 0, nil
	}
	k.uses++
	s := k.shelves[of]
	if s == nil {
		s = &shelf{}
		k.shelves[of] = s
	}
	s.used = k.uses
	if len(k.shelves) > mostShelves {
		var oldest shape
		for other, o := range k.shelves {
			if c := k.shelves[oldest]; c == nil || o.used < c.used {
				oldest = other
			}
		}
		unwanted = k.shelves[oldest].boxes
		delete(k.shelves, oldest)
	}
	missing = max(0, ahead-len(s.boxes))
	if s.filling {
		missing = 0
	} else {
		s.filling = missing > 0
	}
	return missing, unwanted
}

func (k *parked) filled(of shape) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.shelves[of]; s != nil {
		s.filling = false
	}
}

// clear gives up all, for good.
func (k *parked) clear() (unwanted []*box) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.shelves {
		unwanted = append(unwanted, s.boxes...)
	}
	k.closed, k.shelves = true, nil
	return unwanted
}

// refill starts, in the background, what is missing of a plan's shape.
func (b *Backend) refill(p *plan) {
	of := p.shape()
	missing, unwanted := b.parked.want(of, b.config.Ahead)
	for _, x := range unwanted {
		b.dispose(x)
	}
	if missing == 0 {
		return
	}
	done, err := b.use()
	if err != nil {
		return
	}
	go func() {
		defer done()
		defer b.parked.filled(of)
		for range missing {
			if !b.park(b.life, of, p.ahead()) {
				return // the next Start will say why, if it fails likewise
			}
		}
	}()
}

// ahead is the plan of a container of the same shape, for somebody who is not known yet.
func (p *plan) ahead() *plan {
	next := *p
	next.user = p.stranger()
	return &next
}

// park starts one.
func (b *Backend) park(ctx context.Context, of shape, p *plan) bool {
	x, err := b.make(ctx, p, "", false)
	if err != nil {
		return false
	}
	if x.line.Facts().Runtime.Path == "" || x.line.Prepare(p.spec) != nil || !b.parked.put(of, x) {
		b.dispose(x)
		return false
	}
	go func() {
		select {
		case <-x.line.Done():
			if b.parked.drop(x) {
				b.dispose(x)
			}
		case <-b.life.Done(): // Close has it removed
		}
	}()
	return true
}
