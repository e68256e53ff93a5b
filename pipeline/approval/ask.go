package approval

import (
	"context"
	"errors"
	"sync"
)

// Ask asks q, waits for the answer, and asks again where an answer turns out to be for others. show,
// if there is one, shows the question to a person and answers it through the broker; it is called in
// a goroutine of its own, for at most one at a time of those who wait for the same question, and
// returns when its context ends, which it does when the question is answered. An error means that
// nothing could be asked, or that ctx ended.
func (b *Broker) Ask(ctx context.Context, q Question, show func(context.Context, *Pending)) (Answer, error) {
	for {
		p, err := b.Open(ctx, q)
		if err != nil {
			return Answer{}, err
		}
		a, err := p.waitWithPrompt(ctx, show)
		if !errors.Is(err, ErrOther) {
			return a, err
		}
	}
}

func (p *Pending) waitWithPrompt(ctx context.Context, show func(context.Context, *Pending)) (Answer, error) {
	if show == nil || p.w.isDecided() {
		return p.Wait(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	var presenting sync.WaitGroup
	defer presenting.Wait()
	defer cancel()
	presenting.Go(func() {
		select {
		case p.w.screen <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if !p.w.isDecided() {
			show(ctx, p)
		}
		if ctx.Err() != nil { // who waits with us may show it; what a person has put aside stays so
			<-p.w.screen
		}
	})
	return p.Wait(ctx)
}
