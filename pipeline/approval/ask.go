package approval

import (
	"context"
	"errors"
	"sync"
)

// Ask asks q, waits for the answer, and asks again if the answer covers only others. show, if not nil, displays the
// question to a person and answers it through the broker. Ask calls it in a goroutine of its own, for one waiting
// caller of the same question at a time; show returns when its context ends, which happens when the question is
// answered. An error means that the question could not be asked, or that ctx ended.
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
		if ctx.Err() != nil { // another caller may show it then; a dismissed dialog stays closed
			<-p.w.screen
		}
	})
	return p.Wait(ctx)
}
