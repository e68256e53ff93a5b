package changes

import "context"

// Verify compares a directory with the states after the program, or before it, of all entries that are not refused, and
// returns the paths that differ.
func Verify(ctx context.Context, entries []Entry, dir string, before bool) ([]Conflict, error) {
	t, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	var all []Conflict
	for _, e := range entries {
		want := e.After
		if before {
			want = e.Before
		} else if e.Refused != "" {
			continue
		}
		now, _, err := t.state(ctx, e.Path)
		switch {
		case ctx.Err() != nil:
			return all, context.Cause(ctx)
		case err != nil:
			all = append(all, Conflict{e.Path, "can't be read: " + bare(err).Error()})
		case !same(now, want):
			all = append(all, Conflict{e.Path, "is " + now.describe() + ", not " + want.describe()})
		}
	}
	return all, nil
}
