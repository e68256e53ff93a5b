package process

import "testing"

// TestUserComesAgain sees that a user is another sandbox's only when no process of the first is left, and then as late as can be.
func TestUserComesAgain(t *testing.T) {
	var u uids
	defer u.close()
	first, err := u.take()
	if err != nil {
		t.Fatal(err)
	}
	for range blockUIDs - 1 {
		if uid, err := u.take(); err != nil || uid == first {
			t.Fatal(uid, err)
		}
	}
	if uid, err := u.take(); err == nil {
		t.Fatalf("%d is assigned twice", uid)
	}
	u.giveBack(first)
	if uid, err := u.take(); err != nil || uid != first {
		t.Errorf("got %d %v, want the only one that is free, %d", uid, err, first)
	}
}
