package share

import "testing"

// TestUserComesAgain checks that a user is reused only when no process of its sandbox is left, and then as late as
// possible.
func TestUserComesAgain(t *testing.T) {
	var u Users
	defer u.Close()
	first, err := u.Assign()
	if err != nil {
		t.Fatal(err)
	}
	for range blockUIDs - 1 {
		if uid, err := u.Assign(); err != nil || uid == first {
			t.Fatal(uid, err)
		}
	}
	if uid, err := u.Assign(); err == nil {
		t.Fatalf("%d is assigned twice", uid)
	}
	u.Return(first)
	if uid, err := u.Assign(); err != nil || uid != first {
		t.Errorf("got %d %v, want the only one that is free, %d", uid, err, first)
	}
}
