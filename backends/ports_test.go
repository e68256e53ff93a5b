package backends

import (
	"errors"
	"testing"
)

func numbers(first, n int) (list []int) {
	for i := range n {
		list = append(list, first+i)
	}
	return list
}

func TestCheckPorts(t *testing.T) {
	for _, tt := range []struct {
		name        string
		ports       []int
		ok, refusal bool
	}{
		{"none", nil, true, false},
		{"two", []int{80, 443}, true, false},
		{"as many as can be, with names", numbers(100, MaxSockets-2), true, false},
		{"one more", numbers(100, MaxSockets-1), false, true},
		{"twice", []int{80, 80}, false, true},
		{"the resolver's", []int{DNSPort}, false, true},
		{"zero", []int{0}, false, false},
		{"too high", []int{65536}, false, false},
	} {
		err := CheckPorts(Spec{Gateway: tt.ports})
		var refusal *Refusal
		if (err == nil) != tt.ok || errors.As(err, &refusal) != tt.refusal {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}
