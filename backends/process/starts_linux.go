package process

import "context"

// starts are what is on its way, by kind: who wants a kind that somebody starts already waits for that, and
// nobody else does. The owner's lock guards them, and is not held meanwhile.
type starts map[string]*starting

// starting is one of them.
type starting struct {
	over   chan struct{} // closed when it is there, or has failed
	cancel context.CancelFunc
}

// begin says that a kind is being started. What is done for that ends with ctx.
func (s starts) begin(ctx context.Context, kind string) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	s[kind] = &starting{make(chan struct{}), cancel}
	return ctx
}

// end says that it is not any more.
func (s starts) end(kind string) {
	s[kind].cancel()
	close(s[kind].over)
	delete(s, kind)
}

// cancel has all of them fail soon, and returns them.
func (s starts) cancel() (all []*starting) {
	for _, one := range s {
		one.cancel()
		all = append(all, one)
	}
	return all
}

// wait returns when it is over: who asks again learns more.
func (s *starting) wait(ctx context.Context) error {
	select {
	case <-s.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
