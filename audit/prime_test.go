package audit

import "testing"

// A log whose first checkpoint was prepared, and then came later than those of another process.
func TestPrepared(t *testing.T) {
	for name, after := range map[string]int{"fewer": 1, "more": 9} {
		t.Run(name, func(t *testing.T) {
			path := logPath(t)
			slow := openSigned(t, path, signing(1000))
			fill(t, slow, 5)
			fill(t, slow, 1) // which its writer takes after it has prepared
			quick := openSigned(t, path, signing(1000))
			fill(t, quick, after)
			if err := quick.Close(); err != nil {
				t.Fatal(err)
			}
			fill(t, slow, 2)
			if err := slow.Close(); err != nil {
				t.Fatal(err)
			}
			wantSigned(t, path, int64(8+after), 'a')
		})
	}
}

// Rows are on the disk before the checkpoint after them is prepared, and a key that can't be used then is
// asked for again.
func TestPreparedInVain(t *testing.T) {
	path := logPath(t)
	first := openSigned(t, path, signing(1000))
	fill(t, first, 3)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	release := hold(t, path)
	l := openSigned(t, path, signing(1000))
	release()
	fill(t, l, 2)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wantSigned(t, path, 5, 'a')
}
